"""Which forward values suffice to compute all others again: the cheapest cuts of a program."""

import sys
from collections.abc import Callable
from itertools import accumulate

from relaxjax.ir.expr import Var

from .flow import UNREACHED, Network
from .program import Program
from .step import Step

_UNIT = 1024  # values that differ by less are as good to keep
_UNBOUNDED = sys.maxsize


def cheapest_cut(program: Program, again: Callable[[Step], bool]) -> frozenset[Var]:
    """The forward values of the fewest bytes from which the backward part can have all it needs.

    Only steps that `again` allows are computed again. A value is two nodes with an edge between
    them as wide as its bytes: the cheapest cut between what must be computed in the forward part
    and what the backward part needs goes through the values to keep. A closure that may be written
    again is none of those: what it reads is.
    """
    places = {step.var: index for index, step in enumerate(program.forward)}
    source, sink = 2 * len(places), 2 * len(places) + 1
    edges: dict[tuple[int, int], int] = {}
    for var, index in places.items():
        step = program.step_of[var]
        is_free = again(step) and (step.is_closure or var not in program.not_again)
        is_code = is_free and step.is_closure
        edges[2 * index, 2 * index + 1] = _UNBOUNDED if is_code else max(1, -(-step.size // _UNIT))
        if not is_free:
            edges[source, 2 * index] = _UNBOUNDED
            continue
        for place in (places[v] for v in step.inputs if v in places):
            edges[2 * place + 1, 2 * index] = _UNBOUNDED
    for step in program.residuals:
        edges[2 * places[step.var] + 1, sink] = _UNBOUNDED
    far = Network(edges, sink + 1).fill(source, sink)
    return frozenset(
        var
        for var, index in places.items()
        if far[2 * index] != UNREACHED and far[2 * index + 1] == UNREACHED
    )


class Boundaries:
    """The places between two forward steps, and the values before each that are used after it."""

    def __init__(self, program: Program) -> None:
        self.steps = program.forward
        self.last = {v: place for place, step in enumerate(self.steps) for v in step.inputs}
        change = [0] * (len(self.steps) + 1)
        for place, step in enumerate(self.steps):
            change[place] += step.size
            change[max(place, self.last.get(step.var, place))] -= step.size
        self.widths = tuple(accumulate(change[:-1]))  # the bytes that cross each place

    def crossing(self, place: int) -> frozenset[Var]:
        """The values that cross a place."""
        before = (step.var for step in self.steps[: place + 1])
        return frozenset(var for var in before if self.last.get(var, -1) > place)
