"""The loss of a model as it is in training, which is not the model as it predicts."""

from relaxjax.ir.builder import Names, make_function
from relaxjax.ir.expr import Expr, GlobalVar
from relaxjax.ir.module import IRModule
from relaxjax.ir.renew import renew
from relaxjax.ir.walk import rewrite
from relaxjax.lowering.traits import reachable
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.trainable.arguments import Arguments, required_function
from relaxjax.trainable.names import BACKBONE, BACKBONE_LOSS, STATE_NUM

from .decompose_ops import for_training, has_training_form
from .random_keys import with_unused_key


@pass_factory(opt_level=0)
def UseTrainingForms(mod: IRModule) -> IRModule:
    """Bring the operators of `backbone_loss` into their training form, and decompose them.

    Functions that it calls and that differ in training become copies of its own. If operators draw
    random numbers in training, such as dropout, a random key becomes the last model state: the
    backbone takes it too, and returns it as it is.
    """
    required_function(mod, BACKBONE_LOSS)
    return _with_random_key(for_training(*_with_copies(mod)), mod)


def _with_copies(mod: IRModule) -> tuple[IRModule, list[str]]:
    """The module in which the loss calls copies of its own, and the names of it and of the copies.

    Copied is what behaves differently in training, or calls what does.
    """
    called = [other for other, _ in reachable(mod, BACKBONE_LOSS) if other != BACKBONE_LOSS]
    different = [
        other
        for other in called
        if any(has_training_form(function) for _, function in reachable(mod, other))
    ]
    unique = Names(list(mod)).unique
    copies = {other: unique(f"{other}_training") for other in different}

    def to_copy(expr: Expr) -> Expr:
        if isinstance(expr, GlobalVar) and expr.name in copies:
            return GlobalVar(copies[expr.name], ty=expr.ty, span=expr.span)
        return expr

    changes = {}
    for old, new in {BACKBONE_LOSS: BACKBONE_LOSS, **copies}.items():
        function, _ = renew(mod[old]) if new != old else (mod[old], None)
        changed = rewrite(function, to_copy)
        changes[new] = changed if new == old else changed.without_attr("global_symbol")
    return mod.with_functions(changes), [BACKBONE_LOSS, *copies.values()]


def _with_random_key(mutated: IRModule, mod: IRModule) -> IRModule:
    """The mutated module with the random key of its loss, if there is one, as the last state."""
    loss = mutated[BACKBONE_LOSS]
    if len(loss.params) == len(mod[BACKBONE_LOSS].params):
        return mutated
    known = Arguments.of(mod, BACKBONE_LOSS)
    params = (*known.inputs, *known.params, *known.states, loss.params[-1], *known.targets)
    changes = {
        BACKBONE_LOSS: make_function(params, loss.body, pure=loss.pure, attrs=loss.attrs),
        **({BACKBONE: with_unused_key(mutated[BACKBONE])} if BACKBONE in mutated else {}),
    }
    return mutated.with_functions(changes).with_attr(STATE_NUM, len(known.states) + 1)
