"""Operators that make tensors of sizes and numbers; and random ones, where training draws them."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Constant, Expr, ShapeExpr, np_dtype
from relaxjax.ops.emit import call, dims_of, dtype_of, scalar

from .pairs import fixed
from .promotion import cast, default_dtype, is_floating
from .table import aten


def filled(sizes: Sequence[Dim], value: Any, dtype: str) -> Expr:
    return call("full", ShapeExpr(tuple(sizes)), cast(value, dtype), dtype)


def _dtype_of_number(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    return default_dtype() if isinstance(value, float) else "int64"


@aten("full.default")
def full(size: Sequence[Dim], fill_value: Any, dtype: str | None = None, **_: Any) -> Expr:
    return filled(size, fill_value, dtype or _dtype_of_number(fill_value))


@aten("full_like.default")
def full_like(self: Expr, fill_value: Any, dtype: str | None = None, **_: Any) -> Expr:
    return filled(dims_of(self), fill_value, dtype or dtype_of(self))


@aten("new_full.default")
def new_full(
    self: Expr, size: Sequence[Dim], fill_value: Any, dtype: str | None = None, **_: Any
) -> Expr:
    return filled(size, fill_value, dtype or dtype_of(self))


def declare_made(name: str, made: Callable[[Sequence[Dim], str], Expr]) -> None:
    """The operators that make a tensor of a size, and one like another."""

    def of_size(size: Sequence[Dim], dtype: str | None = None, **_: Any) -> Expr:
        return made(size, dtype or default_dtype())

    def like(self: Expr, dtype: str | None = None, **_: Any) -> Expr:
        return made(dims_of(self), dtype or dtype_of(self))

    aten(f"{name}.{'memory_format' if name == 'empty' else 'default'}")(of_size)
    aten(f"{name}_like.default")(like)


def _declare_constant(name: str, value: int) -> None:
    def new(self: Expr, size: Sequence[Dim], dtype: str | None = None, **_: Any) -> Expr:
        return filled(size, value, dtype or dtype_of(self))

    declare_made(name, lambda size, dtype: filled(size, value, dtype))
    aten(f"new_{name}.default")(new)


# What `empty` holds is nothing that a program may rely on, so zeros will do.
for _name, _value in (("zeros", 0), ("ones", 1), ("empty", 0)):
    _declare_constant(_name, _value)


@aten("arange.default", "arange.start", "arange.start_step")
def arange(end: Any, start: Any = 0, step: Any = 1, dtype: str | None = None, **_: Any) -> Expr:
    floats = any(isinstance(one, float) for one in (start, end, step))
    name = dtype or (default_dtype() if floats else "int64")
    if not floats and step == 1:
        return call("arange", start, end, 1, name)
    if all(isinstance(one, int | float) for one in (start, end, step)):
        count = max(math.ceil((end - start) / step), 0)
    elif not floats and isinstance(start, int) and isinstance(step, int) and step > 0:
        count = (end - start + step - 1) // step  # torch has none that end before they start
    else:
        raise ValueError("arange by floats, or backwards, of sizes that are not known")
    places = cast(call("arange", 0, count, 1, "int64"), name)
    return places * cast(step, name) + cast(start, name)


_ENDS = ("default", "Tensor_Tensor", "Tensor_Scalar", "Scalar_Tensor")


@aten(*(f"linspace.{ends}" for ends in _ENDS))
def linspace(
    start: Expr | float, end: Expr | float, steps: int, dtype: str | None = None, **_: Any
) -> Expr:
    """Numbers at equal distances, those of the second half counted from the end, as torch does.

    Ends that are tensors are constants to Gradient, as they are to that of torch.
    """
    name = _of_floats(dtype)
    if steps == 1:
        return filled([1], fixed(start) if isinstance(start, Expr) else start, name)
    places = cast(call("arange", 0, steps, 1, "int64"), name)
    width: Expr
    if isinstance(start, Expr) or isinstance(end, Expr):
        width = (_end(end, places) - _end(start, places)) / scalar(steps - 1, places)
    else:
        width = scalar((end - start) / (steps - 1), places)
    from_start = _end(start, places) + width * places
    from_end = _end(end, places) - width * (scalar(steps - 1, places) - places)
    return call("where", places < scalar(steps // 2, places), from_start, from_end)


def _end(value: Expr | float, places: Expr) -> Expr:
    if isinstance(value, Expr):
        return cast(fixed(value), dtype_of(places))
    return scalar(value, places)


def _of_floats(dtype: str | None) -> str:
    name = dtype or default_dtype()
    if not is_floating(name):
        raise ValueError(
            f"numbers at equal distances in {name}, which PyTorch does not round alike everywhere: "
            "make floats, and write `.round().to(dtype)` behind them"
        )
    return name


@aten(*(f"logspace.{ends}" for ends in _ENDS))
def logspace(
    start: Expr | float,
    end: Expr | float,
    steps: int,
    base: float = 10.0,
    dtype: str | None = None,
    **_: Any,
) -> Expr:
    """The powers of a base by exponents at equal distances."""
    exponents = linspace(start, end, steps, dtype)
    return call("power", scalar(base, exponents), exponents)


@aten("eye.default", "eye.m")
def eye(n: Dim, m: Dim | None = None, dtype: str | None = None, **_: Any) -> Expr:
    return call("eye", n, n if m is None else m, 0, dtype or default_dtype())


def _triangle(places: Callable[[int, int, int], Any]) -> Callable[..., Expr]:
    """The places of the elements above or below a diagonal of a matrix of this size."""

    def rule(row: Dim, col: Dim, offset: int = 0, dtype: str | None = "int64", **_: Any) -> Expr:
        if not isinstance(row, int) or not isinstance(col, int):
            raise ValueError(f"the places in a triangle of {row} by {col}, which is not known")
        return Constant(np.stack(places(row, offset, col)).astype(np_dtype(dtype or "int64")))

    return rule


aten("tril_indices.default")(_triangle(np.tril_indices))
aten("triu_indices.default")(_triangle(np.triu_indices))


@aten("bernoulli.float", "bernoulli.p")
def bernoulli(self: Expr, p: float = 0.5, generator: Any = None) -> Expr:
    """Ones with the probability `p`, drawn in training; a prediction has their mean, `p`."""
    ones = filled(dims_of(self), 1, dtype_of(self))
    if p in (0, 1):
        return ones if p else filled(dims_of(self), 0, dtype_of(self))
    return call("nn.dropout", ones, 1 - p)[0] * scalar(p, ones)


@aten("sym_numel.default")
def sym_numel(self: Expr) -> Dim:
    total: Dim = 1
    for size in dims_of(self):
        total = total * size
    return total


@aten("empty_strided.default", "empty_permuted.default")
def empty_anywhere(size: Sequence[Dim], *_: Any, dtype: str | None = None, **__: Any) -> Expr:
    """What is there before it is written to, in whatever order in memory."""
    return filled(size, 0, dtype or default_dtype())


@aten("new_empty_strided.default")
def new_empty_strided(
    self: Expr, size: Sequence[Dim], stride: Sequence[Dim], dtype: str | None = None, **_: Any
) -> Expr:
    return filled(size, 0, dtype or dtype_of(self))


aten("scalar_tensor.default")(lambda s, dtype=None, **_: cast(s, dtype or default_dtype()))
aten("fill.Scalar", "fill.Tensor")(lambda self, value: filled(dims_of(self), value, dtype_of(self)))
aten("zero.default")(lambda self: filled(dims_of(self), 0, dtype_of(self)))
aten("sym_size.int")(lambda self, dim: dims_of(self)[dim])
