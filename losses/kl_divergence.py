"""The Kullback-Leibler divergence."""

from dataclasses import dataclass, field
from typing import ClassVar

import jax.numpy as jnp

from relaxjax.ir.arguments import check_flags
from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Constant, Expr, Var, np_dtype
from relaxjax.ops.binary import maximum
from relaxjax.ops.emit import dtype_of, scalar
from relaxjax.ops.statistical import sum
from relaxjax.ops.unary import exp, log

from .base import PointwiseLoss, class_axis


@dataclass(frozen=True)
class KLDivLoss(PointwiseLoss):
    """How far distributions are from their targets: sum over the classes of t * (log t - log p).

    `predictions` are log-probabilities of shape (N, C, d1, ...) or (C,), `targets` probabilities,
    or with `log_target` their logarithms. Each distribution gives one loss, so "mean" is the mean
    divergence. (PyTorch's "mean" divides by the classes too; its "batchmean" is ours.)
    """

    takes: ClassVar[str | None] = "log-probabilities"

    loss_name: str = field(default="kl_div_loss", init=False)
    log_target: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flags(log_target=self.log_target)

    def losses(self, builder: BlockBuilder, predictions: Var, targets: Var) -> Expr:
        t, log_t = targets, targets
        if self.log_target:
            t = builder.emit(exp(targets))
        else:
            log_t = builder.emit(log(maximum(targets, _least(targets))))
        return sum(t * (log_t - predictions), axis=class_axis(predictions))


def _least(like: Var) -> Constant:
    """The least positive number: its logarithm is finite, and times 0 is 0, as in the limit."""
    dtype = np_dtype(dtype_of(like))
    return scalar(float(jnp.finfo(dtype).tiny), like)  # type: ignore[no-untyped-call]  # of ml_dtypes
