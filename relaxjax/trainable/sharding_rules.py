"""From what a user says of a training on many devices to the split of each of its arrays."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

from relaxjax.ir.device_mesh import Placement
from relaxjax.ir.expr import Var
from relaxjax.ir.registry import did_you_mean
from relaxjax.ir.types import TensorType, is_key
from relaxjax.ir.wording import quoted

from .sharding import (
    WHOLE,
    ArraySplit,
    Axes,
    Distribution,
    MeshAxis,
    Split,
    parts,
    split_of_spec,
    trimmed,
)

# "data", "fsdp", or how arrays are split whose names match a pattern; the first that does, says it.
ShardingLike: TypeAlias = str | Mapping[str, Any]

DATA, FSDP = "data", "fsdp"
RULES = (DATA, FSDP)
_MOST_NAMED = 8  # sizes in a message


def check_sharding(sharding: Any) -> None:
    """Raise where it is none that there is."""
    if isinstance(sharding, Mapping):
        return
    if not isinstance(sharding, str):
        raise TypeError(
            'a sharding is "data", "fsdp", or a mapping from patterns for names of parameters to '
            f"specs, but it is {sharding!r}"
        )
    if sharding not in RULES:
        raise ValueError(
            f'there is no sharding `{sharding}`: it is "data", "fsdp", or a mapping from patterns '
            f"for names of parameters to specs{did_you_mean(sharding, RULES)}"
        )


def distribution(
    sharding: ShardingLike,
    axes: Sequence[MeshAxis],
    arrays: Mapping[str, Sequence[Var]],
    batch: Mapping[str, Sequence[Var]],
    devices: tuple[int, ...] = (),
) -> Distribution:
    """What is split how: of the groups of arrays that a step changes, and of those of a batch."""
    check_sharding(sharding)
    if isinstance(sharding, Mapping):
        splits = _by_patterns(sharding, axes, arrays)
        batch_axes = _batch_axes(axes, (one.split for one in splits))
    else:
        splits = [] if sharding == DATA else _fully(axes, arrays)
        batch_axes = tuple(axis.name for axis in axes)
    found = Distribution(tuple(axes), batch_axes, tuple(splits), devices)
    of_batch = tuple(_of_batch(found, batch))
    return replace(found, splits=(*found.splits, *of_batch))


def placed_distribution(
    arrays: Mapping[str, Sequence[Var]], batch: Mapping[str, Sequence[Var]]
) -> Distribution:
    """The same as the types of the arrays say it: a batch is split as its inputs' samples are."""
    placed = [
        var for group in (*arrays.values(), *batch.values()) for var in group if place_of(var)
    ]
    meshes = {place.mesh: var for var in placed for place in [place_of(var)] if place is not None}
    if not meshes:
        raise ValueError(
            'no type says on which devices the training is: give `mesh`, such as {"data": 4}, or '
            "place the model first, by a pass such as DataParallel"
        )
    if len(meshes) > 1:
        (one, first), (other, second) = list(meshes.items())[:2]
        raise ValueError(
            f"`{first.name}` lies on {one}, but `{second.name}` on {other}: a training is on one "
            "mesh"
        )
    (mesh,) = meshes
    axes = tuple(map(MeshAxis, mesh.axes, mesh.shape))
    splits = [
        ArraySplit(group, var.name, split)
        for group, vars_ in arrays.items()
        for var in vars_
        if (split := _split_of(place_of(var)))
    ]
    samples = [_split_of(place_of(var))[:1] for vars_ in batch.values() for var in vars_]
    batch_axes = tuple(
        dict.fromkeys(axis for split in samples for entry in split for axis in entry)
    )
    found = Distribution(axes, batch_axes, tuple(splits), mesh.devices)
    return replace(found, splits=(*found.splits, *_of_batch(found, batch)))


def place_of(var: Var) -> Placement | None:
    """Where the type of an array says that it lies."""
    return var.ty.placement if isinstance(var.ty, TensorType) else None


def _split_of(placement: Placement | None) -> Split:
    return WHOLE if placement is None else placement.split


def _by_patterns(
    patterns: Mapping[str, Any], axes: Sequence[MeshAxis], arrays: Mapping[str, Sequence[Var]]
) -> list[ArraySplit]:
    names = [var.name for group in arrays.values() for var in group if dims_of(var) is not None]
    specs = {
        pattern: split_of_spec(spec, axes, f"what matches {pattern!r}")
        for pattern, spec in patterns.items()
    }
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise ValueError(
                f"the pattern {pattern!r} of `sharding` matches no parameter: there are "
                f"{_some(names)}{did_you_mean(pattern, names)}"
            )
    found = []
    for group, vars_ in arrays.items():
        for var in vars_:
            split = next((s for p, s in specs.items() if fnmatchcase(var.name, p)), WHOLE)
            if split:
                _check_divides(var, split, axes)
                found.append(ArraySplit(group, var.name, split))
    return found


def _check_divides(var: Var, split: Split, axes: Sequence[MeshAxis]) -> None:
    dims = dims_of(var)
    if dims is None or len(split) > len(dims):
        raise ValueError(
            f"`{var.name}` is of type {var.ty}, but the spec for it splits its dimension "
            f"{len(split) - 1}"
        )
    sizes = {axis.name: axis.size for axis in axes}
    for at, (dim, names) in enumerate(zip(dims, split, strict=False)):
        count = parts(names, sizes)
        if names and (not isinstance(dim, int) or dim % count):
            raise ValueError(
                f"dimension {at} of `{var.name}` is {dim}, which {_said(names)} of {count} "
                f"devices does not divide: {_that_would(dim)}; or keep that dimension whole, by "
                "None in its spec"
            )


def _that_would(dim: Any) -> str:
    if not isinstance(dim, int):
        return "its size must be known"
    divisors = [str(n) for n in range(1, dim + 1) if dim % n == 0][:_MOST_NAMED]
    return f"{', '.join(divisors)} would"


def _said(names: Axes) -> str:
    listed = " and ".join(f"`{name}`" for name in names)
    return f"the axis {listed}" if len(names) == 1 else f"the product of the axes {listed}"


def _batch_axes(axes: Sequence[MeshAxis], splits: Iterable[Split]) -> Axes:
    """The axis `data`, or those along which nothing else is split."""
    names = [axis.name for axis in axes]
    if DATA in names:
        return (DATA,)
    used = {name for split in splits for entry in split for name in entry}
    return tuple(name for name in names if name not in used)


def _fully(axes: Sequence[MeshAxis], arrays: Mapping[str, Sequence[Var]]) -> list[ArraySplit]:
    """Each array as evenly as the mesh allows. Single numbers and random keys are whole."""
    found = []
    for group, vars_ in arrays.items():
        for var in vars_:
            split = full_split(dims_of(var) or (), axes)
            if split:
                found.append(ArraySplit(group, var.name, split))
    return found


def full_split(dims: Sequence[Any], axes: Sequence[MeshAxis]) -> Split:
    """A split along all axes: of the largest dimension that they divide, else of one after another.

    An axis that divides no dimension splits none.
    """
    entries: list[Axes] = [()] * len(dims)
    left = [dim if isinstance(dim, int) else 1 for dim in dims]
    together = tuple(axis.name for axis in axes)
    count = parts(together, {axis.name: axis.size for axis in axes})
    place = _largest(left, count)
    if place is not None:
        entries[place] = together
        return trimmed(entries)
    for axis in axes:
        place = _largest(left, axis.size)
        if place is not None:
            entries[place] = (*entries[place], axis.name)
            left[place] //= axis.size
    return trimmed(entries)


def _largest(dims: Sequence[int], count: int) -> int | None:
    """The place of the largest dimension that a number of devices divides."""
    able = [at for at, dim in enumerate(dims) if dim and dim % count == 0]
    return max(able, key=lambda at: dims[at], default=None)


def _of_batch(found: Distribution, batch: Mapping[str, Sequence[Var]]) -> Iterator[ArraySplit]:
    """The arrays with as many entries as the batch has samples, split along their first dimension.

    That number is the first dimension that most of them have.
    """
    heads = [dims[0] for vars_ in batch.values() for dims in map(dims_of, vars_) if dims]
    if not heads or not found.batch:
        return
    ((samples, _),) = Counter(heads).most_common(1)
    if isinstance(samples, int):
        check_samples_divide(samples, found)
    for group, vars_ in batch.items():
        for var in vars_:
            dims = dims_of(var)
            if dims and dims[0] == samples:
                yield ArraySplit(group, var.name, (found.batch,))


def check_samples_divide(samples: int, found: Distribution) -> None:
    """Raise where the devices cannot have equally many of so many samples."""
    count = found.batch_parts
    if samples % count:
        below, above = samples // count * count, -(-samples // count) * count
        sizes = " or ".join(str(size) for size in (below, above) if size)
        raise ValueError(
            f"a batch has {samples} samples, which {_said(found.batch)} of {count} devices does "
            f"not divide: give batches of {sizes}, such as by drop_last=True of the loader"
        )


def dims_of(var: Var) -> tuple[Any, ...] | None:
    """The dimensions of an array; None of a random key, which nothing splits, and of no tensor."""
    ty = var.ty
    if not isinstance(ty, TensorType) or ty.dims is None or is_key(ty.dtype):
        return None
    return tuple(ty.dims)


def _some(names: Sequence[str]) -> str:
    listed = quoted(names[:_MOST_NAMED])
    return f"{listed} and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else listed
