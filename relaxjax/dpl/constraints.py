"""What a graph of patterns must satisfy beyond each pattern itself, and where it is noted."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Edge:
    """One pattern's value is an argument of another's: the one at `index`, -1 for any."""

    producer: Any
    consumer: Any
    index: int
    only: bool  # nothing else may use it


@dataclass(eq=False)
class Constraints:
    """The patterns of a graph, in the order in which they were written, and what relates them."""

    patterns: dict[Any, None] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)
    same_shapes: list[tuple[Any, ...]] = field(default_factory=list)

    def note(self, *patterns: Any) -> None:
        self.patterns.update(dict.fromkeys(patterns))

    def connect(self, producer: Any, consumer: Any, index: int, only: bool) -> None:
        self.note(producer, consumer)
        self.edges.append(Edge(producer, consumer, index, only))


# The contexts whose `with` blocks are open, the innermost last.
OPEN: list[Constraints] = []


def innermost() -> Constraints | None:
    return OPEN[-1] if OPEN else None
