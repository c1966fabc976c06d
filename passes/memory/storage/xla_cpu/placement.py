"""When XLA's CPU compiler runs the kernels of a schedule, and the bytes that it stores them in.

It stands for copy insertion (`_with_parameter_copies`), which knows no order yet, for the
breadth-first scheduler (`in_breadth`), and for buffer assignment: temporary values lie in what is
free of the arguments' and results' memory (`_has_room`), in that of an operand that nobody else
needs (`_share`), and else in one block.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ...program.step import size_of
from ..memory_model import Buffer, Kernel, Kernels, Placement


@dataclass(slots=True)
class _Life:
    """The first and the last kernel at which a buffer is needed."""

    start: int
    end: int
    size: int


def placed(kernels: Kernels) -> Placement:
    """Where XLA's CPU backend stores what it computes.

    A parameter and a result are the caller's and count for nothing. Until a result is computed
    its bytes serve others, the largest first, and the smallest result that has room for one. So
    do those of a parameter that is copied. What is computed of the others number by number takes
    the memory of what is read for the last time.
    """
    copied = _with_parameter_copies(kernels)
    order, results = in_breadth(copied), kernels.results
    lives = _lives(order, results)
    rooms = [(lives[b].size, [lives[b]]) for b in results if b in lives]
    for result, param in kernels.over:
        if param in lives and result in lives:
            before = _Life(0, lives[param].start, 0)
            rooms.append((lives[param].size, [before, lives[result]]))
    rooms.sort(key=lambda room: (room[0], room[1][-1].start))
    temporary = [buffer for buffer in lives if buffer not in results and lives[buffer].size]
    temporary.sort(key=lambda buffer: (-lives[buffer].size, lives[buffer].start))
    sizes = [size for size, _ in rooms]

    def has_room(life: _Life) -> bool:
        return _has_room(life, rooms[bisect_left(sizes, life.size) :])

    own = {buffer: lives[buffer] for buffer in temporary if not has_room(lives[buffer])}
    takers = _share(order, own)
    ends = {b: (life.start, life.end, life.size) for b, life in own.items()}
    return Placement(order, ends, takers)


def _with_parameter_copies(kernels: Kernels) -> Sequence[Kernel]:
    """The kernels, after those that copy parameters.

    A result takes the memory of a parameter where all else that reads that is needed for the
    result. XLA copies the others before it knows an order, and at the start.
    """
    if not kernels.over:
        return kernels.all
    readers: dict[Buffer, int] = {}  # as the bits of a number
    behind: dict[Buffer, int] = {}  # all that a kernel needs, itself too
    for place, kernel in enumerate(kernels.all):
        own = 1 << place
        for buffer in kernel.reads:
            readers[buffer] = readers.get(buffer, 0) | own
        for buffer in (*kernel.reads, *kernel.after):
            own |= behind.get(buffer, 0)
        behind[kernel.buffer] = own
    copied = [
        param for result, param in kernels.over if readers.get(param, 0) & ~behind.get(result, 0)
    ]
    copies = [Kernel(buffer, size_of(buffer[0][0]), (), ()) for buffer in dict.fromkeys(copied)]
    return (*copies, *kernels.all)


def in_breadth(kernels: Sequence[Kernel]) -> list[Kernel]:
    """The kernels in the order in which they become ready, which is that of XLA on CPUs."""
    users: dict[Buffer, list[int]] = {}
    missing = []
    places = {kernel.buffer: place for place, kernel in enumerate(kernels)}
    for place, kernel in enumerate(kernels):
        needed = {b for b in (*kernel.reads, *kernel.after) if b in places}
        missing.append(len(needed))
        for buffer in needed:
            users.setdefault(buffer, []).append(place)
    ready = deque(place for place, count in enumerate(missing) if count == 0)
    order = []
    while ready:
        kernel = kernels[ready.popleft()]
        order.append(kernel)
        for place in users.get(kernel.buffer, ()):
            missing[place] -= 1
            if missing[place] == 0:
                ready.append(place)
    return order


def _lives(order: Sequence[Kernel], results: Collection[Buffer]) -> dict[Buffer, _Life]:
    lives: dict[Buffer, _Life] = {}
    brief = {kernel.buffer for kernel in order if kernel.brief}
    for time, kernel in enumerate(order):
        lives[kernel.buffer] = _Life(time, time, kernel.size)
        for buffer in (*kernel.reads, *kernel.after):
            if buffer in lives and buffer not in brief:
                lives[buffer].end = time
    for buffer in results:
        if buffer in lives:
            lives[buffer].end = len(order) - 1
    return lives


def _share(order: Sequence[Kernel], lives: dict[Buffer, _Life]) -> dict[Buffer, Buffer]:
    """Let buffers live on as those that take their memory; these, with whose it was first."""
    first: dict[Buffer, Buffer] = {}  # whose memory it was
    for time, kernel in enumerate(order):
        if kernel.buffer in lives:
            over = [buffer for buffer in kernel.reads if buffer in kernel.over]  # in their order
            for before in (first.get(buffer, buffer) for buffer in over):
                life = lives.get(before)
                if life is not None and life.end == time and life.size == kernel.size:
                    life.end = lives.pop(kernel.buffer).end
                    first[kernel.buffer] = before
                    break
    return first


def _has_room(life: _Life, rooms: Sequence[tuple[int, list[_Life]]]) -> bool:
    """Whether a result's bytes are free for a value, which are enough; then they are taken."""
    start, end = life.start, life.end
    for _, taken in rooms:
        for other in taken:  # a generator here takes twice as long
            if other.start <= end and start <= other.end:
                break
        else:
            taken.append(life)
            return True
    return False
