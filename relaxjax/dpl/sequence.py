"""Patterns in a row, and patterns of one shape: what relates patterns to each other."""

from collections.abc import Sequence
from typing import Any

from .constraints import innermost


class DFConstraint:
    """What relates several patterns, and is noted in the context around it."""


class SameShapeConstraint(DFConstraint):
    """Says, to the context around it, that the values of some patterns have one shape."""

    def __init__(self, *patterns: Any) -> None:
        self.patterns = patterns
        context = innermost()
        if context is not None:
            context.note(*patterns)
            context.same_shapes.append(patterns)


class PatternSeq:
    """Patterns in a row, each of which the next one uses."""

    def __init__(self, patterns: Sequence[Any], only_use: bool = False) -> None:
        self.patterns = list(patterns)
        self.only = [only_use] * (len(self.patterns) - 1)
        self.indices = [-1] * (len(self.patterns) - 1)
        for place in range(len(self.only)):
            self._connect(place)

    def used_by(self, other: "Any | PatternSeq", index: int = -1) -> "PatternSeq":
        """The last pattern here is an argument of the other, or of the other's first."""
        return self._joined(other, index, only=False)

    def only_used_by(self, other: "Any | PatternSeq", index: int = -1) -> "PatternSeq":
        """As `used_by`, and nothing else uses the value of the last pattern here."""
        return self._joined(other, index, only=True)

    def __xor__(self, other: "Any | PatternSeq") -> "PatternSeq":
        return self.used_by(other)

    def __rshift__(self, other: "Any | PatternSeq") -> "PatternSeq":
        return self.only_used_by(other)

    def __getitem__(self, index: int) -> Any:
        return self.patterns[index]

    def __len__(self) -> int:
        return len(self.patterns)

    def dup(self) -> "PatternSeq":
        """The same row of patterns, free to stand for other values."""
        twin = PatternSeq([])
        twin.patterns = [pattern.dup() for pattern in self.patterns]
        twin.only, twin.indices = list(self.only), list(self.indices)
        for place in range(len(twin.only)):
            twin._connect(place)
        return twin

    def _joined(self, other: "Any | PatternSeq", index: int, only: bool) -> "PatternSeq":
        behind = other if isinstance(other, PatternSeq) else PatternSeq([other])
        joined = PatternSeq([])
        joined.patterns = [*self.patterns, *behind.patterns]
        joined.only = [*self.only, only, *behind.only]
        joined.indices = [*self.indices, index, *behind.indices]
        joined._connect(len(self.only))
        return joined

    def _connect(self, place: int) -> None:
        context = innermost()
        if context is not None:
            producer, consumer = self.patterns[place], self.patterns[place + 1]
            context.connect(producer, consumer, self.indices[place], self.only[place])
