"""The batches of `relaxjax train`: those of a file are read as the training comes to them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from relaxjax.datasets import batches

from .stored import Stored
from .train_data import Examples


def epochs_of(examples: Examples, size: int, seed: int, rows: slice) -> Callable[[int], Any]:
    """The batches of an epoch, of each the samples that belong to this process.

    Those of a file are read as the training comes to them.
    """

    def epoch(number: int) -> Any:
        found = _Epoch(examples, size, seed, rows, number)
        return found if isinstance(examples.x, Stored) else list(found)

    return epoch


@dataclass(frozen=True)
class _Epoch:
    """The batches of an epoch, each of which is made when it is asked for."""

    examples: Examples
    size: int
    seed: int
    rows: slice
    number: int

    def __len__(self) -> int:
        return len(self.examples.x) // self.size

    def __iter__(self) -> Iterator[Any]:
        x: Any = self.examples.x
        y: Any = self.examples.y
        return batches(x, y, self.size, seed=self.seed, epoch=self.number, rows=self.rows)


def evaluated_of(examples: Examples, size: int) -> Any:
    """The batches to evaluate on, which each process has whole; None where there are none."""
    x: Any = examples.x_test
    y: Any = examples.y_test
    if x is None or y is None:
        return None
    if isinstance(examples.x_test, Stored):
        return lambda epoch: batches(x, y, size, drop_last=False)
    return list(batches(x, y, size, drop_last=False))
