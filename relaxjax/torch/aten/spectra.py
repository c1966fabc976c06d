"""Complex numbers, and Fourier transforms."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Constant, Expr, ShapeExpr
from relaxjax.ir.op import get_op
from relaxjax.ops.emit import call, dims_of, dtype_of, ndim_of, scalar

from .binary import atan2
from .complex_numbers import is_complex
from .padding import padded
from .promotion import cast, default_dtype, floating
from .shapes import place_of, transpose
from .slicing import roll, sliced
from .table import aten, view

_OF_FLOATS = {"float32": "complex64", "float64": "complex128"}


def _lax(name: str, *args: Expr, **attrs: Any) -> Expr:
    return get_op(f"lax.{name}")(*args, **attrs)


@view("real.default")
def real(self: Expr) -> Expr:
    return _lax("real", self) if is_complex(self) else self


@view("imag.default")
def imag(self: Expr) -> Expr:
    return _lax("imag", self)


@aten("isreal.default")
def isreal(self: Expr) -> Expr:
    if not is_complex(self):
        return call("ones_like", self, "bool")
    return call("equal", _lax("imag", self), scalar(0, _lax("imag", self)))


@aten("complex.default")
def complex_of(real: Expr, imag: Expr) -> Expr:
    sizes = ShapeExpr(tuple(dims_of(real + imag)))
    return _lax("complex", *(call("broadcast_to", one, sizes) for one in (real, imag)))


@aten("polar.default")
def polar(abs: Expr, angle: Expr) -> Expr:  # torch's names
    return complex_of(abs * call("cos", angle), abs * call("sin", angle))


@view("view_as_real.default")
def view_as_real(self: Expr) -> Expr:
    return call("stack", [_lax("real", self), _lax("imag", self)], ndim_of(self))


@view("view_as_complex.default")
def view_as_complex(self: Expr) -> Expr:
    axis = ndim_of(self) - 1
    parts = (call("squeeze", sliced(self, axis, at, at + 1), [axis]) for at in (0, 1))
    return _lax("complex", *parts)


@view("_conj.default", "conj.default")
def conj(self: Expr) -> Expr:
    if not is_complex(self):
        return self
    return _lax("complex", _lax("real", self), -_lax("imag", self))


aten("conj_physical.default", "_conj_physical.default")(conj)


def _put_adjoint(base: Expr, new: Expr) -> Expr:
    return adjoint(new)


@view("adjoint.default", "mH.default", "matrix_H.default", put=_put_adjoint)
def adjoint(self: Expr) -> Expr:
    return conj(transpose(self, -2, -1))


view("resolve_conj.default", "resolve_neg.default")(lambda self: self)


@aten("angle.default")
def angle(self: Expr) -> Expr:
    if is_complex(self):
        return atan2(_lax("imag", self), _lax("real", self))
    x = floating(self)
    zero = scalar(0, x)
    known = call("where", x < zero, scalar(math.pi, x), zero)
    return call("where", call("isnan", x), x, known)


def _with_length(x: Expr, axis: int, wanted: Dim) -> Expr:
    """An axis cut, or filled up with zeros behind."""
    size = dims_of(x)[axis]
    if size == wanted:
        return x
    if not isinstance(size, int) or not isinstance(wanted, int):
        raise ValueError(f"an axis of {size} is transformed as if of {wanted}, which is not known")
    if wanted < size:
        return sliced(x, axis, 0, wanted)
    behind = [0, 0] * (ndim_of(x) - 1 - axis) + [0, wanted - size]
    return padded(x, behind, "constant", 0)


def _transformed(x: Expr, kind: str, axis: int, size: Dim) -> Expr:
    """A transform along one axis; those back are divided by the length."""
    ndim = ndim_of(x)
    if not isinstance(size, int):
        raise ValueError(f"a Fourier transform along an axis of {size}, which is not known")
    order = [*(place for place in range(ndim) if place != axis), axis]
    back = [order.index(place) for place in range(ndim)]
    found = _lax(
        "fft", call("permute_dims", x, order), fft_type={"FftType": kind}, fft_lengths=(size,)
    )
    return call("permute_dims", found, back)


def _scale(x: Expr, factor: float) -> Expr:
    return x if factor == 1 else x * scalar(factor, x)


def _factor(count: float, norm: str | None, is_back: bool) -> float:
    """By what a transform is multiplied; one back has been divided by the count already."""
    given = {None: "backward", "": "backward"}.get(norm, norm)
    divided = 1.0 / count
    if given == "ortho":
        wanted = math.sqrt(divided)
    else:
        wanted = divided if (given == "backward") == is_back else 1.0
    return wanted * count if is_back else wanted


def _as_complex(x: Expr) -> Expr:
    if is_complex(x):
        return x
    x = floating(x)
    return cast(x, _OF_FLOATS[dtype_of(x)])


def along(x: Expr, kind: str, axis: int, n: Dim | None, norm: str | None) -> Expr:
    """One transform as numpy has it: FFT, IFFT, RFFT or IRFFT, of a length that is given or not."""
    found = dims_of(x)[axis]
    is_back = kind.startswith("I")
    size = n if n is not None else 2 * (found - 1) if kind == "IRFFT" else found
    x = floating(x) if kind == "RFFT" else _as_complex(x)
    x = _with_length(x, axis, size // 2 + 1 if kind == "IRFFT" else size)
    result = _transformed(x, kind, axis, size)
    assert isinstance(size, int)
    return _scale(result, _factor(size, norm, is_back))


def _one(kind: str) -> Callable[..., Expr]:
    def rule(self: Expr, n: Dim | None = None, dim: int = -1, norm: str | None = None) -> Expr:
        return along(self, kind, place_of(dim, ndim_of(self)), n, norm)

    return rule


def _several(kind: str, default: Sequence[int] | None) -> Callable[..., Expr]:
    def rule(
        self: Expr,
        s: Sequence[Dim] | None = None,
        dim: Sequence[int] | None = default,
        norm: str | None = None,
    ) -> Expr:
        """Along one axis after another, of which the last one may be that of real numbers."""
        ndim = ndim_of(self)
        places = dim if dim is not None else range(0 if s is None else ndim - len(s), ndim)
        axes = [place_of(one, ndim) for one in places]
        sizes = [None if one == -1 else one for one in s or [-1] * len(axes)]
        pairs = list(zip(axes, sizes, strict=True))
        plain = kind.replace("R", "")
        if kind == "RFFT":
            self = along(self, kind, *pairs.pop(), norm)
        last = [(kind, *pairs.pop())] if kind == "IRFFT" else []
        for way, axis, size in [*((plain, *pair) for pair in pairs), *last]:
            self = along(self, way, axis, size, norm)
        return self

    return rule


for _kind in ("FFT", "IFFT", "RFFT", "IRFFT"):
    _name = f"fft_{_kind.lower()}"
    aten(f"{_name}.default")(_one(_kind))
    aten(f"{_name}2.default")(_several(_kind, (-2, -1)))
    aten(f"{_name}n.default")(_several(_kind, None))


_OTHER_WAY = {"forward": "backward", "ortho": "ortho"}  # a scale, of the transform that goes back


@aten("fft_hfft.default")
def hfft(self: Expr, n: Dim | None = None, dim: int = -1, norm: str | None = None) -> Expr:
    way = _OTHER_WAY.get(norm or "backward", "forward")
    return along(conj(self), "IRFFT", place_of(dim, ndim_of(self)), n, way)


@aten("fft_ihfft.default")
def ihfft(self: Expr, n: Dim | None = None, dim: int = -1, norm: str | None = None) -> Expr:
    way = _OTHER_WAY.get(norm or "backward", "forward")
    return conj(along(self, "RFFT", place_of(dim, ndim_of(self)), n, way))


# The numbers by which ATen says how a transform is scaled: not, by the root, by the count.
_SCALES = (0.0, -0.5, -1.0)


def _scaled_all(x: Expr, axes: Sequence[int], sizes: Sequence[Dim], mode: int, back: bool) -> Expr:
    count = math.prod(one for one in sizes if isinstance(one, int))
    return _scale(x, float(count) ** (_SCALES[mode] + back))


@aten("_fft_r2c.default")
def fft_r2c(self: Expr, dim: Sequence[int], normalization: int, onesided: bool) -> Expr:
    axes, sizes = list(dim), dims_of(self)
    if not onesided:
        return fft_c2c(_as_complex(self), dim, normalization, True)
    found = _transformed(floating(self), "RFFT", axes[-1], sizes[axes[-1]])
    for axis in axes[:-1]:
        found = _transformed(found, "FFT", axis, sizes[axis])
    return _scaled_all(found, axes, [sizes[axis] for axis in axes], normalization, False)


@aten("_fft_c2c.default")
def fft_c2c(self: Expr, dim: Sequence[int], normalization: int, forward: bool) -> Expr:
    sizes, found = dims_of(self), self
    for axis in dim:
        found = _transformed(found, "FFT" if forward else "IFFT", axis, sizes[axis])
    return _scaled_all(found, dim, [sizes[axis] for axis in dim], normalization, not forward)


@aten("_fft_c2r.default")
def fft_c2r(self: Expr, dim: Sequence[int], normalization: int, last_dim_size: Dim) -> Expr:
    sizes, found, last = dims_of(self), self, list(dim)[-1]
    for axis in list(dim)[:-1]:
        found = _transformed(found, "IFFT", axis, sizes[axis])
    found = _transformed(found, "IRFFT", last, last_dim_size)
    all_sizes = [*(sizes[axis] for axis in list(dim)[:-1]), last_dim_size]
    return _scaled_all(found, dim, all_sizes, normalization, True)


def _shift(is_back: bool) -> Callable[..., Expr]:
    def rule(self: Expr, dim: Sequence[int] | None = None) -> Expr:
        ndim = ndim_of(self)
        axes = [place_of(axis, ndim) for axis in (range(ndim) if dim is None else dim)]
        halves: list[Any] = [dims_of(self)[axis] // 2 for axis in axes]
        return roll(self, [-half if is_back else half for half in halves], axes)

    return rule


aten("fft_fftshift.default")(_shift(False))
aten("fft_ifftshift.default")(_shift(True))


@aten("fft_fftfreq.default")
def fftfreq(n: int, d: float = 1.0, dtype: str | None = None, **_: Any) -> Expr:
    return Constant(np.fft.fftfreq(n, d).astype(dtype or default_dtype()))


@aten("fft_rfftfreq.default")
def rfftfreq(n: int, d: float = 1.0, dtype: str | None = None, **_: Any) -> Expr:
    return Constant(np.fft.rfftfreq(n, d).astype(dtype or default_dtype()))


def _window(shape_of: Callable[[int], Any]) -> Callable[..., Expr]:
    """A window of numbers, one longer and without its end where it is periodic."""

    def rule(window_length: int, periodic: bool = True, dtype: str | None = None, **_: Any) -> Expr:
        found = shape_of(window_length + 1)[:-1] if periodic else shape_of(window_length)
        if window_length == 1:
            found = np.ones(1)
        return Constant(found.astype(dtype or default_dtype()))

    return rule


for _name, _shape in (
    ("hann", np.hanning),
    ("hamming", lambda n: 0.54 - 0.46 * np.cos(2 * np.pi * np.arange(n) / max(n - 1, 1))),
    ("blackman", np.blackman),
    ("bartlett", np.bartlett),
):
    aten(f"{_name}_window.default", f"{_name}_window.periodic")(_window(_shape))
