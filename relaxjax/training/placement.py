"""Where a trainer's arrays lie: all on one device, or each as the module says on many."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding

from relaxjax.ir.expr import Var
from relaxjax.ir.module import IRModule
from relaxjax.lowering.target import Place
from relaxjax.trainable.sharding import (
    WHOLE,
    Distribution,
    Split,
    named_sharding,
    stored_splits,
)
from relaxjax.trainable.sharding_rules import check_samples_divide

from .inputs import all_to_device, device_dtype, static_shape, to_device
from .layout import Arrays, Group, Layout


@dataclass(frozen=True)
class Placement:
    """Where the arrays of a layout lie: on `place`, which is a mesh where they are on several."""

    place: Place
    layout: Layout
    spread: Distribution | None = None

    @staticmethod
    def of(mod: IRModule, layout: Layout, place: Place) -> "Placement":
        """That of a module at a place. A mesh must be the one that the module states."""
        spread = Distribution.of(mod)
        if not isinstance(place, Mesh):
            return Placement(place, layout)
        if spread is None or dict(place.shape) != spread.sizes:
            stated = "none" if spread is None else str(spread.sizes)
            raise ValueError(
                f"the trainer is to be on a mesh of {dict(place.shape)}, but its module states "
                f"{stated}: set the model up for that mesh, by SetupTrainer(..., mesh=...)"
            )
        return Placement(place, layout, spread)

    @property
    def mesh(self) -> Mesh | None:
        """The mesh, where there are several devices."""
        return self.place if self.spread is not None and isinstance(self.place, Mesh) else None

    @property
    def whole(self) -> Any:
        """Where an array lies that every device has all of."""
        return self.place if self.mesh is None else named_sharding(self.mesh, WHOLE)

    def own(self, group: Group) -> list[Any]:
        """Where the arrays of a group lie, as the user has them."""
        if self.mesh is None:
            return [self.place] * len(group.vars)
        return [named_sharding(self.mesh, split) for split in self._own_splits(group)]

    def stored(self, group: Group) -> list[Any]:
        """Where they lie as the functions have them."""
        storage = self.layout.storage.get(group.name)
        if self.mesh is None or storage is None:
            return self.own(group)
        splits = stored_splits(self._own_splits(group), storage)
        return [named_sharding(self.mesh, split) for split in splits]

    def inside(self, group: Group, arrays: Arrays) -> Arrays:
        """The user's arrays as the functions have them, each where it belongs."""
        storage = self.layout.storage.get(group.name)
        if storage is None:
            return arrays
        stored = storage.inside(arrays)
        if self.mesh is None:
            return stored
        places = self.stored(group)
        return tuple(
            to_device(array, place) if isinstance(array, jax.Array) else array
            for array, place in zip(stored, places, strict=True)
        )

    @cached_property
    def state(self) -> tuple[tuple[NamedSharding, ...], ...] | None:
        """The shardings of all that a step changes, group by group; None on one device."""
        if self.mesh is None:
            return None
        return tuple(tuple(self.stored(group)) for group in self.layout.groups)

    def batch(
        self,
        inputs: Arrays,
        targets: Arrays = (),
        is_stacked: bool = False,
        must_divide: bool = False,
        keep: bool = False,
    ) -> tuple[Arrays, Arrays]:
        """A batch on its devices: its samples spread, where they can have equally many of them.

        Where they cannot, it is an error if they must; else each device has the whole batch. On one
        device it is left where it is, unless a copy there is to be kept.
        """
        if self.mesh is None:
            placed = all_to_device((*inputs, *targets), self.place) if keep else (*inputs, *targets)
            return placed[: len(inputs)], placed[len(inputs) :]
        mesh = self.mesh

        def spread(group: str, vars_: Sequence[Var], arrays: Arrays) -> Arrays:
            named = zip((var.name for var in vars_), arrays, strict=False)  # targets may be missing
            splits = (
                self._batch_split(group, name, array.shape, is_stacked, must_divide)
                for name, array in named
            )
            return tuple(
                _placed(array, named_sharding(mesh, split))
                for array, split in zip(arrays, splits, strict=True)
            )

        layout = self.layout
        return spread("inputs", layout.inputs, inputs), spread("targets", layout.targets, targets)

    def shapes(self) -> tuple[Arrays, Arrays]:
        """The types of a batch, where the program says them all."""
        layout = self.layout
        found = tuple(
            jax.ShapeDtypeStruct(static_shape(group, var), device_dtype(var))
            for group, vars_ in (("input", layout.inputs), ("target", layout.targets))
            for var in vars_
        )
        return self.batch(found[: len(layout.inputs)], found[len(layout.inputs) :])

    def free(self, arrays: Any) -> Any:
        """Inputs of any shapes, nested in any way: each spread if its first dimension can be."""
        if self.mesh is None:
            return arrays
        return jax.tree.map(self._freely, arrays)

    def _batch_split(
        self, group: str, name: str, shape: Sequence[int], is_stacked: bool, must_divide: bool
    ) -> Split:
        """How an array of a batch is split, by its shape."""
        assert self.spread is not None
        split = self._splits[group].get(name, WHOLE)
        size = shape[int(is_stacked)] if split else 0
        if size % self.spread.batch_parts:
            if must_divide:
                check_samples_divide(size, self.spread)
            return WHOLE
        return ((), *split) if split and is_stacked else split

    def _freely(self, leaf: Any) -> Any:
        assert self.spread is not None
        assert self.mesh is not None
        shape = getattr(leaf, "shape", None)
        if shape is None:
            return leaf
        divides = bool(shape) and shape[0] % self.spread.batch_parts == 0
        split = (self.spread.batch,) if divides and self.spread.batch else WHOLE
        return _placed(leaf, named_sharding(self.mesh, split))

    def _own_splits(self, group: Group) -> list[Split]:
        splits = self._splits[group.name]
        return [splits.get(var.name, WHOLE) for var in group.vars]

    @cached_property
    def _splits(self) -> dict[str, dict[str, Split]]:
        assert self.spread is not None
        groups = ("inputs", "targets", *(group.name for group in self.layout.groups))
        return {name: self.spread.group(name) for name in groups}


def _placed(array: Any, place: NamedSharding) -> Any:
    """An array where it belongs; not copied if it is there already."""
    if isinstance(array, jax.ShapeDtypeStruct):
        return jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=place)
    if isinstance(array, jax.Array) and array.sharding.is_equivalent_to(place, array.ndim):
        return array
    return jax.device_put(array, place)
