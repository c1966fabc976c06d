"""What the explorer knows of a program, as one document of plain data: its schema is here.

Programs are long and stages of them are much alike. So each distinct line stands once in a table,
and a stage says only which lines of the stage before it replaces by which lines of the table.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

SCHEMA = "relaxjax.explorer/1"

MODULE = ""  # the name under which the attributes of the module stand among its functions


@dataclass(frozen=True, slots=True)
class Source:
    """A file of the user's, as it was read when the document was made."""

    name: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a source something was written: lines count from 1, columns from 0."""

    source: int
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a printed program, and what is known of the binding that begins there.

    of: the variable whose derivative the binding is a part of.
    flops, bytes: what the binding takes; those of a loop are divided among the lines of its body.
    """

    text: str
    var: str | None = None
    place: int | None = None
    of: str | None = None
    flops: int | None = None
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Hunk:
    """From line `at` of a function as it was on, `removed` lines give way to those of `ranges`.

    A range is the number of its first line in the table of lines, and how many follow each other.
    """

    at: int
    removed: int
    ranges: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Rewritten:
    """That a rule of a pass rewrote a value: of which function and variable, and what to what.

    function: None where the variable came and went within the pass.
    """

    rule: str
    function: str | None
    var: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Stage:
    """A program at one moment: after a pass, or as it was given.

    changed: for each function that is not what it was, how it differs.
    gone: the functions that are no more.
    rewritten: what rules of the pass did, in their order.
    """

    name: str
    about: str
    milliseconds: float | None
    depth: int
    functions: tuple[str, ...]
    changed: Mapping[str, tuple[Hunk, ...]]
    gone: tuple[str, ...]
    bindings: int
    flops: int
    bytes: int
    rewritten: tuple[Rewritten, ...] = ()


@dataclass(frozen=True, slots=True)
class Life:
    """Bytes that are taken from one moment to another, both included, and by which value."""

    value: int
    start: int
    end: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Choice:
    """What becomes of a forward value that the backward part uses."""

    value: int
    bytes: int
    flops: int
    kept: bool
    reason: str
    needed_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """One way to divide forward values into kept ones and those computed again.

    order: the value that is computed at each moment.
    """

    name: str
    peak: int
    extra_flops: int
    order: tuple[int, ...]
    lives: tuple[Life, ...]
    choices: tuple[Choice, ...]


@dataclass(frozen=True, slots=True)
class Value:
    """A value as the memory's planner knows it; `again` marks one that is computed again."""

    name: str
    again: bool
    place: int | None
    backward: bool


@dataclass(frozen=True, slots=True)
class Memory:
    """The bytes that a function takes beside its arguments and results, by several plans.

    The first plan keeps everything; `chosen` is the number of the one that is followed.
    """

    function: str
    budget: int | None
    values: tuple[Value, ...]
    plans: tuple[Plan, ...]
    chosen: int
    flops: int


@dataclass(frozen=True, slots=True)
class Kernel:
    """What the compiler made one piece of, how long a run takes for it, and what it computes.

    bindings: those of the function that is looked at, by name; none where it is not known.
    times: how often a run does it.
    """

    name: str
    milliseconds: float
    times: float
    bindings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Profile:
    """What runs of the function take, the middle of several: on the clock, and kernel by kernel.

    origin: with which numbers it was run.
    """

    device: str
    origin: str
    runs: int
    milliseconds: float
    kernels: tuple[Kernel, ...]


@dataclass(frozen=True, slots=True)
class Number:
    """The numbers of a value, all that one step computes of it.

    gradient_of: the variable whose whole gradient it is.
    low, high, rms: of those that are finite; None where there is none.
    octaves: how many numbers but zeros are at least 2^n and less than 2^(n + 1), whatever their
    sign, from n = `first` and the least of all on.
    """

    var: str
    gradient_of: str | None
    count: int
    nan: int
    infinite: int
    zeros: int
    low: float | None
    high: float | None
    rms: float | None
    first: int
    octaves: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Numbers:
    """What the bindings of the function compute in one step.

    origin: with which numbers it was run. least: the power of two of the octave 0.
    """

    origin: str
    least: int
    values: tuple[Number, ...]


@dataclass(frozen=True, slots=True)
class Exchange:
    """What devices tell each other in a step, for one value.

    bytes: those that each gives or takes, whichever are more; of one time, where `times` is None.
    axes: of the mesh. What the compiler does not tell is None.
    part: "forward", "backward", "update" or "not known".
    """

    kind: str
    bytes: int
    times: int | None
    axes: tuple[str, ...] | None
    part: str
    value: str | None
    place: int | None
    overlapped: bool | None


@dataclass(frozen=True, slots=True)
class Communication:
    """The exchanges of a training step, the largest first, and the sizes of the mesh's axes."""

    mesh: Mapping[str, int]
    exchanges: tuple[Exchange, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """All that a view of a program needs."""

    title: str
    sources: tuple[Source, ...]
    places: tuple[Place, ...]
    lines: tuple[Line, ...]
    stages: tuple[Stage, ...]
    function: str | None  # the one that is looked at: the adjoint where there is one
    memory: Memory | None
    notes: tuple[str, ...] = field(default=())  # what is not shown, and why
    profile: Profile | None = None
    numbers: Numbers | None = None
    communication: Communication | None = None

    def to_json(self) -> dict[str, Any]:
        """The document as JSON has it; lines, places and lives are lists of their fields."""
        found: dict[str, Any] = {"schema": SCHEMA, **asdict(self)}
        found["places"] = [[place.source, place.line, place.column] for place in self.places]
        found["lines"] = [_short(line) for line in self.lines]
        for plan in (found["memory"] or {}).get("plans", ()):
            plan["lives"] = [list(life.values()) for life in plan["lives"]]
        return found

    def text(self, stage: int, function: str) -> list[str]:
        """The lines of a function at a stage."""
        return [self.lines[number].text for number in self.line_numbers(stage)[function]]

    def line_numbers(self, stage: int) -> dict[str, list[int]]:
        """The functions of a stage, as numbers of lines in the table."""
        found: dict[str, list[int]] = {}
        for one in self.stages[: stage + 1]:
            for name in one.gone:
                del found[name]
            for name, hunks in one.changed.items():
                found[name] = changed(found.get(name, []), hunks)
        return found


def changed(before: Sequence[int], hunks: Iterable[Hunk]) -> list[int]:
    """A list of numbers with its hunks replaced."""
    after: list[int] = []
    done = 0
    for hunk in hunks:
        after.extend(before[done : hunk.at])
        for first, count in hunk.ranges:
            after.extend(range(first, first + count))
        done = hunk.at + hunk.removed
    return [*after, *before[done:]]


Fields: TypeAlias = list[Any]


def _short(line: Line) -> Fields:
    """The fields of a line without the last ones that say nothing."""
    fields: Fields = [line.text, line.var, line.place, line.of, line.flops, line.bytes]
    while fields[-1] is None:
        fields.pop()
    return fields
