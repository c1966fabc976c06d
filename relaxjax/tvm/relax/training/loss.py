"""Losses, where TVM has them, and the base of those that are written for it."""

from relaxjax.ir.expr import Expr, Var
from relaxjax.ir.types import Type
from relaxjax.losses import CategoricalCrossEntropyLoss as CategoricalCrossEntropyLoss
from relaxjax.losses import CrossEntropyLoss as CrossEntropyLoss
from relaxjax.losses import L1Loss as L1Loss
from relaxjax.losses import Loss as RelaxjaxLoss
from relaxjax.losses import MSELoss as MSELoss
from relaxjax.losses.base import Reduction, new_param


class Loss(RelaxjaxLoss):
    """The base of losses: a subclass defines `build`, or writes its function in `__call__`.

    The latter is TVM's way, and finds the private names here that TVM's own losses go by.
    """

    @property
    def _loss_name(self) -> str:
        return self.loss_name

    @property
    def _reduction(self) -> Reduction:
        return self.reduction

    @property
    def _num_backbone_outputs(self) -> int:
        return self.num_backbone_outputs

    def _with_reduction(self, expr: Expr) -> Expr:
        return self.reduce(expr)


def _create_param_var(param: Var | Type, param_name: str) -> Var:
    """A parameter of a loss function: of this type, or named and typed as this variable."""
    return new_param("a loss", param_name, param)
