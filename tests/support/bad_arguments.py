"""Calls spoilt in one place each: what every operator must refuse, or else compute rightly."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from operator_samples import Array, Dims, Sample

from relaxjax.ir.op import Op, Param

_OTHER_DTYPES = {"f": ("int32", "bool"), "i": ("float32",), "b": ("float32",), "k": ("int32",)}


def spoilt(op: Op, sample: Sample) -> Iterator[tuple[str, Sample]]:
    """The sample with one argument or attribute changed, and what was changed."""
    params = [param.name for param in op.params]
    for index, arg in enumerate(sample.args):
        name = params[min(index, len(params) - 1)]
        for title, changed in _spoilt(op.params[min(index, len(params) - 1)], arg):
            args = (*sample.args[:index], changed, *sample.args[index + 1 :])
            yield f"{name} {title}", replace(sample, args=args)
    for name, value in sample.attrs.items():
        param = next(param for param in op.params if param.name == name)
        for title, changed in _spoilt(param, value):
            yield f"{name} {title}", replace(sample, attrs={**sample.attrs, name: changed})


def _spoilt(param: Param, value: Any) -> Iterator[tuple[str, Any]]:
    match value:
        case Array():
            yield "is a shape", Dims(tuple(value.shape))
            yield from _spoilt_array(value)
        case Dims(values):
            yield "is a string", "no shape"
            yield "has another dimension", Dims((*values, 3))
            if values:
                yield "is negative", Dims((-2, *values[1:]))
        case list() if any(isinstance(item, Array) for item in value):
            yield "is empty", []
            yield "is a tensor", value[0]
            for title, item in _spoilt_array(value[-1]):
                yield f"[-1] {title}", [*value[:-1], item]
        case bool() | str():
            yield "is no such value", "no such value"
        case int():
            for bad in (99, -99, "no number"):
                yield f"is {bad}", bad
        case float():
            yield "is a string", "no number"
        case list() | tuple() if value and all(isinstance(item, int) for item in value):
            yield "is far away", [99, *value[1:]]
            yield "is negative", [-99, *value[1:]]
            yield "has one more", [*value, value[-1]]
            yield "is a string", "no numbers"


def _spoilt_array(array: Array) -> Iterator[tuple[str, Array]]:
    yield "has more dimensions", replace(array, shape=(*array.shape, 1))
    yield "has a new first dimension", replace(array, shape=(3, *array.shape))
    if array.shape:
        yield "has fewer dimensions", replace(array, shape=tuple(array.shape)[:-1])
    for axis, length in enumerate(array.shape):
        for other in (length + 3, 1):
            shape = (*array.shape[:axis], other, *array.shape[axis + 1 :])
            yield f"is {other} long along {axis}", replace(array, shape=shape)
    kind = "f" if "float" in array.dtype else array.dtype[0].replace("u", "i")
    for dtype in _OTHER_DTYPES[kind]:
        yield f"is {dtype}", replace(array, dtype=dtype)
