"""Where a trainer's arrays lie: all on one device, or each as the module says on many."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding

from relaxjax.ir.expr import Var
from relaxjax.ir.module import IRModule
from relaxjax.ir.structural import structural_hash
from relaxjax.lowering.target import Place
from relaxjax.trainable.names import OPTIM_STATE
from relaxjax.trainable.sharding import WHOLE, Distribution, Split, named_sharding, stored_splits
from relaxjax.trainable.sharding_rules import check_samples_divide

from .devices.processes import agree, are_several, whole_from_each
from .inputs import all_to_device, device_dtype, static_shape, to_device
from .layout import Arrays, Group, Layout


def digest_of(mod: IRModule) -> str:
    """What a trainable module is told by, its first state included, whose numbers are no text."""
    text = mod.without_attr(OPTIM_STATE).script()
    state = structural_hash(mod.attrs.get(OPTIM_STATE))
    return sha256(f"{text} {state}".encode()).hexdigest()[:12]


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
        _check_processes(place)
        if are_several():
            said = f"the program {digest_of(mod)} on {place}"
            agree("the program", said, "run one program with equal options")
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
        is_trained_on: bool = False,
        keep: bool = False,
    ) -> tuple[Arrays, Arrays]:
        """A batch on its devices: its samples spread, where they can have equally many of them.

        Where they cannot, each device has the whole batch; to train on that is an error. What is
        trained on is the part of the batch that belongs to this process, where there are several;
        other batches are whole in each. On one device a batch is left where it is, unless a copy
        there is to be kept.
        """
        if self.mesh is None:
            if not keep:
                return inputs, targets
            placed = all_to_device((*inputs, *targets), self.place)
            return placed[: len(inputs)], placed[len(inputs) :]
        mesh = self.mesh

        def spread(group: str, vars_: Sequence[Var], arrays: Arrays) -> Arrays:
            named = zip((var.name for var in vars_), arrays, strict=False)  # targets may be missing
            splits = (
                self._batch_split(group, name, array.shape, is_stacked, is_trained_on)
                for name, array in named
            )
            return tuple(
                _placed(array, named_sharding(mesh, split), is_trained_on)
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

    @cached_property
    def process_parts(self) -> int:
        """How many times larger a batch is than the part of it that belongs to this process."""
        if not are_several() or self.spread is None:
            return 1
        rows = self.rows_of_process(self.spread.batch_parts)
        return int(self.spread.batch_parts // (rows.stop - rows.start))

    def part_shapes(self, shapes: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]] | None:
        """The shapes of inputs in the part of this process; None where it has all of a batch."""
        if self.process_parts == 1:
            return None
        splits = [self._splits["inputs"].get(var.name, WHOLE) for var in self.layout.inputs]
        return [
            (shape[0] // self.process_parts, *shape[1:]) if split else shape
            for shape, split in zip(shapes, splits, strict=True)
        ]

    def rows_of_process(self, samples: int) -> slice:
        """The samples of a batch of so many that belong to this process."""
        if self.mesh is None or self.spread is None or not self.spread.batch:
            return slice(0, samples)
        check_samples_divide(samples, self.spread)
        sharding = named_sharding(self.mesh, (self.spread.batch,))
        mine = sharding.addressable_devices_indices_map((samples,)).values()
        bounds = [part[0].indices(samples)[:2] for part in mine if part is not None]
        return slice(min(first for first, _ in bounds), max(last for _, last in bounds))

    def _batch_split(
        self, group: str, name: str, shape: Sequence[int], is_stacked: bool, is_trained_on: bool
    ) -> Split:
        """How an array of a batch is split, by its shape."""
        assert self.spread is not None
        split = self._splits[group].get(name, WHOLE)
        size = shape[int(is_stacked)] if split else 0
        if is_trained_on:
            size *= self.process_parts
        if size % self.spread.batch_parts:
            if is_trained_on:
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
        return {name: self.spread.group(name) for name in self.layout.variables}


def _check_processes(mesh: Mesh) -> None:
    """Raise where a process has no part in a mesh, and would train by itself."""
    found, count = {device.process_index for device in mesh.devices.flat}, jax.process_count()
    if len(found) < count:
        raise ValueError(
            f"the mesh has {mesh.devices.size} devices, of {len(found)} of the {count} processes: "
            f'give a mesh of all {jax.device_count()} devices, such as {{"data": '
            f"{jax.device_count()}}}"
        )


def _placed(array: Any, place: NamedSharding, is_part: bool = False) -> Any:
    """An array where it belongs; not copied if it is there already.

    Of several processes each has the whole array, or its own part.
    """
    if isinstance(array, jax.ShapeDtypeStruct):
        return jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=place)
    if isinstance(array, jax.Array) and array.sharding.is_equivalent_to(place, array.ndim):
        return array
    if place.is_fully_addressable:
        return jax.device_put(array, place)
    if is_part:
        return jax.make_array_from_process_local_data(place, np.asarray(array))
    return whole_from_each(array, place)
