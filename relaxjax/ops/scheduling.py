"""When values are computed, and how often: no program computes these early, or in two kernels."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from relaxjax.ir.types import TensorType, is_float

from .cost_rules import MOVES, VIEWS
from .declare import OpError, op
from .emit import call
from .once import computed_once
from .platform import by_platform
from .rearranging import LIKE_DATA


def _barrier(x: Any, moment: Any) -> Any:
    return lax.optimization_barrier((x, moment))[0]


def _chosen(x: Any, moment: Any) -> Any:
    """`x`, unless the square of a number is negative, which XLA does not rule out.

    A CPU has no use for a barrier: XLA drops those before it orders the program. LLVM, which comes
    after that, sees that nothing is chosen.
    """
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        numbers = _chosen(jax.random.key_data(x), moment)
        return jax.random.wrap_key_data(numbers, impl=jax.random.key_impl(x))
    # By primitives, which are traced in less time than functions of jax.numpy: there are many.
    number = lax.reshape(lax.slice(moment, (0,) * moment.ndim, (1,) * moment.ndim), ())
    number = lax.convert_element_type(number, jnp.float32)
    never = lax.broadcast(lax.mul(number, number) < -1, x.shape)
    # Of ones, because `x` may well be all zeros, and then there would be nothing to choose.
    return lax.select(never, lax.full_like(x, 1), x)


@op(
    "relax.grad.delay",
    lower=by_platform(_barrier, cpu=_chosen),
    gradient=lambda g, y, x, moment: (g, None),
    jvp=lambda tangents, y, x, moment: (
        call("zeros_like", x) if tangents[0] is None else tangents[0]
    ),
    precision="follow",
    facts={"waits": True},
    cost=VIEWS,
)
def delay(x: TensorType, moment: TensorType) -> TensorType:
    """`x`, which whatever uses it cannot have before `moment` is computed: y = x.

    What is computed of it a second time is so neither computed early, nor merged with the first.
    """
    require_moment(moment)
    return x


def require_moment(moment: TensorType) -> None:
    """What others wait for has a number that can be asked for."""
    if moment.dtype is not None and not is_float(moment.dtype):
        raise OpError(f"`moment` must be of floating-point dtype, found {moment.dtype}")
    if moment.dims is not None and 0 in moment.dims:
        raise OpError("`moment` must have an element")


@op(
    "relax.grad.once",
    layout=LIKE_DATA,
    lower=computed_once,
    gradient=lambda g, y, x: g,
    jvp=lambda tangents, y, x: tangents[0],
    precision="follow",
    facts={"steers": True},
    cost=MOVES,
)
def once(x: TensorType) -> TensorType:
    """`x`, computed once: whatever decides by it, in several kernels, decides by the same bits.

    XLA may compute a value anew in each kernel that reads it, and rounds otherwise there. What
    compares it with its own maximum then finds no element that is the largest.
    """
    if x.dtype is not None and not (is_float(x.dtype) or x.dtype.startswith(("bool", "uint"))):
        raise OpError(f"`x` must be of floats, bools or unsigned integers, found {x.dtype}")
    return x
