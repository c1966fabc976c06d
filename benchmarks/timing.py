"""Contestants timed in turns, and the table of what came out.

Other programs on the machine disturb all contestants of a round alike, so their ratio within a
round says more than their times do. The CPU time of the process is given beside the clock: waiting
for a turn on a busy core does not count there. That of the thread is what the caller itself spends,
without what the device's threads do for it.
"""

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Measure = Literal["clock", "cpu", "thread"]
Contestants = Mapping[str, Callable[[], object]]


@dataclass(frozen=True, slots=True)
class Times:
    """What each round took, in seconds."""

    clock: tuple[float, ...] = ()
    cpu: tuple[float, ...] = ()
    thread: tuple[float, ...] = ()

    def median(self, measure: Measure = "clock") -> float:
        return float(statistics.median(getattr(self, measure)))

    def ratio(self, other: "Times", measure: Measure = "clock") -> float:
        """How many times as long as `other` it took: the median over the rounds' ratios."""
        return self.quartiles(other, measure)[1]

    def quartiles(self, other: "Times", measure: Measure = "clock") -> tuple[float, float, float]:
        """The quartiles of the rounds' ratios; the one in the middle is the median."""
        pairs = zip(getattr(self, measure), getattr(other, measure), strict=True)
        ratios = [mine / theirs for mine, theirs in pairs]
        if len(ratios) < 2:
            return (*ratios, *ratios, *ratios)
        low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
        return low, middle, high


def in_turns(contestants: Contestants, rounds: int) -> dict[str, Times]:
    """Each contestant's times. All are called once before, to compile.

    Each round has an order of its own, so that nobody always follows the same other one, whose
    threads may still be waiting for work, and whose data fills the caches.

    A contestant returns when its work is done: on JAX arrays, after `jax.block_until_ready`.
    """
    for run in contestants.values():
        run()
    order, found = list(contestants), {name: Times() for name in contestants}
    dice = random.Random(0)
    for _ in range(rounds):
        dice.shuffle(order)
        for name in order:
            clock, cpu, thread = seconds(contestants[name])
            old = found[name]
            found[name] = Times((*old.clock, clock), (*old.cpu, cpu), (*old.thread, thread))
    return found


def repeated(run: Callable[[], object], shortest: float = 0.01) -> tuple[Callable[[], None], int]:
    """`run` so many times that they take `shortest` seconds or more, and how often that is.

    What a call costs is then not lost in what the clock and other programs add to it.
    """
    run()
    quickest = min(seconds(run)[0] for _ in range(3))
    count = max(1, round(shortest / quickest))

    def several() -> None:
        for _ in range(count):
            run()

    return several, count


def seconds(run: Callable[[], object]) -> tuple[float, float, float]:
    """How long a call takes by the clock, and of the CPU time of this process and this thread."""
    clock, cpu, thread = time.perf_counter(), time.process_time(), time.thread_time()
    run()
    return time.perf_counter() - clock, time.process_time() - cpu, time.thread_time() - thread


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell: the first flush left, the others flush right."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    rule = ["-" * width for width in widths]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
        for row in (head, rule, *rows)
    )
