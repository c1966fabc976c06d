"""Whether an adjoint takes its batch in parts, and in how many."""

from collections.abc import Callable, Iterator, Sequence

import jax

from relaxjax.ir.module import IRModule
from relaxjax.ops.platform import chosen_platform, has_several_cpus
from relaxjax.passes.differentiation.gradient import function_of
from relaxjax.trainable.sharding import Distribution

from .batch.choosing import Parts, batches, counts, is_quick
from .batch.kinds import MixedError
from .batch.split_batch import batch_size, in_equal_parts
from .offload import peak_as_written
from .planning.decisions import Decided
from .planning.planner import WORTH
from .planning.recompute import rematerialized
from .program.caller import Caller


def in_parts(mod: IRModule, name: str, caller: Caller | None, plans: Sequence[Decided]) -> Decided:
    """The last of some plans, or one of them with the batch in parts where that saves enough.

    A part computes nothing again that its plan does not: the first plans are preferred.
    """
    best, peak = plans[-1], plans[-1].plan.peak
    for found in plans:
        whole = rematerialized(mod, name, found.plan)
        function = function_of(whole, name)
        # Of each batch, the most parts.
        most = {
            parts.axes: parts
            for parts in _parts(whole, name)
            if is_quick(function, parts.number, found.plan.peak)
        }
        known = [(one, _peak(whole, name, caller, one)) for one in most.values()]
        least = min(known, key=lambda one: one[1], default=None)
        if least is not None and least[1] <= WORTH * peak:
            best, peak = found._replace(parts=least[0]), least[1]
    return best


def within_limit(
    mod: IRModule,
    name: str,
    caller: Caller | None,
    plans: Sequence[Decided],
    limit: int,
    taken: Callable[[IRModule], int],
) -> Decided | None:
    """The first of some plans that keeps a limit with the batch in parts, in as few as do so.

    That is by what is predicted, and then by what is `taken` by XLA's count.
    """
    for found in plans:
        whole = rematerialized(mod, name, found.plan)
        for parts in _parts(whole, name):
            if _peak(whole, name, caller, parts) > limit:
                continue
            if taken(split_as(whole, name, parts)) <= limit:
                return Decided(found.planner, found.plan, limit, parts)
    return None


def split_as(mod: IRModule, name: str, parts: Parts) -> IRModule:
    """The module whose function takes its batch in these parts."""
    function = function_of(mod, name)
    return mod.with_function(name, in_equal_parts(mod, function, *parts.of(function)))


def _parts(mod: IRModule, name: str) -> Iterator[Parts]:
    """The parts in which an adjoint can take its batch, few first.

    Not where the batch may have its parts on several devices already.
    """
    is_placed = Distribution.of(mod) is not None or not jax.sharding.get_abstract_mesh().empty
    if chosen_platform() != "cpu" or is_placed or has_several_cpus():
        return
    for axes in batches(function_of(mod, name)):
        named = tuple((var.name, axis) for var, axis in axes.items())
        found = [Parts(count, named) for count in counts(batch_size(axes))]
        if found and _are_apart(mod, name, found[0]):
            yield from found


def _are_apart(mod: IRModule, name: str, parts: Parts) -> bool:
    """Whether nothing mixes the samples, which is so for any number of parts or none."""
    try:
        split_as(mod, name, parts)
    except MixedError:
        return False
    return True


def _peak(mod: IRModule, name: str, caller: Caller | None, parts: Parts) -> int:
    return peak_as_written(split_as(mod, name, parts), name, caller)
