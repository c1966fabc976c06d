"""On how many devices a training is, and which of its arrays are split along which of their axes.

It is written into the module as attributes: a module says so, prints and is saved with it, and a
`Trainer` places its arrays by it. XLA puts in what the devices have to tell each other.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from relaxjax.ir.device_mesh import is_axis_name
from relaxjax.ir.expr import Var
from relaxjax.ir.module import IRModule
from relaxjax.ir.registry import did_you_mean

from .arguments import Arguments
from .names import ADJOINT, BATCH_AXES, MESH, MESH_DEVICES, SHARDINGS
from .records import read, written
from .storage import Place, Storage, params_of, states_of

MeshLike: TypeAlias = Mesh | Mapping[str, int]
Axes: TypeAlias = tuple[str, ...]
# For each dimension the axes that split it, one after the other. Those that are left out are whole.
Split: TypeAlias = tuple[Axes, ...]

WHOLE: Split = ()


@dataclass(frozen=True, slots=True)
class MeshAxis:
    """One axis of a mesh."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class ArraySplit:
    """How an array of a group is split: a group of a `Trainer`, or the inputs or the targets."""

    group: str
    name: str
    split: Split


@dataclass(frozen=True, slots=True)
class Distribution:
    """The axes of a mesh, those of a batch, and the split of all arrays that are not whole."""

    axes: tuple[MeshAxis, ...]
    batch: Axes = ()
    splits: tuple[ArraySplit, ...] = ()
    devices: tuple[int, ...] = ()

    @staticmethod
    def of(mod: IRModule) -> "Distribution | None":
        """What a module states; None where its training is on one device."""
        if MESH not in mod.attrs:
            return None
        records = read(ArraySplit, mod.attrs.get(SHARDINGS))
        splits = (ArraySplit(r.group, r.name, tuple(map(tuple, r.split))) for r in records)
        return Distribution(
            read(MeshAxis, mod.attrs[MESH]),
            tuple(mod.attrs.get(BATCH_AXES, ())),
            tuple(splits),
            tuple(mod.attrs.get(MESH_DEVICES, ())),
        )

    def attrs(self) -> dict[str, Any]:
        """The attributes that state it; there is none for what is empty."""
        splits = [
            {"group": one.group, "name": one.name, "split": list(map(list, one.split))}
            for one in self.splits
        ]
        stated = {
            MESH: written(self.axes),
            BATCH_AXES: list(self.batch),
            SHARDINGS: splits,
            MESH_DEVICES: list(self.devices),
        }
        return {name: value for name, value in stated.items() if value}

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes of the axes by name."""
        return {axis.name: axis.size for axis in self.axes}

    @property
    def count(self) -> int:
        """The number of devices."""
        return math.prod(axis.size for axis in self.axes)

    @property
    def batch_parts(self) -> int:
        """In how many parts the samples of a batch are."""
        return math.prod(self.sizes[name] for name in self.batch)

    def is_among(self, devices: Sequence[jax.Device]) -> bool:
        """Whether the training could be on some of these."""
        known = {device.id for device in devices}
        return len(known) >= self.count and {*self.devices} <= known

    def group(self, name: str) -> dict[str, Split]:
        """The splits of a group's arrays by name; one that is not there is whole."""
        return {one.name: one.split for one in self.splits if one.group == name}

    def mesh(self, devices: Sequence[jax.Device]) -> Mesh:
        """The mesh of these axes, of the devices that it names, or else of the first of these."""
        if self.devices:
            known = {device.id: device for device in devices}
            missing = [number for number in self.devices if number not in known]
            if missing:
                raise ValueError(
                    f"the training is on the devices {', '.join(map(str, self.devices))}, but "
                    f"there is no device {missing[0]} here: name others by "
                    "Trainer(..., device=mesh), with a jax.sharding.Mesh of the same axes"
                )
            chosen = np.array([known[number] for number in self.devices])
            shape = [axis.size for axis in self.axes]
            return Mesh(chosen.reshape(shape), [*self.sizes], axis_types=_automatic(self.axes))
        return mesh_of(self.axes, devices)


def mesh_of(axes: Sequence[MeshAxis], devices: Sequence[jax.Device]) -> Mesh:
    """A mesh of the first of some devices, within which XLA decides what it moves."""
    count = math.prod(axis.size for axis in axes)
    if count > len(devices):
        said = ", ".join(f'"{axis.name}": {axis.size}' for axis in axes)
        raise ValueError(
            f"the mesh {{{said}}} takes {count} devices, but JAX has {len(devices)} here: give a "
            "smaller mesh, or on a CPU make more of it, before JAX is first used, by "
            f'jax.config.update("jax_num_cpu_devices", {count})'
        )
    return jax.make_mesh(
        [axis.size for axis in axes],
        [axis.name for axis in axes],
        axis_types=_automatic(axes),
        devices=devices[:count],
    )


def axes_of(mesh: MeshLike) -> tuple[MeshAxis, ...]:
    """The axes of a mesh as a user gives it."""
    named = mesh.shape if isinstance(mesh, Mesh) else mesh
    if not isinstance(named, Mapping) or not named:
        raise TypeError(
            'a mesh is a jax.sharding.Mesh, or the sizes of its axes such as {"data": 4}, but it '
            f"is {mesh!r}"
        )
    for name, size in named.items():
        if not is_axis_name(name):
            raise ValueError(
                'an axis of a mesh has a name such as "data", of letters from a to z, digits and '
                f"underscores, but it is {name!r}"
            )
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
            raise ValueError(f"the axis `{name}` of the mesh must have 1 device or more: {size!r}")
    return tuple(MeshAxis(name, int(size)) for name, size in named.items())


def device_numbers(mesh: MeshLike) -> tuple[int, ...]:
    """The numbers of a mesh's devices, where they are others than those that its axes alone say."""
    if not isinstance(mesh, Mesh):
        return ()
    own = list(mesh.devices.flat)
    same = mesh_of(axes_of(mesh), jax.devices(own[0].platform)) if _are_here(own) else None
    return () if same is None or list(same.devices.flat) == own else tuple(d.id for d in own)


def _are_here(devices: Sequence[Any]) -> bool:
    return all(isinstance(device, jax.Device) for device in devices)


def split_of_spec(spec: Any, axes: Sequence[MeshAxis], subject: str) -> Split:
    """What a PartitionSpec says, or a tuple like it."""
    if not isinstance(spec, PartitionSpec | tuple | list):
        raise TypeError(
            f"{subject} is split by a jax.sharding.PartitionSpec or a tuple such as "
            f'(None, "model"), with an entry for each dimension, but {spec!r} was given'
        )
    entries = [_entry(one, subject) for one in tuple(spec)]
    known = [axis.name for axis in axes]
    used = [name for entry in entries for name in entry]
    for name in used:
        if name not in known:
            raise ValueError(
                f"{subject} is split along the axis `{name}`, but the mesh has "
                f"{', '.join(f'`{one}`' for one in known)}{did_you_mean(name, known)}"
            )
        if used.count(name) > 1:
            raise ValueError(
                f"{subject} is split along the axis `{name}` twice: an axis splits one dimension "
                "of an array"
            )
    return trimmed(entries)


def _entry(entry: Any, subject: str) -> Axes:
    if entry is None:
        return ()
    names = (entry,) if isinstance(entry, str) else entry
    if isinstance(names, tuple | list) and all(isinstance(name, str) for name in names):
        return tuple(names)
    raise TypeError(
        f"{subject}: a dimension is split along an axis by its name, along several by a tuple of "
        f"names, or None keeps it whole, but {entry!r} was given"
    )


def trimmed(entries: Sequence[Axes]) -> Split:
    """A split without the whole dimensions at its end."""
    kept = list(entries)
    while kept and not kept[-1]:
        kept.pop()
    return tuple(kept)


def parts(axes: Axes, sizes: Mapping[str, int]) -> int:
    """In how many parts axes split a dimension."""
    return math.prod(sizes[name] for name in axes)


def named_sharding(mesh: Mesh, split: Split) -> NamedSharding:
    """A split on a mesh, as JAX has it."""
    entries = (axes if len(axes) > 1 else next(iter(axes), None) for axes in split)
    return NamedSharding(mesh, PartitionSpec(*entries))


def stored_splits(own: Sequence[Split], storage: Storage) -> list[Split]:
    """The splits of a step's arrays, of those of the user's arrays that lie in them.

    All rows of a stack are split alike.
    """
    moved = [_moved(split, place) for split, place in zip(own, storage.places, strict=True)]
    stacks = storage.stacks
    return [
        trimmed(((), *moved[rows[0]])) if rows in stacks else moved[rows[0]]
        for rows in storage.members
    ]


def shardings_of_step(
    mod: IRModule, spread: Distribution, mesh: Mesh
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Those of what `train_step` takes, and of what it gives first: the loss and its state."""
    arguments = Arguments.of(mod, ADJOINT)
    params, of_params = params_of(mod, arguments.params)
    states, of_states = states_of(mod)

    def splits(group: str, vars_: Sequence[Var]) -> list[Split]:
        found = spread.group(group)
        return [found.get(var.name, WHOLE) for var in vars_]

    def on_mesh(found: Sequence[Split]) -> tuple[NamedSharding, ...]:
        return tuple(named_sharding(mesh, split) for split in found)

    state = (
        on_mesh(stored_splits(splits("params", params), of_params)),
        on_mesh(splits("states", arguments.states)),
        on_mesh(stored_splits(splits("optimizer", states), of_states)),
    )
    batch = on_mesh(splits("inputs", arguments.inputs) + splits("targets", arguments.targets))
    return (*state, *batch), (named_sharding(mesh, WHOLE), *state)


def unlike_rows(own: Sequence[Split], storage: Storage) -> Iterator[tuple[int, int]]:
    """Rows of one stack that are split otherwise, by the numbers of the user's arrays."""
    for rows in storage.stacks:
        for row in rows[1:]:
            if own[row] != own[rows[0]]:
                yield rows[0], row


def _moved(split: Split, place: Place) -> Split:
    if not place.order:
        return split
    whole = (*split, *[()] * (len(place.order) - len(split)))
    return trimmed([whole[axis] for axis in place.order])


def _automatic(axes: Sequence[Any]) -> tuple[AxisType, ...]:
    return (AxisType.Auto,) * len(axes)
