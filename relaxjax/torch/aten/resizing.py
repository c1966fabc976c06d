"""Images in other sizes: of one, two or three spatial axes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Expr
from relaxjax.ops.emit import call, dims_of
from relaxjax.ops.shapes import same_dims

from .scaled_axes import check_floats, nearest_by_scales, smooth_by_scales
from .table import aten

_NEAREST = "nearest_neighbor"
# How ATen calls smooth ways of resizing, and of how many axes each is.
_SMOOTH = {"linear": 1, "bilinear": 2, "trilinear": 3, "bicubic": 2}


def new_sizes(x: Expr, size: Sequence[Dim] | None, scales: Sequence[float] | None) -> list[Dim]:
    """The sizes of an image that is resized, which are given, or by scales."""
    if size is not None:
        return list(size)
    wanted: list[Dim] = []
    for length, scale in zip(dims_of(x)[2:], scales or (), strict=True):
        if isinstance(length, int):
            wanted.append(int(length * scale))
        elif scale == int(scale):
            wanted.append(length * int(scale))
        else:
            raise ValueError(f"an axis of {length} times {scale} has no size that is known")
    return wanted


def _is_rounded(x: Expr, size: Sequence[Dim], scales: Sequence[float | None]) -> bool:
    """Whether a scale is not the quotient of the sizes: it says then where the image is read."""
    for length, wanted, scale in zip(dims_of(x)[2:], size, scales, strict=True):
        if scale is None:
            continue
        if scale != int(scale):
            is_exact = isinstance(length, int) and length * scale == wanted
        else:
            is_exact = same_dims([length * int(scale)], [wanted])
        if not is_exact:
            return True
    return False


def _resized(x: Expr, size: Sequence[Dim], method: str, transformation: str, rounding: str) -> Expr:
    if len(size) == 3:
        how = ("NCDHW", method, transformation, rounding)
        return call("image.resize3d", x, list(size), None, *how)
    how = ("NCHW", method, transformation, rounding)
    if len(size) == 1:  # an image of one row
        row = call("image.resize2d", call("expand_dims", x, 2), [1, *size], None, *how)
        return call("squeeze", row, [2])
    return call("image.resize2d", x, list(size), None, *how)


def _given(
    image: Expr | None,
    size: Sequence[Dim] | None,
    scale_factors: Sequence[float] | None,
    named: Mapping[str, Any],
) -> tuple[Expr, list[Dim], list[float | None]]:
    """The image, its new sizes and its scales, whatever the overload calls its arguments."""
    x = named["input"] if image is None else image
    wanted = new_sizes(x, size, scale_factors)
    given = scale_factors or [one for key, one in named.items() if key.startswith("scales")]
    return x, wanted, list(given) or [None] * len(wanted)


def _nearest(transformation: str, rounding: str) -> Callable[..., Expr]:
    def rule(
        self: Expr | None = None,
        output_size: Sequence[Dim] | None = None,
        scale_factors: Sequence[float] | None = None,
        **named: Any,
    ) -> Expr:
        x, size, scales = _given(self, output_size, scale_factors, named)
        if _is_rounded(x, size, scales):
            return nearest_by_scales(x, size, scales, 0.0 if rounding == "floor" else 0.5)
        return _resized(x, size, _NEAREST, transformation, rounding)

    return rule


def _smooth(method: str) -> Callable[..., Expr]:
    def rule(
        self: Expr | None = None,
        output_size: Sequence[Dim] | None = None,
        align_corners: bool = False,
        scale_factors: Sequence[float] | None = None,
        **named: Any,
    ) -> Expr:
        x, size, scales = _given(self, output_size, scale_factors, named)
        check_floats(x)
        if not align_corners and _is_rounded(x, size, scales):
            return smooth_by_scales(x, size, scales, is_cubic=method == "cubic")
        transformation = "align_corners" if align_corners else "half_pixel"
        return _resized(x, size, method, transformation, "")

    return rule


def _declare() -> None:
    for count in (1, 2, 3):
        name, exact = f"upsample_nearest{count}d", f"_upsample_nearest_exact{count}d"
        aten(f"{name}.vec", f"{name}.default")(_nearest("asymmetric", "floor"))
        aten(f"{exact}.vec", f"{exact}.default")(_nearest("half_pixel", "round_prefer_ceil"))
    for kind, count in _SMOOTH.items():
        name = f"upsample_{kind}{count}d"
        aten(f"{name}.vec", f"{name}.default")(_smooth("cubic" if kind == "bicubic" else "linear"))


_declare()
