"""Targets that are ids of classes."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from relaxjax.ir.expr import Var
from relaxjax.ir.module import IRModule

from .ids import are_below, span

CLASS_IDS = "class_ids"  # the attribute that says which targets are ids, of how many classes


class ClassIds(NamedTuple):
    """The ids in one target: 0 to `classes` - 1, and `ignored` ones, which count for nothing."""

    place: int
    name: str
    classes: int
    ignored: int

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

    def note(self, array: Any) -> str | None:
        """What to say of ids of which none counts, once something was found not to be finite."""
        if (np.asarray(array) != self.ignored).any():
            return None
        return (
            f"all of `{self.name}` is {self.ignored}, which counts for nothing, and the mean over "
            "none is NaN: leave out such batches"
        )


def class_ids_of(mod: IRModule, targets: Sequence[Var]) -> tuple[ClassIds, ...]:
    """The targets that hold ids, of a module made by SetupTrainer."""
    names = [target.name for target in targets]
    return tuple(
        ClassIds(names.index(name), name, classes, ignored)
        for name, classes, ignored in mod.attrs.get(CLASS_IDS, ())
        if name in names
    )
