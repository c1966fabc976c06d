"""Functions of JAX's own whose derivative is not that of their body: operators like primitives.

`jax.nn.relu` is flat at 0 where a maximum has half a slope, and `jax.nn.softplus` has half a slope
at 0 where its body is flat. What is read to be differentiated keeps them whole.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy import special

from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.op import get_op

from .avals import jax_dtype
from .inlining import function_of_jax
from .reader import Found

COMPOSITES: dict[str, Callable[..., Any]] = {
    "relu6": jax.nn.relu6,
    "log1mexp": jax.nn.log1mexp,
    "logaddexp": jnp.logaddexp,
    "logaddexp2": jnp.logaddexp2,
    "xlogy": special.xlogy,
    "xlog1py": special.xlog1py,
    "xlogx": lambda x: -special.entr(x),
    "frexp": jnp.frexp,
    "ldexp": lambda x, exponents: jnp.ldexp(x, exponents.astype(jnp.int32)),
    "det": jnp.linalg.det,
}


def whole_function(
    eqn: Any, args: list[Expr], found: Found, wanted: Sequence[bool]
) -> tuple[Call, Sequence[bool]] | None:
    """The operator's call in the place of an equation that calls such a function, None for others.

    It is for `own_rule` of `read_jaxpr`. What takes arrays of several dtypes promotes them first.
    """
    dtype, name = eqn.outvars[0].aval.dtype, function_of_jax(eqn)
    if name == "computed_once":  # that of `relaxjax.ops.once`
        return Call(get_op("relax.grad.once"), tuple(args)), [False]
    if not jnp.issubdtype(dtype, jnp.floating):
        return None
    if name == "relu":
        return Call(get_op("relax.nn.relu"), tuple(args)), [False]
    if name not in COMPOSITES:
        return None
    call: Call = get_op(f"lax.{name}")(*args, dtype=str(dtype))
    return call, [False] * len(eqn.outvars)


def composite_lowering(name: str) -> Callable[..., Any]:
    """What the operator of a function runs: the function, on arrays of one dtype."""

    def lower(*arrays: Any, dtype: str) -> Any:
        return COMPOSITES[name](*(array.astype(jax_dtype(dtype)) for array in arrays))

    return lower
