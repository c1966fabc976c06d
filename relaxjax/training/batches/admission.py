"""What comes in as a batch: its inputs and targets, checked, in the dtypes of the program."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from relaxjax.ops.lax import x64_enabled
from relaxjax.trainable.facts import Facts
from relaxjax.training.inputs import as_list, check_place, check_samples, given_arrays
from relaxjax.training.layout import Arrays, Layout
from relaxjax.training.placement import Placement

from .feeding import Batch, paired
from .ids import Checked, check_counted, check_ids, check_ranks, class_targets, row_arguments
from .nested import Nested, Shapes, check_one_argument


class Admission:
    """How a model in training takes batches."""

    def __init__(
        self, layout: Layout, facts: Facts, placement: Placement, nested: Nested | None
    ) -> None:
        self.layout = layout
        self.placement = placement
        self.nested = nested  # how the user's trees are nested, where the loss is one of JAX
        self._input_ids = row_arguments(facts, layout.inputs)
        self._class_ids = class_targets(facts, layout.targets)
        rows = row_arguments(facts, layout.targets)
        self._target_ids: tuple[Checked, ...] = (*self._class_ids, *rows)
        self._last: _Known | None = None  # of the batches before

    @property
    def ignored_class(self) -> int | None:
        """The class id that the loss ignores in its first target; None where there is none."""
        return next((one.ids.ignored for one in self._class_ids if one.place == 0), None)

    def pairs(self, batches: Iterable[Any], are_parts: bool = False) -> Iterator[Batch]:
        """Batches as `fit` is given them, each as its inputs and its targets.

        Those to be trained on may be the parts of a process.
        """
        if self.nested is not None:
            return self.nested.pairs(batches, self._part_shapes if are_parts else None)
        return paired(batches, self.layout.argument_names)

    def inputs(self, given: Sequence[Any]) -> Arrays:
        """Inputs to be predicted from, where they are computed with."""
        arrays = given_arrays("inputs", "the backbone", self.layout.inputs, given)
        check_ids(self._input_ids, arrays)
        return self.placement.batch(arrays)[0]

    def whole(self, inputs: Any, targets: Any) -> tuple[Arrays, Arrays]:
        """A batch to be evaluated, where it is computed with."""
        given, wanted = self.admitted(inputs, targets)
        check_place((*given, *wanted), self.placement.place)
        return self.placement.batch(given, wanted)

    def part(self, inputs: Any, targets: Any, count: int | None = None) -> tuple[Arrays, Arrays]:
        """A batch as a step takes it; with a `count`, so many in front of a stack."""
        given, wanted = self.admitted(inputs, targets, count, is_part=True)
        check_place((*given, *wanted), self.placement.place)
        placed = self.placement.batch(given, wanted, count is not None, True)
        if self.placement.process_parts > 1:
            check_samples(self.layout.inputs, placed[0])
        return placed

    def admitted(
        self, inputs: Any, targets: Any, count: int | None = None, is_part: bool = False
    ) -> tuple[Arrays, Arrays]:
        """A batch in the dtypes of the program, wherever it lies.

        One that is given whole comes as the inputs alone. One to be trained on may be the part of
        a process, which has fewer samples than the model takes.
        """
        leaves, nesting = _flat(inputs, targets)
        kinds = tuple(map(_kind, leaves))
        kind = nesting, kinds, count is None, is_part, x64_enabled()
        last = self._last
        if last is not None and kind == last.kind:
            given, wanted = last.parts(leaves)
        else:
            given, wanted = self._checked(inputs, targets, count, is_part)
            self._last = None if None in kinds else _Known.of(kind, leaves, given, wanted)
        check_ids(self._input_ids, given, count)
        check_ids(self._target_ids, wanted, count)
        return given, wanted

    def _checked(
        self, inputs: Any, targets: Any, count: int | None, is_part: bool
    ) -> tuple[Arrays, Arrays]:
        """The arrays of a batch of which nothing is known."""
        _check_untraced(_flat(inputs, targets)[0])
        if targets is None:
            inputs, targets = self._apart(inputs, count is not None, is_part)
        elif self.nested is not None:
            check_one_argument(targets)
        given = given_arrays("inputs", "the backbone", self.layout.inputs, as_list(inputs))
        wanted = given_arrays("targets", "the loss", self.layout.targets, as_list(targets))
        if self.placement.process_parts == 1 or not is_part:
            check_samples(self.layout.inputs, given)
        if count is None:
            check_ranks(self._class_ids, wanted)
        return given, wanted

    def check_counted(self, targets: Arrays, is_stacked: bool, count: int | None = None) -> None:
        """Raise where the loss divides by a number of targets, and all of them are ignored."""
        check_counted(self._class_ids, targets, is_stacked, count)

    def notes(self, targets: Arrays) -> list[str]:
        """What of the targets of a batch may explain a loss that is not finite."""
        notes = (one.note(targets[one.place]) for one in self._class_ids)
        return [note for note in notes if note]

    @cached_property
    def _part_shapes(self) -> Shapes | None:
        """The shapes of a batch of a loss in JAX in this process, where it has a part of it."""
        assert self.nested is not None
        return self.placement.part_shapes([ty.shape for ty in self.nested.batch])

    def _apart(self, batch: Any, is_stacked: bool, is_part: bool) -> Batch:
        """The inputs and the targets of a batch that is given by one argument."""
        if self.nested is not None:
            return self.nested.leaves(batch, is_stacked, self._part_shapes if is_part else None), []
        return next(self.pairs([batch]))


def _check_untraced(leaves: Sequence[Any]) -> None:
    """Raise where JAX traces a part of a batch: a trainer's state is no argument of its steps."""
    if any(isinstance(leaf, Tracer) for leaf in leaves):
        raise TypeError(
            "a trainer keeps its state from call to call, so it takes no batch that JAX traces, as "
            "inside of jax.jit or jax.grad: call it outside, or take relaxjax.train_step, whose "
            "state is an argument"
        )


@dataclass(frozen=True)
class _Known:
    """Of batches of one kind, which leaves are the inputs and the targets, taken as they are.

    To look at all else in each batch would be a good part of a small step.
    """

    kind: tuple[Any, ...]
    inputs: tuple[int, ...]
    targets: tuple[int, ...]

    @staticmethod
    def of(
        kind: tuple[Any, ...], leaves: Sequence[Any], inputs: Arrays, targets: Arrays
    ) -> "_Known | None":
        """None where an array was converted, or is there twice, and in the next batch may not."""
        places = {id(leaf): place for place, leaf in enumerate(leaves)}
        if len(places) < len(leaves) or not places.keys() >= {*map(id, (*inputs, *targets))}:
            return None
        return _Known(
            kind,
            tuple(places[id(array)] for array in inputs),
            tuple(places[id(array)] for array in targets),
        )

    def parts(self, leaves: Sequence[Any]) -> tuple[Arrays, Arrays]:
        return tuple(leaves[n] for n in self.inputs), tuple(leaves[n] for n in self.targets)


def _flat(inputs: Any, targets: Any) -> tuple[list[Any], Any]:
    try:
        return jax.tree.flatten((inputs, targets))
    except (TypeError, ValueError):  # the keys of a dict have no order: only some may be asked for
        return [inputs, targets], None


def _kind(leaf: Any) -> tuple[Any, ...] | None:
    """All that is asked of an array but its numbers; None of what else a batch may hold."""
    if type(leaf) is np.ndarray:  # others may be masked
        return leaf.shape, leaf.dtype
    if isinstance(leaf, Tracer) or not isinstance(leaf, jax.Array) or leaf.is_deleted():
        return None
    return leaf.aval, leaf.sharding, leaf.committed
