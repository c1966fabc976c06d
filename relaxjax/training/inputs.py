"""What comes in from outside: arrays checked against a variable's type, and put on the device."""

import operator
from collections.abc import Sequence
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.dtypes import canonicalize_dtype

from relaxjax.ir.dtypes import is_same
from relaxjax.ir.expr import Var, np_dtype
from relaxjax.ir.tensor_types import static_dims
from relaxjax.ir.types import TensorType
from relaxjax.ir.wording import quoted
from relaxjax.lowering.target import Place, devices_of
from relaxjax.ops.lax import x64_enabled

from .devices.processes import whole_from_each
from .random_state import as_key, is_key

_SAMPLES = "; a list is one of several arrays, so make a list of samples one array by np.stack"


def with_dtype(kind: str, var: Var, value: Any) -> Any:
    """`value` in the dtype of `var`; a conversion that would change it is an error."""
    if is_key(var):
        return as_key(kind, var, value)
    wanted = device_dtype(var)
    if isinstance(value, (np.ndarray, jax.Array)) and value.dtype == wanted:
        check_mask(f"{kind} `{var.name}`", value)
        return value
    array = _numbers(f"{kind} `{var.name}`", value, wanted)
    # A NaN among integers, and what is too large, are refused below.
    with np.errstate(invalid="ignore", over="ignore"):
        converted = array.astype(wanted)
    if array.dtype == wanted or _is_unchanged(array, converted):
        return converted
    lost = _lost(array, converted)
    mend = f'convert them by .astype("{wanted}")'
    if lost.size:  # by which they would be others
        mend = f"{lost[0]} is no number of {wanted}"
    raise TypeError(
        f"{kind} `{var.name}` is of dtype {wanted}, but the values given are of dtype "
        f"{array.dtype} and would change: {mend}"
    )


def _lost(array: np.ndarray[Any, Any], converted: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The numbers that a dtype has nothing near to: no conversion helps there."""
    if converted.dtype.kind in "iu":
        bounds = np.iinfo(converted.dtype)
        return array[~((array >= bounds.min) & (array <= bounds.max))]  # NaN is among them
    lost: np.ndarray[Any, Any] = array[np.isfinite(array) & ~np.isfinite(converted)]
    return lost


def _is_unchanged(array: np.ndarray[Any, Any], converted: np.ndarray[Any, Any]) -> bool:
    """Whether a conversion keeps all numbers."""
    if array.dtype.kind in "iu" and converted.dtype.kind in "iu":
        return is_same(array, converted)
    return np.array_equal(converted.astype(array.dtype), array, equal_nan=True)


def as_seed(seed: Any) -> int:
    """A seed as an integer: a random key or a generator would be another thing in each place."""
    try:
        number = operator.index(seed)
    except TypeError:
        number = -1
    if number < 0:
        raise ValueError(f"`seed` must be an integer of at least 0, but it is {seed!r}")
    return number


def given_arrays(
    what: str, taker: str, wanted: Sequence[Var], values: Sequence[Any]
) -> tuple[Any, ...]:
    """The arrays given for some variables, in the dtypes of these."""
    if len(values) != len(wanted):
        names = quoted(var.name for var in wanted) or "nothing"
        raise ValueError(
            f"The length of the {what} does not match {taker}: it takes {names}, "
            f"but {len(values)} were given{_SAMPLES if len(values) > len(wanted) else ''}"
        )
    return tuple(
        with_dtype(what[:-1], var, value) for var, value in zip(wanted, values, strict=True)
    )


def check_mask(subject: str, value: Any) -> None:
    """Raise where what a mask hides would be trained on."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(
            f"{subject} is a masked array, whose mask would be lost: give what is to stand in the "
            "masked places by .filled(...), such as the class that the loss ignores"
        )


def holds_numbers(dtype: Any) -> bool:
    """Whether arrays of it hold numbers: no texts, times, records, objects or random keys."""
    if jnp.issubdtype(dtype, np.timedelta64):  # numpy has it among the integers
        return False
    return jnp.issubdtype(dtype, jnp.number) or jnp.issubdtype(dtype, jnp.bool)


def as_array(subject: str, value: Any) -> np.ndarray[Any, Any]:
    """An array of numpy; other libraries have some that become none, as torch has of bfloat16."""
    try:
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(
            f"{subject} must become an array of numpy, but {type(value).__name__} does not: "
            f"{error}; convert it beforehand, a tensor of torch by .detach().float().numpy()"
        ) from error


def _numbers(subject: str, value: Any, wanted: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """An array of the numbers given, whatever gives them."""
    check_mask(subject, value)
    array = as_array(subject, value)
    if array.dtype.kind == "c" and wanted.kind != "c":
        raise TypeError(
            f"{subject} is of dtype {wanted}, but the values given are complex: give their real "
            "parts by .real, or what else is meant, such as np.abs(...)"
        )
    if holds_numbers(array.dtype):
        return array
    raise TypeError(
        f"{subject} is of dtype {wanted}, but the values given are no numbers of one dtype: an "
        f'array of them has dtype {array.dtype}; make them numbers, as by .astype("{wanted}")'
    )


def admit(kind: str, var: Var, value: Any, device: Any) -> jax.Array:
    """A copy of `value` on the device, its shape and dtype checked against the type of `var`."""
    array = with_dtype(kind, var, value)
    if not fits_shape(var, array.shape):
        raise ValueError(
            f"{kind} `{var.name}` is of type {var.ty}, but an array of shape "
            f"{tuple(array.shape)} was given"
        )
    return to_device(array, device)


def to_device(array: Any, device: Any) -> jax.Array:
    """A copy on the device, which may be donated without harm to whoever holds `array`."""
    (copy,) = all_to_device((array,), device)
    return copy


def all_to_device(arrays: tuple[Any, ...], device: Any) -> tuple[jax.Array, ...]:
    """Copies of arrays on the device, which are sent together."""
    if isinstance(device, jax.sharding.Sharding) and not device.is_fully_addressable:
        return tuple(whole_from_each(array, device) for array in arrays)
    own = tuple(_apart_from(device, array) for array in arrays)
    copies: tuple[jax.Array, ...] = jax.device_put(own, device, may_alias=False)
    return copies


def _apart_from(device: Any, array: Any) -> Any:
    """An array, or a copy where JAX would keep its very memory in spite of `may_alias`.

    It keeps that of the host, and that of a device among several that are to have the array.
    """
    if not isinstance(array, jax.Array):
        return np.array(array)
    is_sharding = isinstance(device, jax.sharding.Sharding)
    if not is_sharding or array.sharding.device_set == device.device_set:
        return array
    return jax.device_put(array, may_alias=False)


def first_dim(var: Var) -> int | None:
    """The first dimension of a tensor, None where it is open or there is none."""
    dims = tensor_type(var).dims
    return dims[0] if dims and isinstance(dims[0], int) else None


def fits_shape(var: Var, shape: tuple[int, ...]) -> bool:
    """Whether an array of this shape can be of the variable's type, as far as the type says."""
    ty = tensor_type(var)
    if ty.dims is None:
        return ty.ndim in (-1, len(shape))
    if len(ty.dims) != len(shape):
        return False
    static = ((dim, size) for dim, size in zip(ty.dims, shape, strict=True) if isinstance(dim, int))
    return all(dim == size for dim, size in static)


def check_any_samples(inputs: Sequence[Var], arrays: Sequence[Any]) -> None:
    """Raise where a batch is empty: a mean over none is NaN, and so is all that it would train."""
    for var, array in zip(inputs, arrays, strict=True):
        shape = np.shape(array)
        if 0 in shape and 0 not in (tensor_type(var).dims or ()):
            raise ValueError(
                f"input `{var.name}` holds no samples, its shape is {shape}: leave out empty "
                "batches"
            )


def check_samples(inputs: Sequence[Var], arrays: Sequence[Any]) -> None:
    """Raise where a batch, or each of several stacked ones, has fewer samples than it must have."""
    check_any_samples(inputs, arrays)
    for var, array in zip(inputs, arrays, strict=True):
        dims = tensor_type(var).dims or ()
        if not dims or not array.ndim or not isinstance(dims[0], int):
            continue
        size, (count, *rest) = dims[0], array.shape[-len(dims) :]
        if count < size and fits_shape(var, (size, *rest)):
            raise ValueError(
                f"input `{var.name}` holds {count} samples, but the model takes {size} at once: "
                "leave out a last batch that is smaller, by drop_last=True of the loader, or let "
                f'the model take any number, with a dimension such as "n" for the {size}'
            )


def steps_of_stack(wanted: Sequence[Var], arrays: Sequence[Any], count: int | None) -> int:
    """How many steps to make on stacked batches: one on each unless so many are asked for."""
    items = check_stacked(wanted, arrays)
    if count is not None and not 0 <= count <= items:
        raise ValueError(f"`count` must be 0 to {items}, as many batches as given, but is {count}")
    return items if count is None else count


def check_stacked(wanted: Sequence[Var], arrays: Sequence[Any]) -> int:
    """How many batches are stacked; those of which there are fewer would meet others twice."""
    counts = {array.shape[:1] for array in arrays}
    if len(counts) == 1 and () not in counts:
        return int(counts.pop()[0])
    found = ", ".join(
        f"`{var.name}` is of shape {tuple(array.shape)}"
        for var, array in zip(wanted, arrays, strict=True)
    )
    if not counts:
        raise ValueError(
            "`update_many` tells the number of batches by their arrays, but these have none: call "
            "`update` for each of them"
        )
    raise ValueError(
        "`update_many` takes batches stacked along a new first dimension, as many of each input "
        f"and target, but {found}"
    )


def check_place(arrays: Sequence[Any], place: Place) -> None:
    """Raise where arrays of a batch were put on other devices than the trainer."""
    found = elsewhere(arrays, place)
    if found:
        raise ValueError(
            f"the batch lies on {_named(found)}, the trainer on {_named(set(devices_of(place)))}: "
            "move the batch there by jax.device_put, or give the trainer its place by "
            "Trainer(..., device=...)"
        )
    for sharding in (array.sharding for array in arrays if isinstance(array, jax.Array)):
        mesh: Any = getattr(sharding, "mesh", None)
        is_explicit = jax.sharding.AxisType.Explicit in getattr(mesh, "axis_types", ())
        if is_explicit and isinstance(place, jax.sharding.Mesh):
            raise ValueError(
                f"the batch lies on a mesh of {dict(mesh.shape)} with Explicit axes, and those of "
                "a trainer are Auto: give these to jax.make_mesh by axis_types=, or leave the "
                "batch to the trainer, as an array of numpy"
            )


def elsewhere(arrays: Sequence[Any], place: Place) -> set[jax.Device]:
    """The devices of the first array that was put on others than these; none where all are here."""
    for array in arrays:
        if isinstance(array, np.ndarray) or not array.committed:
            continue
        found: set[jax.Device] = array.sharding.device_set
        if found != set(devices_of(place)):
            return found
    return set()


def _named(devices: set[jax.Device]) -> str:
    return ", ".join(sorted(map(str, devices)))


def static_shape(kind: str, var: Var) -> tuple[int, ...]:
    """The shape of a variable that is to be initialised."""
    dims = static_dims(tensor_type(var))
    if dims is not None:
        return dims
    raise ValueError(
        f"{kind} `{var.name}` cannot be initialised, its shape is not known before a call: "
        f"its type is {var.ty}; load its values instead"
    )


def device_dtype(var: Var) -> np.dtype[Any]:
    """The dtype in which the device holds a variable: 64 bits only where JAX has them enabled."""
    return _canonical(tensor_type(var).dtype or "float32", x64_enabled())


@cache  # each step asks for the same few
def _canonical(dtype: str, x64: bool) -> np.dtype[Any]:
    """The dtype as JAX has it with 64 bits enabled or not, which is how it stands."""
    found: np.dtype[Any] = canonicalize_dtype(np_dtype(dtype))
    return found


def tensor_type(var: Var) -> TensorType:
    if isinstance(var.ty, TensorType):
        return var.ty
    raise TypeError(f"a trainer holds tensors only, but `{var.name}` is of type {var.ty}")


def as_list(values: Any) -> Sequence[Any]:
    """One value, or several, as a list."""
    return values if isinstance(values, list | tuple) else (values,)
