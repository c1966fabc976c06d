"""The loss of sequences whose alignment is not known: connectionist temporal classification."""

from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import lax

from relaxjax.ir.arguments import check_flags
from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.dims import can_prove_equal
from relaxjax.ir.expr import Expr, Var
from relaxjax.ir.types import TensorType, is_float
from relaxjax.ops.binary import maximum
from relaxjax.ops.datatype import astype
from relaxjax.ops.emit import dims_of, dtype_of, narrow, scalar

from .base import Loss, widened
from .functions import expression_of

_NEVER = -1e30  # the logarithm of a chance of zero: infinities would have no derivatives


@dataclass(frozen=True)
class CTCLoss(Loss):
    """-log of the chance that sequences of scores spell their targets, with blanks between them.

    `log_probs` are log-probabilities of shape (steps, samples, classes), `targets` class ids of
    shape (samples, longest), of which the first `target_lengths` count, as the first
    `input_lengths` steps do. The "mean" divides each loss by the length of its target. What no
    alignment spells has an infinite loss, or with `zero_infinity` none.
    """

    takes: ClassVar[str | None] = "log-probabilities"

    loss_name: str = field(default="ctc_loss", init=False)
    num_backbone_outputs: int = field(default=1, init=False)
    blank: int = 0
    zero_infinity: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flags(zero_infinity=self.zero_infinity)
        blank: Any = self.blank
        if isinstance(blank, bool) or not isinstance(blank, Integral) or blank < 0:
            raise ValueError(f"`blank` must be the id of a class, but it is {blank!r}")

    def build(
        self,
        builder: BlockBuilder,
        log_probs: Var,
        targets: Var,
        input_lengths: Var,
        target_lengths: Var,
    ) -> Expr:
        self._check(log_probs, targets, input_lengths, target_lengths)
        wider = widened(builder, log_probs)
        given = {
            "log_probs": wider,
            "targets": targets,
            "input_lengths": input_lengths,
            "target_lengths": target_lengths,
        }
        losses = expression_of(self._losses, given, builder, self.loss_name)
        if self.reduction == "mean":
            lengths = builder.emit(astype(target_lengths, dtype_of(wider)))
            losses = losses / maximum(lengths, scalar(1, wider))
        return self.reduce(narrow(losses, log_probs))

    def _check(self, log_probs: Var, targets: Var, *lengths: Var) -> None:
        wanted = {
            log_probs: (3, "floats, (steps, samples, classes)", True),
            targets: (2, "integers, (samples, longest), padded: give no targets end to end", False),
            **dict.fromkeys(lengths, (1, "integers, one for each sample", False)),
        }
        for var, (ndim, noun, floats) in wanted.items():
            ty = var.ty
            if not isinstance(ty, TensorType) or ty.ndim != ndim or is_float(ty.dtype) != floats:
                raise TypeError(
                    f"{self.loss_name}: `{var.name}` must be a tensor of {noun}, but it is of type "
                    f"{ty}"
                )
        classes = dims_of(log_probs)[2]
        if isinstance(classes, int) and self.blank >= classes:
            raise ValueError(
                f"{self.loss_name}: `blank` must be the id of a class, below {classes}, but it is "
                f"{self.blank}"
            )
        for var in (targets, *lengths):
            samples, others = dims_of(log_probs)[1], dims_of(var)[0]
            if not can_prove_equal(samples, others):
                raise TypeError(
                    f"{self.loss_name}: `{log_probs.name}` are of {samples} samples, and "
                    f"`{var.name}` of {others}: give their types the same size"
                )

    def _losses(self, log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any) -> Any:
        """The loss of each sample."""
        steps, samples, _ = log_probs.shape
        targets, input_lengths, target_lengths = (
            x.astype(jnp.int32) for x in (targets, input_lengths, target_lengths)
        )
        never = jnp.asarray(_NEVER, log_probs.dtype)
        labels, skips = self._states(targets, target_lengths)
        spelt = jnp.broadcast_to(labels[None], (steps, *labels.shape))
        spelt = jnp.take_along_axis(log_probs, spelt, axis=2)

        def step(reached: Any, now: tuple[Any, Any]) -> tuple[Any, None]:
            time, scores = now
            two = jnp.where(skips, _moved(reached, 2), never)
            ways = jnp.stack([reached, _moved(reached, 1), two])
            after = jnp.maximum(jax.nn.logsumexp(ways, axis=0) + scores, never)
            return jnp.where((time < input_lengths)[:, None], after, reached), None

        start = jnp.where(
            jnp.arange(labels.shape[1], dtype=jnp.int32) == 0, jnp.zeros_like(never), never
        )
        start = jnp.broadcast_to(start, (samples, *start.shape))
        times = jnp.arange(steps, dtype=jnp.int32)
        reached, _ = lax.scan(step, start, (times, spelt))
        ends = jnp.stack([2 * target_lengths, jnp.maximum(2 * target_lengths - 1, 0)], axis=1)
        last = jnp.take_along_axis(reached, ends, axis=1)
        is_end = (target_lengths > 0)[:, None] | jnp.array([True, False])[None]
        return self._bounded(-jax.nn.logsumexp(jnp.where(is_end, last, never), axis=1))

    def _states(self, targets: Any, target_lengths: Any) -> tuple[Any, Any]:
        """The labels of each sample, each between two blanks, and which of them need no blank."""
        place = jnp.arange(2 * targets.shape[1] + 1, dtype=jnp.int32)[None]
        is_label = (place % 2 == 1) & (place < 2 * target_lengths[:, None])
        twice = jnp.repeat(targets, 2, axis=1, total_repeat_length=2 * targets.shape[1])
        labels = jnp.where(
            is_label, jnp.pad(twice, ((0, 0), (0, 1))), jnp.asarray(self.blank, jnp.int32)
        )
        before = jnp.pad(labels, ((0, 0), (2, 0)))[:, :-2]
        return labels, is_label & (labels != before) & (place >= 2)

    def _bounded(self, losses: Any) -> Any:
        """What cannot be spelt: infinite, with derivatives that are no numbers, or zero."""
        is_spelt = losses < -0.5 * _NEVER
        if self.zero_infinity:
            return jnp.where(is_spelt, losses, jnp.zeros_like(losses))
        return losses * jnp.where(is_spelt, jnp.ones_like(losses), jnp.full_like(losses, jnp.inf))


def _moved(reached: Any, by: int) -> Any:
    """What was reached, so many states further on."""
    never = jnp.full((reached.shape[0], by), _NEVER, reached.dtype)
    return jnp.concatenate([never, reached[:, :-by]], axis=1)
