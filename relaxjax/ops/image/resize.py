"""Resizing of images along their two or three spatial axes."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

from relaxjax.ir.expr import Expr, ShapeExpr
from relaxjax.ir.op import Op
from relaxjax.ir.types import ShapeType, TensorType
from relaxjax.ops.backward import backward_of, backward_rule
from relaxjax.ops.conversions import DType, Floats
from relaxjax.ops.declare import OpError, op
from relaxjax.ops.emit import call, dtype_of
from relaxjax.ops.lettered_layouts import lettered
from relaxjax.ops.lowered_cost import LOWERED
from relaxjax.ops.shapes import require_ndim, require_sizes

from .interpolation import METHODS, ROUNDINGS, TRANSFORMATIONS, check_choice
from .resizing import axes_of, resize, resize_backward, spatial_axes


def _check_layout(layout: str, letters: str) -> None:
    axes = axes_of(layout)
    whole = sorted(axis for axis in axes if axis.isalpha())
    blocks = {axis[-1] for axis in axes if not axis.isalpha()}
    if whole != sorted("NC" + letters) or not blocks <= {"n", "c"}:
        raise OpError(f'`layout` must name the axes of "NC{letters}", found "{layout}"')


def _complete(count: int) -> Callable[..., Mapping[str, Any]]:
    """One size for all axes, and one bound for all of a region, where one is given."""

    def complete(size: Expr, roi: tuple[float, ...] | None, **rest: Any) -> Mapping[str, Any]:
        bounds = (0.0,) if roi is None else roi
        bounds = bounds * (2 * count) if len(bounds) == 1 else bounds
        if len(bounds) != 2 * count:
            raise OpError(f"`roi` must be 1 or {2 * count} numbers, found {list(bounds)}")
        if isinstance(size, ShapeExpr) and len(size.values) == 1:
            size = ShapeExpr(size.values * count)
        return {"roi": bounds, "size": size}

    return complete


def _backward_gradient(name: str) -> Callable[..., tuple[Expr | None, ...]]:
    """It is linear in `output_grad`, and resizing itself, with nothing beyond, is its transpose."""

    def gradient(
        g: Expr, y: Expr, output_grad: Expr, data: Expr, size: Expr, **options: Any
    ) -> tuple[Expr | None, ...]:
        rest = {**options, "extrapolation_value": 0.0, "out_dtype": dtype_of(output_grad)}
        return call(name, g, size, **rest), None, None

    return gradient


def _resized_type(
    data: TensorType, size: ShapeType, letters: str, layout: str, out_dtype: str | None
) -> TensorType:
    _check_layout(layout, letters)
    require_ndim("data", data, len(axes_of(layout)))
    if size.ndim not in (-1, len(letters)):
        raise OpError(f"`size` must have {len(letters)} dimensions, found {size.ndim}")
    require_sizes("size", size.values or ())
    dtype = out_dtype or data.dtype
    if data.dims is None or size.values is None:
        return TensorType(None, dtype, len(axes_of(layout)), data.vdevice)
    dims = list(data.dims)
    for axis, dim in zip(spatial_axes(layout, letters), size.values, strict=True):
        if dims[axis] == 0 and isinstance(dim, int) and dim:
            raise OpError(f"`data` has nothing along {layout[axis]} to make {dim} elements of")
        dims[axis] = dim
    return TensorType(dims, dtype, vdevice=data.vdevice)


def _resizing(name: str, letters: str, rounding: str, doc: str) -> Op:
    """An operator on images with the spatial axes `letters`, and the one of its adjoint."""

    def infer(
        data: TensorType,
        size: ShapeType,
        roi: Floats | None = None,
        layout: str = f"NC{letters}",
        method: str = "linear",
        coordinate_transformation_mode: str = "half_pixel",
        rounding_method: str = rounding,
        cubic_alpha: float = -0.75,
        cubic_exclude: int = 0,
        extrapolation_value: float = 0.0,
        out_dtype: DType | None = None,
    ) -> TensorType:
        check_choice("method", method.lower(), METHODS)
        check_choice(
            "coordinate_transformation_mode", coordinate_transformation_mode, TRANSFORMATIONS
        )
        check_choice("rounding_method", rounding_method, ROUNDINGS)
        return _resized_type(data, size, letters, layout, out_dtype)

    infer.__doc__ = doc
    forward = op(
        f"relax.image.{name}",
        layout=lettered(),
        complete=_complete(len(letters)),
        lower=functools.partial(resize, letters),
        gradient=backward_rule(f"relax.image.{name}", "data"),
        precision="follow",
        fusion="injective",
        cost=LOWERED,
    )(infer)
    backward_of(
        forward,
        "data",
        lower=functools.partial(resize_backward, letters),
        gradient=_backward_gradient(f"image.{name}"),
        layout=lettered(data=1, like_result=0),
    )
    return forward


resize2d = _resizing(
    "resize2d",
    "HW",
    "round",
    """Images of another height and width: each element is interpolated at a place of `data`.

    `method` is linear, cubic or nearest_neighbor. Cubic has `cubic_alpha`, and `cubic_exclude` to
    leave out what is beyond the borders. Nearest has `rounding_method`: round, a half to the even
    one; floor, ceil, round_prefer_floor, round_prefer_ceil.

    `coordinate_transformation_mode` gives the place of element i, of n, on an axis of length m:

    * half_pixel: (i + 0.5) * m / n - 0.5
    * pytorch_half_pixel: the same, but 0 for n = 1
    * tf_half_pixel_for_nn: (i + 0.5) * m / n
    * asymmetric: i * m / n
    * align_corners: i * (m - 1) / (n - 1)
    * tf_crop_and_resize: the same within the region `roi` = (start_h, start_w, end_h, end_w), where
      what is outside of `data` becomes `extrapolation_value`
    """,
)
resize3d = _resizing(
    "resize3d",
    "DHW",
    "",
    """As resize2d, of depth, height and width; `roi` is the three starts, then the three ends.

    Without a `rounding_method`, the nearest neighbour is the one before a place, but for
    align_corners the rounded one.
    """,
)
