"""The data that `fit` is given: something to iterate over, or a function from the epoch to that."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from itertools import chain
from types import FunctionType
from typing import Any, TypeAlias

from relaxjax.ir.wording import a_kind
from relaxjax.training.reports.epoch_report import EpochReport

Given: TypeAlias = Iterable[Any]  # pairs, mappings, or nested as a user of JAX has them
Data: TypeAlias = Given | Callable[[int], Given]


def batches_of(data: Data, epoch: int) -> Given:
    """The batches of an epoch, counted from 0."""
    found = _called(data, epoch) if callable(data) else data
    if isinstance(found, Mapping):
        raise TypeError(
            f"data is batches, but a mapping of {', '.join(f'`{name}`' for name in found)} "
            "was given: relaxjax.datasets.batches cuts arrays into batches"
        )
    if not any(hasattr(found, name) for name in ("__iter__", "__getitem__")):
        raise TypeError(
            "data is something to iterate over, or a function from the epoch to that, but "
            f"{f'it gave {found!r}' if callable(data) else f'{found!r} was given'}"
        )
    return found


def _called(data: Callable[[int], Given], epoch: int) -> Given:
    """What a function gives for an epoch; one that does not take its number is an error."""
    try:
        signature = inspect.signature(data)
    except (TypeError, ValueError):  # of what is not written in Python
        return data(epoch)
    try:
        signature.bind(epoch)
    except TypeError as error:
        raise TypeError(
            f"data that is a function takes the number of the epoch, but `{data!r:.80}` does not: "
            f"{error}; write `lambda epoch: ...`, or give the batches themselves"
        ) from None
    return data(epoch)


def length_of(batches: Given, default: int | None) -> int | None:
    """How many batches there are, the default where they do not know."""
    try:
        return len(batches) if isinstance(batches, Sized) else default
    except TypeError:  # as torch's DataLoader of a stream says it
        return default


def check_lasts(name: str, data: Data | None, epochs: int) -> None:
    """Raise before the training where data would be there for its first epoch alone.

    An iterator that is written in Python may be a loader, which begins anew in each epoch.
    """
    begins_anew = isinstance(getattr(type(data), "__iter__", None), FunctionType)
    if epochs > 1 and isinstance(data, Iterator) and not begins_anew:
        raise ValueError(
            f"`{name}` is {a_kind(data)}, which is used up after one epoch: give "
            "a list, a loader, or a function from the epoch to its batches"
        )


def lasting(name: str, data: Data, epoch: int) -> Given:
    """The batches of an epoch, the first of which is taken from an iterator already.

    Some begin anew once they have ended, and others are used up: one that is so is an error before
    the epoch is trained.
    """
    batches = batches_of(data, epoch)
    if callable(data) or not isinstance(batches, Iterator):
        return batches
    rest: Iterator[Any] = iter(batches)
    for first in rest:
        return chain([first], rest)
    raise ValueError(
        f"`{name}` is {a_kind(batches)} that has no batches{' any more' * bool(epoch)}: "
        "give a list, a loader, or a function from the epoch to its batches"
    )


def check_goes_on(data: Data, reports: Sequence[EpochReport]) -> None:
    """Raise where the last epoch of the training to resume had another number of batches."""
    last = len(reports) - 1
    made, found = reports[-1].steps, length_of(batches_of(data, last), None)
    if found not in (None, made):
        raise ValueError(
            f"epoch {last + 1} of the training to resume had {made} batches, but `data` has "
            f"{found} for it now: resume=True goes on with the data that the training began with; "
            "to train on other data, trainer.load the last checkpoint and fit without `resume`"
        )
