"""What a model of memory says of a schedule: the buffers that are filled, and when each is live."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Protocol, TypeAlias

from relaxjax.ir.expr import Var

from ..program.program import Program
from ..program.schedule import Task, Value
from .heap import Life, heap_size

# Bytes of their own: those of a value, or of its copy for a reason, such as another layout.
Buffer: TypeAlias = tuple[Value, Hashable]


@dataclass(frozen=True, slots=True)
class Kernel:
    """A buffer that is filled, with what is read for it and what it waits for besides.

    `over` are those among the buffers read whose memory it may take, if nobody else needs them.
    One that is `brief` is done with its bytes before anybody goes on who waits for it.
    """

    buffer: Buffer
    size: int
    reads: tuple[Buffer, ...]
    after: tuple[Buffer, ...]
    over: frozenset[Buffer] = frozenset()
    brief: bool = False


@dataclass(frozen=True, slots=True)
class Kernels:
    """What a schedule stores of its own, in its order, and which of it the function returns."""

    all: tuple[Kernel, ...]
    results: frozenset[Buffer]
    over: tuple[tuple[Buffer, Buffer], ...]  # results, and the parameters whose memory they take


@dataclass(frozen=True)
class Placement:
    """The kernels in the order in which they run, and when the bytes of each are live."""

    order: Sequence[Kernel]
    lives: Mapping[Buffer, Life]  # of all that takes bytes which are not the caller's
    takers: Mapping[Buffer, Buffer]  # of what is written over others: whose memory it was first

    @cached_property
    def live(self) -> tuple[int, ...]:
        """The temporary bytes that are live at each kernel."""
        changes = [0] * (len(self.order) + 1)
        for start, end, size in self.lives.values():
            changes[start] += size
            changes[end + 1] -= size
        return tuple(accumulate(changes[:-1]))

    @property
    def peak(self) -> int:
        return max(self.live, default=0)

    @property
    def size(self) -> int:
        """The bytes of the block of memory that they all lie in, with what is between them."""
        return heap_size(self.lives.values())

    def first(self, buffer: Buffer) -> Buffer:
        """What had the memory first that a buffer lies in."""
        return self.takers.get(buffer, buffer)

    def held(self, time: int) -> dict[Buffer, int]:
        """What takes bytes while the kernel at a place runs, with their number."""
        last: dict[Buffer, Buffer] = {}
        for kernel in self.order[: time + 1]:
            last[self.first(kernel.buffer)] = kernel.buffer
        return {
            last[first]: size
            for first, (start, end, size) in self.lives.items()
            if start <= time <= end
        }


class MemoryModel(Protocol):
    """Predicts what a platform's compiler makes of a schedule, without asking it."""

    @property
    def runs_as_written(self) -> bool:
        """Whether kernels run in the order of the schedule, whatever waits for what."""
        ...

    def kernels(
        self, program: Program, tasks: Sequence[Task], inside: Mapping[Var, int]
    ) -> Kernels:
        """What a schedule stores beside its parameters; `inside` are the bytes of loops' steps."""
        ...

    def placed(self, kernels: Kernels) -> Placement:
        """In which order they run, and how long each is live."""
        ...
