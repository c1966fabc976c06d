"""Whether there is anything to be trained."""

from relaxjax.ir.module import IRModule
from relaxjax.ir.walk import used_vars
from relaxjax.passes.differentiation.activity import active_vars, in_full
from relaxjax.passes.differentiation.dead_ends import dead_ends
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
