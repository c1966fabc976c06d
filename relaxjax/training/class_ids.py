"""Targets that are ids of classes."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from relaxjax.ir.expr import Var
from relaxjax.ir.module import IRModule

from .door import tensor_type
from .ids import are_below, is_on_host, span

CLASS_IDS = "class_ids"  # the attribute that says which targets are ids, of how many classes


class ClassIds(NamedTuple):
    """The ids in one target: 0 to `classes` - 1, and `ignored` ones, which count for nothing.

    A batch of them has `ndim` dimensions. With `has_mean`, the loss is a mean over those that
    count.
    """

    place: int
    name: str
    classes: int
    ignored: int
    ndim: int
    has_mean: bool = False

    def check(self, array: Any) -> None:
        """Raise where an id is no class: the loss would take the nearest, its gradient none."""
        if are_below(array, self.classes):
            return
        strange = array[(array != self.ignored) & ((array < 0) | (array >= self.classes))]
        if strange.size:
            raise ValueError(
                f"the model scores {self.classes} classes, 0 to {self.classes - 1}, but the target "
                f"`{self.name}` holds {span(strange)}: give only ids of classes, or "
                f"{self.ignored} for what is to be ignored"
            )

    def check_rank(self, array: Any) -> None:
        """Raise where each id is a row of numbers, one for each class."""
        if array.ndim == self.ndim + 1 and array.shape[-1] == self.classes:
            raise ValueError(
                f"the loss takes `{self.name}` as ids of {self.classes} classes, but an array of "
                f"shape {tuple(array.shape)} has a number for each class: give ids, such as "
                f"{self.name}.argmax(-1), or train by CategoricalCrossEntropyLoss"
            )

    def check_counted(self, batches: Any) -> None:
        """Raise where none counts in one of several batches: the mean over none is NaN, and so
        would be all that it trains."""
        rows = batches.reshape(len(batches), -1)
        if (rows[:, 0] == self.ignored).any() and (rows == self.ignored).all(1).any():
            raise ValueError(self._none_counts)

    def note(self, array: Any) -> str | None:
        """What to say of ids of which none counts, once something was found not to be finite."""
        if (np.asarray(array) != self.ignored).any():
            return None
        return self._none_counts

    @property
    def _none_counts(self) -> str:
        return (
            f"all of `{self.name}` is {self.ignored}, which counts for nothing, and the mean over "
            "none is NaN: leave out such batches"
        )


def check_counted(
    ids: Sequence[ClassIds], targets: Sequence[Any], are_stacked: bool, count: int | None = None
) -> None:
    """Look at a batch to train on, or at the first so many of stacked ones.

    What is on another device stays there.
    """
    for one in ids:
        array = targets[one.place]
        if one.has_mean and is_on_host(array) and array.size:
            held = np.asarray(array)
            one.check_counted(held[:count] if are_stacked else held[None])


def check_ranks(ids: Sequence[ClassIds], targets: Sequence[Any]) -> None:
    """Raise where targets of a single batch are one-hot, which is for another loss."""
    for one in ids:
        one.check_rank(targets[one.place])


def class_ids_of(mod: IRModule, targets: Sequence[Var]) -> tuple[ClassIds, ...]:
    """The targets that hold ids, of a module made by SetupTrainer."""
    places = {target.name: place for place, target in enumerate(targets)}
    found = []
    for name, classes, ignored, *has_mean in mod.attrs.get(CLASS_IDS, ()):  # which old files lack
        if name in places:
            ndim = tensor_type(targets[places[name]]).ndim
            found.append(ClassIds(places[name], name, classes, ignored, ndim, *has_mean))
    return tuple(found)
