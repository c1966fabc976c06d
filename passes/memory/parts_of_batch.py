"""Whether an adjoint takes its batch in parts, and in how many."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from operator import attrgetter
from typing import NamedTuple

import jax

from relaxjax.ir.module import IRModule
from relaxjax.ops.platform import chosen_platform, has_several_cpus
from relaxjax.trainable.sharding import Distribution

from .batch.choosing import Axes, Parts, batches, counts, counts_to_one, most_quick
from .batch.kinds import MixedError
from .batch.split_batch import batch_size, in_equal_parts, is_apart
from .offload import peak_as_written
from .planning.decisions import Decided
from .planning.planner import WORTH
from .planning.recompute import rematerialized
from .program.caller import Caller

# Parts that are predicted to take more than this share of a limit exceed it as a rule: those of a
# language model take 1.045 of what is predicted.
_SPARE = 0.97


class _Known(NamedTuple):
    """Parts of a batch, the module that takes it so, and the peak that is predicted."""

    parts: Parts
    split: IRModule
    peak: int


def in_parts(mod: IRModule, name: str, caller: Caller | None, plans: Sequence[Decided]) -> Decided:
    """The last of some plans, or one of them with the batch in parts where that saves enough.

    A part computes nothing again that its plan does not: the first plans are preferred.
    """
    best, peak = plans[-1], plans[-1].plan.peak
    sizes: dict[Axes, int] | None = None  # of the batches that may be taken so
    for found in plans:
        whole = rematerialized(mod, name, found.plan)
        most = most_quick(whole[name], found.plan.peak)
        if most < 2:
            continue
        sizes = _sizes(mod, name) if sizes is None else sizes
        for axes, size in list(sizes.items()):
            # The most parts, of the likeliest batch that saves enough: no other is tried then.
            number = max(counts(size, most), default=1)
            known = _known(whole, name, caller, Parts(number, axes)) if number > 1 else None
            if number > 1 and known is None:
                del sizes[axes]
            if known is not None and known.peak <= WORTH * peak:
                best, peak = found._replace(parts=known.parts), known.peak
                sizes = {axes: size}
                break
    return best


@dataclass
class InParts:
    """Which of some plans keep a limit with the batch in parts, by what is `taken` of XLA's count.

    `sizes` are what was taken. What takes more than was predicted is of a part: so many bytes more
    are expected of others, by the sizes of their parts.
    """

    mod: IRModule
    name: str
    caller: Caller | None
    plans: Iterable[Decided]
    limit: int
    taken: Callable[[IRModule], int]
    sizes: list[int] = field(default_factory=list)
    _more: int = 0  # bytes than predicted, if the whole batch were the part
    _smallest: tuple[_Known, Decided] | None = None
    _counted: list[_Known] = field(default_factory=list)

    def likely(self) -> Decided | None:
        """The first that keeps the limit as was predicted, plan by plan, in as few parts as do.

        Where every batch is mixed, what it is mixed of may be computed before, and again.
        """
        apart, again = _apart(self.mod, self.name), False
        if not apart:  # then of the likeliest one
            apart, again = _apart(self.mod, self.name, again=True), True
        wanted = [
            [Parts(number, axes, again) for number in counts_to_one(size)]
            for axes, size in apart.items()
        ]
        for found in self.plans if wanted else ():
            whole = rematerialized(self.mod, self.name, found.plan)
            quick = most_quick(whole[self.name], found.plan.peak)
            for numbers in wanted:
                for one in _likely(whole, self.name, self.caller, numbers, self.limit, quick):
                    if self._smallest is None or one.peak < _SPARE * self._smallest[0].peak:
                        self._smallest = one, found
                    expected = one.peak + self._more // one.parts.number
                    if expected <= self.limit and (kept := self._tried(one, found)) is not None:
                        return kept
        return None

    def unlikely(self) -> Decided | None:
        """The smallest, where that is not expected to keep the limit: it may take less."""
        if self._smallest is None or any(one is self._smallest[0] for one in self._counted):
            return None
        return self._tried(*self._smallest)

    def _tried(self, one: _Known, found: Decided) -> Decided | None:
        self._counted.append(one)
        self.sizes.append(self.taken(one.split))
        self._more = max(self._more, (self.sizes[-1] - one.peak) * one.parts.number)
        if self.sizes[-1] > self.limit:
            return None
        return found._replace(limit=self.limit, parts=one.parts)


def _likely(
    whole: IRModule,
    name: str,
    caller: Caller | None,
    numbers: Sequence[Parts],
    limit: int,
    quick: int,
) -> Iterator[_Known]:
    """The parts of a batch that are predicted to keep a limit, few first; the most in any case.

    Others are not looked at where the most do not keep it. More parts are expected to take less: if
    the fewest of all do not keep it, with something to spare, those that do are found by halving.
    Of those with nothing to spare, the smallest is next: before the most, unless those are `quick`.
    """
    most = numbers[-1]
    usual = numbers if most.number <= quick else numbers[:-1]

    @cache
    def known(number: Parts) -> _Known | None:
        return _known(whole, name, caller, number)

    def keeps(number: Parts, share: float = _SPARE) -> bool:
        one = known(number)
        return one is not None and one.peak <= limit * share

    if keeps(most, share=1):
        first = 0 if keeps(numbers[0]) else bisect_left(usual, True, key=keeps)
        yield from (one for n in usual[first:] if keeps(n) and (one := known(n)) is not None)
        barely = filter(lambda n: keeps(n, share=1), usual[:first])
        found = (one for n in barely if (one := known(n)) is not None)
        yield from islice(sorted(found, key=attrgetter("peak")), 1)
    last = known(most)
    if last is not None:
        yield last


def split_as(mod: IRModule, name: str, parts: Parts) -> IRModule:
    """The module whose function takes its batch in these parts."""
    function = mod[name]
    split = in_equal_parts(mod, function, *parts.of(function), parts.again)
    return mod.with_function(name, split)


def _sizes(mod: IRModule, name: str) -> dict[Axes, int]:
    """The axes of the batches that a function may have, and how many samples each has.

    None where the batch may have its parts on several devices already.
    """
    is_placed = Distribution.of(mod) is not None or not jax.sharding.get_abstract_mesh().empty
    if chosen_platform() != "cpu" or is_placed or has_several_cpus():
        return {}
    found = batches(mod[name])
    return {tuple((v.name, at) for v, at in axes.items()): batch_size(axes) for axes in found}


def _apart(mod: IRModule, name: str, again: bool = False) -> dict[Axes, int]:
    """The batches whose samples nothing mixes.

    What mixes those of the likeliest one may be computed before, and `again` in parts.
    """
    function, found = mod[name], dict[Axes, int]()
    for axes, size in islice(_sizes(mod, name).items(), 1 if again else None):
        # Whether they are mixed is so for any number of parts.
        few = next(counts(size, fewest=1), None)
        if few is not None and is_apart(mod, function, *Parts(few, axes).of(function), again):
            found[axes] = size
    return found


def _known(mod: IRModule, name: str, caller: Caller | None, parts: Parts) -> _Known | None:
    """What is known of a module whose function takes its batch so, None where it cannot."""
    with suppress(MixedError):
        split = split_as(mod, name, parts)
        return _Known(parts, split, peak_as_written(split, name, caller))
    return None
