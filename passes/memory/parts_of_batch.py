"""Whether an adjoint takes its batch in parts, and in how many."""

from collections.abc import Sequence

import jax

from relaxjax.ir.module import IRModule
from relaxjax.ops.platform import chosen_platform
from relaxjax.passes.differentiation.gradient import function_of
from relaxjax.trainable.sharding import Distribution

from .batch.choosing import Parts, batches, counts
from .batch.kinds import MixedError
from .batch.split_batch import batch_size, in_equal_parts
from .offload import peak_as_written
from .planning.decisions import Decided
from .planning.planner import WORTH
from .planning.recompute import rematerialized
from .program.caller import Caller


def in_parts(mod: IRModule, name: str, caller: Caller | None, plans: Sequence[Decided]) -> Decided:
    """The last of some plans, or one of them with the batch in parts where that saves enough.

    A part computes nothing again that its plan does not: the first plans are preferred. On several
    devices, which have their own parts of the batch already, the plan stays as it is.
    """
    best, peak = plans[-1], plans[-1].plan.peak
    is_spread = Distribution.of(mod) is not None or not jax.sharding.get_abstract_mesh().empty
    if chosen_platform() != "cpu" or is_spread:
        return best
    for found in plans:
        whole = rematerialized(mod, name, found.plan)
        least = _least(whole, name, caller, found.plan.peak)
        if least is not None and least[1] <= WORTH * peak:
            best, peak = found._replace(parts=least[0]), least[1]
    return best


def _least(mod: IRModule, name: str, caller: Caller | None, peak: int) -> tuple[Parts, int] | None:
    """The parts in which an adjoint needs the least, if any, and the bytes that it needs then."""
    function = function_of(mod, name)
    found: list[tuple[Parts, int]] = []
    for axes in batches(function):
        count = next(counts(function, batch_size(axes), peak), None)
        if count is None:
            continue
        try:
            split = in_equal_parts(mod, function, count, axes)
        except MixedError:
            continue
        parts = Parts(count, tuple((var.name, axis) for var, axis in axes.items()))
        found.append((parts, peak_as_written(mod.with_function(name, split), name, caller)))
    return min(found, key=lambda one: one[1], default=None)
