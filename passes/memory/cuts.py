"""Which forward values suffice to compute all others again: the cheapest cuts of a program."""

from collections.abc import Callable, Collection

import numpy as np

from relaxjax.ir.expr import Var

from .program import Program
from .step import Step

# Flows are counted in these, because scipy's are 32 bits wide.
_UNIT = 1024
_UNBOUNDED = 2**31 - 1


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
    reached = _reached(edges, source, sink)
    return frozenset(
        var
        for var, index in places.items()
        if 2 * index in reached and 2 * index + 1 not in reached
    )


def _reached(edges: dict[tuple[int, int], int], source: int, sink: int) -> Collection[int]:
    """The nodes on the source's side of the cheapest cut."""
    # Here, because they take long to import, and few programs plan memory.
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

    if not edges:
        return frozenset()
    starts, ends = np.array(list(edges)).T
    size = sink + 1
    capacity = csr_array((np.array(list(edges.values()), np.int32), (starts, ends)), (size, size))
    rest = capacity - maximum_flow(capacity, source, sink).flow
    rest.eliminate_zeros()
    return frozenset(breadth_first_order(rest, source, return_predecessors=False).tolist())


def boundaries(program: Program) -> list[frozenset[Var]]:
    """For each place between two forward steps, the values before it that are used after it."""
    last = {v: i for i, step in enumerate(program.forward) for v in step.inputs}
    found: list[frozenset[Var]] = []
    open_values: set[Var] = set()
    for index, step in enumerate(program.forward):
        open_values.add(step.var)
        open_values = {var for var in open_values if last.get(var, -1) > index}
        found.append(frozenset(open_values))
    return found
