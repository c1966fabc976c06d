"""Whether there is anything to be trained, or where the derivatives end."""

from collections.abc import Iterable, Iterator, Sequence

from relaxjax.ir.derivatives import carries_gradient
from relaxjax.ir.expr import Call, Var
from relaxjax.ir.function import Binding
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import Op
from relaxjax.ir.span import excerpt_of
from relaxjax.ir.walk import used_vars
from relaxjax.passes.differentiation.activity import active_vars, in_full
from relaxjax.passes.differentiation.dependence import Dependence
from relaxjax.passes.differentiation.inlining import inline_closures
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.trainable.arguments import Arguments, required_function
from relaxjax.trainable.names import BACKBONE_LOSS


@pass_factory(opt_level=0)
def CheckTrains(mod: IRModule) -> IRModule:
    """Raise where all gradients of `backbone_loss` by the parameters would be zero.

    So are those of the number of right answers, for one. The error names what no gradient comes
    back through.
    """
    function = required_function(mod, BACKBONE_LOSS)
    params = Arguments.of(mod, BACKBONE_LOSS).params
    body = inline_closures(function).body
    targets = set(used_vars(body.body))
    bindings = tuple(body.bindings())
    if params and not active_vars(bindings, targets, in_full(params), {}) & targets:
        ends = list(dead_ends(bindings, targets, params))
        raise ValueError(
            "SetupTrainer: the loss has no derivative by any of the parameters, so that nothing "
            + "\n".join(
                ["would be trained, since no gradient comes back through", *ends]
                if ends
                else ["would be trained: it is not computed from them"]
            )
        )
    return mod


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
