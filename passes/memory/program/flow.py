"""The largest flow through a network of arcs of given widths, and what it leaves within reach."""

from collections.abc import Mapping, Sequence

UNREACHED = -1


class Network:
    """Arcs between numbered nodes, each with the room that is left in it.

    They come in pairs: the arc after one of even number leads back, and takes back what that has.
    """

    def __init__(self, widths: Mapping[tuple[int, int], int], nodes: int) -> None:
        self.ends: list[int] = []
        self.room: list[int] = []
        self.arcs: list[list[int]] = [[] for _ in range(nodes)]  # by the node that they leave
        for (start, end), width in widths.items():
            for here, there, room in ((start, end, width), (end, start, 0)):
                self.arcs[here].append(len(self.ends))
                self.ends.append(there)
                self.room.append(room)

    def fill(self, source: int, sink: int) -> Sequence[int]:
        """Let the largest flow through; how far each node is from the source in what is left.

        This is Dinic's way: along shortest ways as long as there are any, then along longer ones.
        """
        while True:
            levels = self._levels(source, sink)
            if levels[sink] == UNREACHED:
                return levels
            self._push(source, sink, levels)

    def _levels(self, source: int, sink: int) -> list[int]:
        """How far nodes are from the source, to where the sink is reached."""
        levels = [UNREACHED] * len(self.arcs)
        levels[source] = 0
        found = [source]
        for node in found:
            for arc in self.arcs[node]:
                end = self.ends[arc]
                if levels[end] == UNREACHED and self.room[arc]:
                    levels[end] = levels[node] + 1
                    found.append(end)
            if levels[sink] != UNREACHED:
                break
        return levels

    def _push(self, source: int, sink: int, levels: Sequence[int]) -> None:
        """Let through all that goes along shortest ways."""
        tried = [0] * len(self.arcs)  # how many arcs of each node lead on no more
        way: list[int] = []
        node = source
        while True:
            if node == sink:
                node = self._let_through(way)
            arcs, level = self.arcs[node], levels[node] + 1
            place = next(
                (
                    place
                    for place in range(tried[node], len(arcs))
                    if levels[self.ends[arcs[place]]] == level and self.room[arcs[place]]
                ),
                len(arcs),
            )
            tried[node] = place
            if place < len(arcs):
                way.append(arcs[place])
                node = self.ends[way[-1]]
            elif way:
                node = self.ends[way.pop() ^ 1]
                tried[node] += 1
            else:
                return

    def _let_through(self, way: list[int]) -> int:
        """Fill a way, and go back on it to where its first full arc begins."""
        least = min(self.room[arc] for arc in way)
        for arc in way:
            self.room[arc] -= least
            self.room[arc ^ 1] += least
        first = next(place for place, arc in enumerate(way) if not self.room[arc])
        node = self.ends[way[first] ^ 1]
        del way[first:]
        return node
