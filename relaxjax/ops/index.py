"""Operators that read parts of a tensor."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Expr, np_dtype
from relaxjax.ir.types import PrimType, TensorType, is_integer
from relaxjax.ir.wording import counted

from .arrays import as_places
from .axis_layouts import TAKEN
from .cost_rules import PICKS
from .declare import OpError, op
from .emit import as_places as places_of
from .emit import call, dims_of, ndim_of, number, scalar
from .emit import where as choose
from .shapes import dims_text, normalize_axis, require_choice

_MODES = ("fast", "wrap", "clip", "nan")
# `fast` promises that no place is outside; XLA clips the places it gathers in any case.
_GATHER_MODES: dict[str, Any] = {"fast": "clip", "wrap": "wrap", "clip": "clip"}


def require_integers(ty: TensorType, name: str) -> None:
    if ty.dtype is not None and not is_integer(ty.dtype):
        raise OpError(f"`{name}` must have an integer dtype, found {ty.dtype}")


def require_read(
    name: str, x: TensorType, axes: Sequence[int], places: Sequence[Dim] | None
) -> None:
    """Raise where there is known to be a place to read at, and nothing to be read there."""
    if x.dims is None or places is None:
        return
    is_asked = all(isinstance(dim, int) and dim > 0 for dim in places)
    empty = next((axis for axis in axes if x.dims[axis] == 0), None)
    if is_asked and empty is not None:
        raise OpError(
            f"`{name}` has nothing along axis {empty} that could be read, but `indices` have "
            f"places: its shape is {dims_text(x.dims)}"
        )


def gather_slices(x: Any, indices: Any, axis: int | None, mode: str = "fast") -> Any:
    """What `take` does, on arrays."""
    places, along = as_places(jnp.asarray(indices)), (axis or 0) % x.ndim
    if mode == "nan":
        inside = (places >= 0) & (places < x.shape[along])
        places = jnp.where(inside, places, x.shape[along])
        return jnp.take(x, places, along, mode="fill", fill_value=jnp.nan)
    return jnp.take(x, places, along, mode=_GATHER_MODES[mode])


def _take_gradient(
    g: Expr, y: Expr, x: Expr, indices: Expr, axis: int | None, mode: str
) -> tuple[Expr, None]:
    if mode != "fast":
        g, indices = _inside(g, x, indices, axis, mode)
    return call("grad.take_backward", g, x, indices, axis=axis), None


def _inside(g: Expr, x: Expr, indices: Expr, axis: int | None, mode: str) -> tuple[Expr, Expr]:
    """The adjoint and the places with what lies outside moved inside, as the mode has it."""
    along, indices = normalize_axis(axis or 0, ndim_of(x)), places_of(indices)
    length = number(dims_of(x)[along], indices)
    if mode == "wrap":
        return g, call("floor_mod", indices, length)
    zero, last = scalar(0, indices), length - 1
    places = call("minimum", call("maximum", indices, zero), last)
    if mode == "nan":
        valid = call("equal", places, indices)
        after = [-1 - a for a in range(ndim_of(x) - along - 1)]
        g = choose(call("expand_dims", valid, after) if after else valid, g, scalar(0, g))
    return g, places


@op(
    "relax.take",
    facts={"row_ids": "indices"},
    layout=TAKEN,
    lower=gather_slices,
    gradient=_take_gradient,
    precision="follow",
    fusion="injective",
    cost=PICKS,
)
def take(x: TensorType, indices: Expr, axis: int | None = None, mode: str = "fast") -> TensorType:
    """The slices of `x` at `indices` along `axis`: y[..., i, ...] = x[..., indices[i], ...].

    The axes of `indices` replace `axis`, which may be left out for a vector. Places
    outside: `fast` expects none, `clip` takes the nearest, `wrap` counts round, `nan` gives NaN.
    """
    require_choice("mode", mode, _MODES)
    if mode == "nan" and x.dtype is not None and np_dtype(x.dtype).kind in "iub":
        raise OpError(f'`x` must be of floats for mode "nan", which {x.dtype} does not have')
    return taken_type(x, indices, axis)


def taken_type(x: TensorType, indices: Expr, axis: int | None) -> TensorType:
    """The type of the slices at `indices` along `axis`."""
    places = _places_type(indices)
    if axis is None and x.ndim not in (-1, 1):
        raise OpError(
            f"`axis` may be left out for a vector only, but `x` has {counted(x.ndim, 'dimension')}"
        )
    if x.ndim < 0 or places.ndim < 0:
        return TensorType(None, x.dtype, vdevice=x.vdevice)
    along = normalize_axis(axis or 0, x.ndim)
    require_read("x", x, [along], places.dims)
    if x.dims is None or places.dims is None:
        return TensorType(None, x.dtype, x.ndim - 1 + places.ndim, x.vdevice)
    dims = (*x.dims[:along], *places.dims, *x.dims[along + 1 :])
    return TensorType(dims, x.dtype, vdevice=x.vdevice)


def _places_type(indices: Expr) -> TensorType:
    """The type of the places: a tensor of integers, or one integer of the host as a scalar."""
    if isinstance(indices.ty, PrimType):
        return TensorType((), indices.ty.dtype)
    if not isinstance(indices.ty, TensorType):
        raise OpError(
            f"`indices` must be a tensor or an integer, but `{indices}` is of type {indices.ty}"
        )
    require_integers(indices.ty, "indices")
    return indices.ty
