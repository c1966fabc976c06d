"""Meshes of devices, and how a tensor is parted over one: `R.device_mesh`, `"S[0], R"`."""

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from .dims import Dim

MESHES = "mesh"  # where `I.module_global_infos` lists the meshes of a module

# None where no module is being read.
_LISTED: ContextVar[tuple[Any, ...] | None] = ContextVar("meshes", default=None)
_REFERENCE = re.compile(rf"{MESHES}\[(\d+)\]")
_PART = re.compile(r"R|S\[(\d+)\]")


class GlobalInfo:
    """What a module may list beside its functions: a mesh, a device, a placeholder."""

    __slots__ = ()

    def same_as(self, other: object) -> bool:
        """Whether this is the very same record, as TVM asks it."""
        return self is other


@dataclass(frozen=True, slots=True, repr=False)
class DeviceMesh(GlobalInfo):
    """Devices in rows and columns, by their places in the list of the platform's devices.

    `shape` is how many stand along each axis, `axes` what the axes are called: `axis0`, `axis1`
    unless names are given.
    """

    shape: tuple[int, ...]
    devices: tuple[int, ...]
    axes: tuple[str, ...] = ()

    def __init__(self, shape: Any, devices: Any, axes: Any = None) -> None:
        sizes = _integers("shape", (shape,) if isinstance(shape, int) else shape, 1)
        places = _integers("device_range", devices, 0)
        if math.prod(sizes) != len(places):
            raise ValueError(
                f"a mesh of the shape {sizes} has {math.prod(sizes)} devices, but "
                f"{len(places)} are named"
            )
        if len(set(places)) != len(places):
            raise ValueError(f"a mesh has each device once, found {list(places)}")
        names = tuple(f"axis{index}" for index in range(len(sizes))) if axes is None else axes
        object.__setattr__(self, "shape", sizes)
        object.__setattr__(self, "devices", places)
        object.__setattr__(self, "axes", _axis_names(names, sizes))

    def __repr__(self) -> str:
        first, count = self.devices[0], len(self.devices)
        places = repr(list(self.devices))
        if self.devices == tuple(range(first, first + count)):
            places = f"I.Range({first}, {first + count})"
        named = f", axes={list(self.axes)}".replace("'", '"')
        usual = self.axes == DeviceMesh(self.shape, self.devices).axes if count else True
        return f"R.device_mesh({self.shape}, {places}{'' if usual else named})"

    def size(self, axis: str) -> int:
        """How many devices stand along an axis."""
        return self.shape[self.axes.index(axis)]


@dataclass(frozen=True, slots=True, repr=False)
class Placement:
    """Where the parts of a tensor lie: for each axis of the mesh the dimension that it parts.

    None is for an axis along which all devices have the same.
    """

    mesh: DeviceMesh
    parts: tuple[int | None, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))
        if len(self.parts) != len(self.mesh.shape):
            raise ValueError(
                f'the placement "{self.text}" is for {len(self.parts)} axes, but the mesh '
                f"{self.mesh} has {len(self.mesh.shape)}: write S[dimension] or R for each"
            )

    def __repr__(self) -> str:
        return f'"{self.text}" over {self.mesh}'

    @property
    def text(self) -> str:
        """The placement as TVM writes it: `S[0], R`."""
        return parts_text(self.parts)

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes of the mesh that part a dimension."""
        return tuple(
            a for a, dim in zip(self.mesh.axes, self.parts, strict=True) if dim is not None
        )

    def axes_of(self, dim: int) -> tuple[str, ...]:
        """The axes of the mesh that part a dimension, none where all devices have all of it.

        The first of several parts it first, and the next one each of those parts.
        """
        pairs = zip(self.mesh.axes, self.parts, strict=True)
        return tuple(axis for axis, part in pairs if part == dim)

    @property
    def split(self) -> tuple[tuple[str, ...], ...]:
        """The axes that part each dimension, up to the last one that is parted."""
        last = max((dim for dim in self.parts if dim is not None), default=-1)
        return tuple(map(self.axes_of, range(last + 1)))

    def parts_of(self, dim: int) -> int:
        """In how many parts a dimension is."""
        return math.prod(map(self.mesh.size, self.axes_of(dim)))

    def moved(self, places: Sequence[int | None]) -> "Placement | None":
        """The placement where dimension `i` is now at `places[i]`, None where one has no place.

        What parted a dimension that is gone parts nothing that is known.
        """
        found = [None if dim is None else places[dim] for dim in self.parts]
        lost = any(d is not None and f is None for d, f in zip(self.parts, found, strict=True))
        return None if lost else Placement(self.mesh, tuple(found))

    def in_order(self, order: Sequence[int]) -> "Placement":
        """The placement of a tensor that has its old dimensions in this order."""
        places = {old: new for new, old in enumerate(order)}
        parts = (None if dim is None else places[dim] for dim in self.parts)
        return Placement(self.mesh, tuple(parts))

    def behind(self, count: int) -> "Placement":
        """The placement of a tensor that has more dimensions before its own, parted by nothing.

        A negative count is for one that has fewer.
        """
        return Placement(self.mesh, tuple(d if d is None else d + count for d in self.parts))

    def check(self, dims: Sequence[Dim] | None, ndim: int) -> None:
        """Refuse dimensions that a tensor has not, and sizes that the mesh does not divide."""
        for dim in dict.fromkeys(dim for dim in self.parts if dim is not None):
            if -1 < ndim <= dim:
                raise ValueError(
                    f'the placement "{self.text}" parts dimension {dim}, but the tensor has '
                    f"{ndim} dimension{'' if ndim == 1 else 's'}, counted from 0"
                )
            found, count = None if dims is None else dims[dim], self.parts_of(dim)
            if isinstance(found, int) and found % count:
                axes = [f"`{axis}`" for axis in self.axes_of(dim)]
                raise ValueError(
                    f"{count} devices along the ax{'i' if len(axes) == 1 else 'e'}s "
                    f"{' and '.join(axes)} of the mesh do not divide dimension "
                    f"{dim} of size {found} in equal parts: {_sizes_that_would(found)} would"
                )


def placement_parts(text: str) -> tuple[int | None, ...]:
    """What a text such as `S[0], R` says of each axis of a mesh."""
    found = [_PART.fullmatch(part.strip()) for part in text.split(",")]
    if not all(found):
        raise ValueError(
            f'a placement has S[dimension] or R for each axis of the mesh, such as "S[0], R", '
            f'found "{text}"'
        )
    return tuple(int(one[1]) if one and one[1] else None for one in found)


def parts_text(parts: Sequence[int | None]) -> str:
    """The text of a placement."""
    return ", ".join("R" if dim is None else f"S[{dim}]" for dim in parts)


@contextmanager
def meshes_listed(meshes: Sequence[Any]) -> Iterator[None]:
    """Inside, `"mesh[1]"` is the second mesh of this list of a module."""
    token = _LISTED.set(tuple(meshes))
    try:
        yield
    finally:
        _LISTED.reset(token)


def is_module_read() -> bool:
    """Whether a module is being read, whose list says what `"mesh[0]"` is."""
    return _LISTED.get() is not None


def as_mesh(value: Any) -> DeviceMesh:
    """A mesh, given as `R.device_mesh(...)`, or by its place in the module's list, `"mesh[0]"`."""
    if isinstance(value, DeviceMesh):
        return value
    place = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
    if place is None:
        raise TypeError(
            f'must be a mesh, such as "{MESHES}[0]" of the module or '
            f"R.device_mesh((2,), I.Range(0, 2)), but {value!r} was given"
        )
    listed = _LISTED.get() or ()
    if int(place[1]) >= len(listed) or not isinstance(listed[int(place[1])], DeviceMesh):
        raise ValueError(
            f'"{value}" is none of the {len(listed)} meshes that the module lists: '
            f'I.module_global_infos({{"{MESHES}": [R.device_mesh((2,), I.Range(0, 2))]}})'
        )
    mesh: DeviceMesh = listed[int(place[1])]
    return mesh


def _sizes_that_would(size: int) -> str:
    """The numbers of devices that divide a size, the largest few where there are many."""
    divisors = [d for d in range(1, min(size, 4096) + 1) if size % d == 0] or [1]
    shown = divisors if len(divisors) <= 8 else divisors[-8:]
    *first, last = map(str, shown)
    return f"{', '.join(first)} or {last}" if first else last


def _integers(name: str, values: Any, least: int) -> tuple[int, ...]:
    if not isinstance(values, list | tuple | range) or not values:
        raise TypeError(f"`{name}` of a mesh must be integers, found {values!r}")
    for value in values:
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ValueError(f"`{name}` of a mesh must be integers from {least}, found {value!r}")
    return tuple(values)


def is_axis_name(name: object) -> bool:
    """Whether an axis of a mesh may be called so: at another letter XLA ends the process."""
    return isinstance(name, str) and name.isascii() and name.isidentifier()


def _axis_names(names: Any, sizes: Sequence[int]) -> tuple[str, ...]:
    known = isinstance(names, list | tuple) and all(map(is_axis_name, names))
    if not known or len(names) != len(sizes) or len(set(names)) != len(names):
        raise ValueError(
            f"`axes` names each of the {len(sizes)} axes of a mesh once, by letters from a to z, "
            f"digits and underscores, found {names!r}"
        )
    return tuple(names)
