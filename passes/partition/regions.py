"""Regions of a block: which bindings may become one without needing themselves."""

from collections.abc import Mapping, Sequence

from relaxjax.ir.expr import Var
from relaxjax.ir.function import Binding
from relaxjax.ir.walk import used_vars

from .classes import Classes


class Contraction:
    """A block of which regions become one binding each, none of which may need itself.

    They are told one after the other, in the order of their last bindings.
    """

    def __init__(self, bindings: Sequence[Binding]) -> None:
        self.places = {binding.var: place for place, binding in enumerate(bindings)}
        self.readers: list[list[int]] = [[] for _ in bindings]
        for place, binding in enumerate(bindings):
            for var in used_vars(binding.value):
                if var in self.places:
                    self.readers[self.places[var]].append(place)
        self.regions: dict[int, list[int]] = {}

    def allows(self, region: Sequence[Binding]) -> bool:
        """Whether nothing outside a region needs it and is needed by it."""
        own = {self.places[binding.var] for binding in region}
        last = max(own)
        waiting = [reader for place in own for reader in self.readers[place] if reader not in own]
        seen = set(waiting)
        while waiting:
            place = waiting.pop()
            if place > last:
                continue  # nothing leads back from there, for no region goes on so far
            for part in self.regions.get(place, (place,)):
                for reader in self.readers[part]:
                    if reader in own:
                        return False
                    if reader not in seen:
                        seen.add(reader)
                        waiting.append(reader)
        return True

    def contract(self, region: Sequence[Binding]) -> None:
        """Make one of a region from here on."""
        places = [self.places[binding.var] for binding in region]
        self.regions |= dict.fromkeys(places, places)


def connected_regions(
    bindings: Sequence[Binding], labels: Mapping[Var, str]
) -> list[tuple[Binding, ...]]:
    """Bindings of one label in regions as big as they can be, each in order.

    A binding joins the regions of what it uses, unless something between them, outside of both,
    would then need the region and be needed by it.
    """
    graph = _Regions()
    for binding in bindings:
        parents = graph.add(binding.var, used_vars(binding.value))
        for parent in parents:
            if binding.var in labels and labels.get(parent) == labels[binding.var]:
                graph.join(binding.var, parent)
    regions: dict[Var, list[Binding]] = {}
    for binding in bindings:
        if binding.var in labels:
            regions.setdefault(graph.classes.leader(binding.var), []).append(binding)
    return [tuple(region) for region in regions.values()]


class _Regions:
    """Variables in regions, each named by a leader, and all that each region depends on."""

    def __init__(self) -> None:
        self.classes = Classes[Var]()
        self.needs: dict[Var, set[Var]] = {}

    def add(self, var: Var, used: Sequence[Var]) -> list[Var]:
        """Add a region of one variable; the leaders of those that it uses."""
        leaders = dict.fromkeys(map(self.classes.leader, used))
        parents = [leader for leader in leaders if leader in self.needs]
        self.needs[var] = set(parents).union(*(self.needs[parent] for parent in parents))
        return parents

    def join(self, var: Var, parent: Var) -> None:
        """Make the region of a variable and one that it uses the same, if nothing is in between."""
        own, parent = self.classes.leader(var), self.classes.leader(parent)
        if own is parent or any(parent in self.needs[other] for other in self.needs[own]):
            return
        self.classes.join(parent, own)
        joined = (self.needs[parent] | self.needs.pop(own)) - {own, parent}
        self.needs[parent] = joined
        for needs in self.needs.values():
            if own in needs or parent in needs:
                needs.discard(own)
                needs.add(parent)
                needs |= joined
