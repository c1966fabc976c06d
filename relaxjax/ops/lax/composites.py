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
from relaxjax.ops.refused import REFUSED

from .avals import jax_dtype
from .inlining import (
    HI_PRIMITIVE,
    RULES_BESIDE_BODIES,
    function_of_jax,
    has_own_rule,
    open_program,
    programs_inside,
)
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
# What `whole_function` keeps as it is.
_KEPT = frozenset({"relu", "computed_once", *REFUSED, *COMPOSITES})
# Functions of JAX's own whose bodies have the derivatives that their rules give.
_TOLD = frozenset(
    {
        *("softmax", "pinv", "slogdet_small", "slogdet_lu", "slogdet_qr", "det_2x2", "det_3x3"),
        *("i0", "log_ndtr", "poch", "rel_entr", "exp_neg_sq"),
    }
)


def whole_function(
    eqn: Any, args: list[Expr], found: Found, wanted: Sequence[bool]
) -> tuple[Call, Sequence[bool]] | None:
    """The operator's call in the place of an equation that calls such a function, None for others.

    It is for `own_rule` of `read_jaxpr`. What takes arrays of several dtypes promotes them first.
    """
    dtype, name = eqn.outvars[0].aval.dtype, function_of_jax(eqn)
    if name in REFUSED:
        return Call(get_op(f"relax.grad.{name}"), tuple(args)), [False]
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


def lost_rule(program: Any) -> str | None:
    """What in JAX gave a derivative to a body that may not tell it, if any does inside."""
    jaxpr, _ = open_program(program)
    for eqn in jaxpr.eqns:
        if not has_own_rule(eqn):
            continue
        function = function_of_jax(eqn)
        if function is None:
            name = eqn.primitive.name
            return RULES_BESIDE_BODIES.get(name, f"the primitive `{name}`")
        if function not in _KEPT and function not in _TOLD:
            return RULES_BESIDE_BODIES[HI_PRIMITIVE]
    inside = (lost_rule(part) for eqn in jaxpr.eqns for part in programs_inside(eqn))
    return next((name for name in inside if name), None)
