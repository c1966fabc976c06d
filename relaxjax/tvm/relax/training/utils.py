"""Joining a backbone and a loss: the pass of today, and the function of before."""

from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.passes import AppendLoss as AppendLoss


def append_loss(
    orig_func: Function,
    loss_func: Function,
    num_backbone_outputs: int = 1,
    new_func_name: str = "loss",
) -> Function:
    """A function that applies a loss to the first outputs of a backbone."""
    name = "backbone" if new_func_name != "backbone" else "original"
    mod = IRModule({name: orig_func.with_attr("global_symbol", name)})
    mod = AppendLoss(name, loss_func, num_backbone_outputs, new_func_name)(mod)
    appended: Function = mod[new_func_name]
    return appended
