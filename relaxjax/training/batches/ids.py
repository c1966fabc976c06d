"""Ids in a batch, of classes or of rows: a strange one is an error before a step, not in it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from relaxjax.ir.expr import Var
from relaxjax.trainable.facts import ClassIds, Facts, RowIds
from relaxjax.training.inputs import tensor_type


@dataclass(frozen=True, slots=True)
class ClassTarget:
    """The target at a place, which holds ids of classes; a batch of it has `ndim` dimensions."""

    place: int
    ids: ClassIds
    ndim: int

    def check(self, array: Any) -> None:
        """Raise where an id is no class: the loss would take the nearest, its gradient none."""
        ids = self.ids
        if _are_below(array, ids.classes):
            return
        strange = array[(array != ids.ignored) & ((array < 0) | (array >= ids.classes))]
        if strange.size:
            raise ValueError(
                f"the model scores {ids.classes} classes, 0 to {ids.classes - 1}, but the target "
                f"`{ids.name}` holds {_span(strange)}: give only ids of classes, or "
                f"{ids.ignored} for what is to be ignored"
            )

    def check_rank(self, array: Any) -> None:
        """Raise where each id is a row of numbers, one for each class."""
        ids = self.ids
        if array.ndim == self.ndim + 1 and array.shape[-1] == ids.classes:
            raise ValueError(
                f"the loss takes `{ids.name}` as ids of {ids.classes} classes, but an array of "
                f"shape {tuple(array.shape)} has a number for each class: give ids, such as "
                f"{ids.name}.argmax(-1), or train by CategoricalCrossEntropyLoss"
            )

    def check_counted(self, batches: Any) -> None:
        """Raise where none counts in one of several batches: the mean over none is NaN, and so
        would be all that it trains."""
        ignored, rows = self.ids.ignored, batches.reshape(len(batches), -1)
        if (rows[:, 0] == ignored).any() and (rows == ignored).all(1).any():
            raise ValueError(self._none_counts)

    def note(self, array: Any) -> str | None:
        """What to say of ids of which none counts, once something was found not to be finite."""
        if (np.asarray(array) != self.ids.ignored).any():
            return None
        return self._none_counts

    @property
    def _none_counts(self) -> str:
        return (
            f"all of `{self.ids.name}` is {self.ids.ignored}, which counts for nothing, and the "
            "mean over none is NaN: leave out such batches"
        )


@dataclass(frozen=True, slots=True)
class RowArgument:
    """The input or target at a place, whose ids pick rows."""

    place: int
    ids: RowIds

    def check(self, array: Any) -> None:
        """Raise where an id is no row: the model would take the nearest, its gradient none."""
        rows = self.ids.rows
        if not _are_below(array, rows):
            strange = array[(array < 0) | (array >= rows)]
            raise ValueError(
                f"the model picks one of {rows} rows, 0 to {rows - 1}, by each id in "
                f"`{self.ids.name}`, but that holds {_span(strange)}: give only ids of rows, or "
                'say what the others stand for by R.take(..., mode="clip"), "wrap" or "nan"'
            )


Checked: TypeAlias = ClassTarget | RowArgument


def class_targets(facts: Facts, targets: Sequence[Var]) -> tuple[ClassTarget, ...]:
    """The targets that hold ids of classes."""
    places = {target.name: place for place, target in enumerate(targets)}
    found = ((places[ids.name], ids) for ids in facts.class_ids if ids.name in places)
    return tuple(ClassTarget(place, ids, tensor_type(targets[place]).ndim) for place, ids in found)


def row_arguments(facts: Facts, given: Sequence[Var]) -> tuple[RowArgument, ...]:
    """The inputs, or the targets, that hold ids of rows."""
    places = {var.name: place for place, var in enumerate(given)}
    return tuple(RowArgument(places[x.name], x) for x in facts.row_ids if x.name in places)


def check_ids(checked: Sequence[Checked], arrays: Sequence[Any], count: int | None = None) -> None:
    """Look at the ids in arrays, with a `count` at those of the first so many batches.

    What is on another device stays there.
    """
    for one in checked:
        array = arrays[one.place]
        if is_on_host(array):
            held = np.asarray(array)
            one.check(held[:count] if held.ndim else held)


def check_counted(
    checked: Sequence[ClassTarget],
    targets: Sequence[Any],
    are_stacked: bool,
    count: int | None = None,
) -> None:
    """Look at a batch to train on, or at the first so many of stacked ones.

    What is on another device stays there.
    """
    for one in checked:
        array = targets[one.place]
        if one.ids.has_mean and is_on_host(array) and array.size:
            held = np.asarray(array)
            one.check_counted(held[:count] if are_stacked else held[None])


def check_ranks(checked: Sequence[ClassTarget], targets: Sequence[Any]) -> None:
    """Raise where targets of a single batch are one-hot, which is for another loss."""
    for one in checked:
        one.check_rank(targets[one.place])


def is_on_host(array: Any) -> bool:
    """Whether the host can read it without a transfer."""
    if isinstance(array, np.ndarray):
        return True
    if jnp.issubdtype(array.dtype, jax.dtypes.extended):
        return False  # a random key
    if not array.is_fully_addressable:
        return False
    return {device.platform for device in array.devices()} == {"cpu"}


def _are_below(array: Any, count: int) -> bool:
    """Whether all are 0 to `count` - 1, by one look: without a sign, those below 0 are large."""
    unsigned = array.view(f"u{array.dtype.itemsize}") if array.dtype.kind == "i" else array
    return not array.size or int(unsigned.max()) < count


def _span(strange: Any) -> str:
    """The least and the greatest of some ids."""
    return " to ".join(map(str, sorted({int(strange.min()), int(strange.max())})))
