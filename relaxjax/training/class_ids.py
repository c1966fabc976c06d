"""Targets that are ids of classes: one that is no class is an error before a step, not in it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from relaxjax.ir.expr import Var
from relaxjax.ir.module import IRModule

CLASS_IDS = "class_ids"  # the attribute that says which targets are ids, of how many classes


class ClassIds(NamedTuple):
    """The ids in one target: 0 to `classes` - 1, and `ignored` ones, which count for nothing."""

    place: int
    name: str
    classes: int
    ignored: int

    def check(self, array: Any) -> None:
        """Raise where an id is no class: the loss would take the nearest, its gradient none."""
        if self._are_sound(array):
            return
        strange = array[(array != self.ignored) & ((array < 0) | (array >= self.classes))]
        if strange.size:
            found = sorted({int(strange.min()), int(strange.max())})
            raise ValueError(
                f"the model scores {self.classes} classes, 0 to {self.classes - 1}, but the target "
                f"`{self.name}` holds {' to '.join(map(str, found))}: give only ids of classes, or "
                f"{self.ignored} for what is to be ignored"
            )

    def _are_sound(self, array: Any) -> bool:
        """Whether all are classes, by one look: seen without a sign, those below 0 are large."""
        unsigned = array.view(f"u{array.dtype.itemsize}") if array.dtype.kind == "i" else array
        return not array.size or int(unsigned.max()) < self.classes


def class_ids_of(mod: IRModule, targets: Sequence[Var]) -> tuple[ClassIds, ...]:
    """The targets that hold ids, of a module made by SetupTrainer."""
    names = [target.name for target in targets]
    return tuple(
        ClassIds(names.index(name), name, classes, ignored)
        for name, classes, ignored in mod.attrs.get(CLASS_IDS, ())
        if name in names
    )


def check_class_ids(
    ids: Sequence[ClassIds], targets: Sequence[Any], count: int | None = None
) -> None:
    """Look at the ids in targets, with a `count` at those of the first so many batches.

    What is on another device stays there.
    """
    for one in ids:
        target = targets[one.place]
        if is_on_host(target):
            one.check(np.asarray(target)[:count])


def is_on_host(array: Any) -> bool:
    """Whether the host can read it without a transfer."""
    if isinstance(array, np.ndarray):
        return True
    if jnp.issubdtype(array.dtype, jax.dtypes.extended):
        return False  # a random key
    return {device.platform for device in array.devices()} == {"cpu"}
