"""Where derivatives end: what is computed from variables, and has no derivative by them."""

from collections.abc import Iterable, Iterator, Sequence

from relaxjax.ir.derivatives import carries_gradient
from relaxjax.ir.expr import Call, Var
from relaxjax.ir.function import Binding
from relaxjax.ir.op import Op
from relaxjax.ir.span import excerpt_of
from relaxjax.ir.walk import used_vars

from .activity import in_full
from .dependence import Dependence


def dead_ends(
    bindings: Sequence[Binding], targets: Iterable[Var], required: Iterable[Var]
) -> Iterator[str]:
    """Each binding between the required variables and the targets that no gradient passes.

    A line each, with its place.
    """
    dependence = Dependence(in_full(required), {})
    dependence.read(bindings)
    needed = set(targets)
    for binding in reversed(bindings):
        if binding.var in needed:
            needed.update(used_vars(binding.value))
    for binding in bindings:
        is_end = binding.var in needed and binding.var not in dependence
        if is_end and any(var in dependence for var in used_vars(binding.value)):
            where = excerpt_of(binding.span)
            yield f"  `{binding.var.name}`: {_reason(binding)}{where}"


def _reason(binding: Binding) -> str:
    if not carries_gradient(binding.var.ty):
        return f"it is a {binding.var.ty}, which has no derivative"
    if isinstance(binding.value, Call) and isinstance(binding.value.op, Op):
        return f"the derivative of {binding.value.op.name} is zero"
    return "its derivative is zero"
