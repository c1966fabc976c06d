"""The loss of a model as it predicts: what evaluation data is measured by."""

from relaxjax.ir.builder import make_function
from relaxjax.ir.expr import Tuple
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.tuples import fields_or_self
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.trainable.arguments import count_of
from relaxjax.trainable.names import BACKBONE, EVALUATE, STATE_NUM

from .append_loss import AppendLoss
from .decompose_ops import DecomposeOpsForInference


@pass_factory(opt_level=0)
def AppendEvaluation(
    mod: IRModule, loss_function: Function, num_backbone_outputs: int = 1
) -> IRModule:
    """Add `evaluate`, the loss and the outputs of `backbone` as it predicts, without dropout.

    It takes what the function with the loss takes, and returns the loss and then the outputs of
    the backbone, without its new states.
    """
    function = mod[BACKBONE]
    result = function.body.body
    outputs = fields_or_self(result)
    kept = outputs[: len(outputs) - count_of(mod, STATE_NUM)]
    body = replace(function.body, body=Tuple((*outputs[:num_backbone_outputs], *kept)))
    both = make_function(function.params, body, pure=function.pure, attrs=function.attrs)
    append = AppendLoss(BACKBONE, loss_function, num_backbone_outputs, EVALUATE)
    appended = append(IRModule({BACKBONE: both}))[EVALUATE]
    return DecomposeOpsForInference(EVALUATE)(mod.with_function(EVALUATE, appended))
