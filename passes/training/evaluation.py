"""The loss of a model as it predicts: what evaluation data is measured by."""

from relaxjax.ir.builder import make_function
from relaxjax.ir.expr import Tuple
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace

from .append_loss import AppendLoss
from .decompose_ops import DecomposeOpsForInference

EVALUATE = "evaluate"


def with_evaluation(mod: IRModule, backbone: str, loss: Function, num_outputs: int) -> IRModule:
    """Add `evaluate`, which takes what the function with the loss takes.

    It returns the loss and then the outputs of the backbone, without its new states.
    """
    function = mod[backbone]
    result = function.body.body
    outputs = result.fields if isinstance(result, Tuple) else (result,)
    kept = outputs[: len(outputs) - mod.attrs["state_num"]]
    body = replace(function.body, body=Tuple((*outputs[:num_outputs], *kept)))
    both = make_function(function.params, body, pure=function.pure, attrs=function.attrs)
    alone = IRModule({backbone: both})
    appended = AppendLoss(backbone, loss, num_outputs, EVALUATE)(alone)[EVALUATE]
    return DecomposeOpsForInference(EVALUATE)(mod.with_function(EVALUATE, appended))
