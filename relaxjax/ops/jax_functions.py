"""Functions written in JAX as expressions: traced where they are called."""

from collections.abc import Callable
from typing import Any

import jax

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Expr, Tuple
from relaxjax.ir.function import SeqExpr
from relaxjax.ir.wording import a_kind

from .declare import OpError, sugar
from .lax import JaxSymbols, lost_rule, read_jaxpr, whole_function, x64_for
from .lax.tracing import NotTraceableError, abstract_tensors, arranged, filled

_INSTEAD = {
    "jax.custom_jvp": "Call the function without it, which is its attribute `fun`, in a function "
    "of the module, and give that one the rule by the pass CustomGradient",
    "jax.custom_vjp": "Call the function without it, which is its attribute `fun`, in a function "
    "of the module, and give that one the rule by the pass CustomGradient",
    "jax.lax.custom_linear_solve": "Solve by jax.scipy.linalg.lu_factor and lu_solve, or read the "
    "whole program by relaxjax.from_jax, which keeps it",
    "JAX itself": "Read the whole program by relaxjax.from_jax, which keeps it",
}


@sugar("relax.call_jax")
def call_jax(function: Callable[..., Any], *args: Expr) -> SeqExpr:
    """`function(*args)` for any function that JAX can trace: `R.call_jax(jax.nn.mish, x)`.

    What stands in the program is what the function does, as operators of the `lax` dialect, so it
    prints, differentiates and runs like everything else. Its result is a tensor, or tensors in
    tuples and lists.

    Functions of JAX's own, such as `jax.nn.softplus`, have the derivatives that JAX gives them.
    A rule of the user's by `jax.custom_vjp` or `jax.custom_jvp` would be lost, so it is refused:
    `CustomGradient` gives one to a function of the module. So would that of
    `jax.lax.custom_linear_solve`, as `jnp.linalg.solve` has it.
    """
    name = getattr(function, "__name__", repr(function))
    try:
        template, tensors = arranged(args)
        symbols = JaxSymbols()
        types = [tensor.ty for tensor in tensors]
        avals = abstract_tensors(types, symbols)
    except NotTraceableError:
        found = ", ".join(f"`{arg}` of type {arg.ty}" for arg in args)
        raise OpError(
            f"R.call_jax({name}, …) needs tensors of known shape and dtype, found {found}"
        ) from None

    def on_tensors(*arrays: Any) -> Any:
        return function(*(filled(item, arrays, symbols) for item in template))

    with x64_for(*types):
        jaxpr, result = jax.make_jaxpr(on_tensors, return_shape=True)(*avals)
    lost = lost_rule(jaxpr)
    if lost is not None:
        raise OpError(
            f"R.call_jax({name}, …): a rule by {lost} in it would be lost. {_INSTEAD[lost]}"
        )
    builder = BlockBuilder()
    with builder.scope():
        read = read_jaxpr(jaxpr, tensors, builder, symbols=symbols, own_rule=whole_function)
        leaves = iter(read)
        return builder.sequence(_nested(result, leaves, name))


def _nested(result: Any, leaves: Any, name: str) -> Expr:
    """The results in the nesting of what the function returned."""
    if isinstance(result, tuple | list):
        return Tuple(tuple(_nested(item, leaves, name) for item in result))
    if isinstance(result, jax.ShapeDtypeStruct):
        leaf: Expr = next(leaves)
        return leaf
    raise OpError(
        f"R.call_jax({name}, …) must give a tensor, or tensors in tuples and lists, "
        f"but it gives {a_kind(result)}"
    )
