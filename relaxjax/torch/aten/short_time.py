"""Short-time Fourier transforms: of windows of a signal, and back."""

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Expr, ShapeExpr
from relaxjax.ops.emit import call, dims_of, dtype_of, ndim_of, number

from .complex_numbers import is_complex
from .creation import filled
from .indexing import index_add
from .padding import padded
from .promotion import cast, promoted
from .shapes import shaped, transpose
from .slicing import sliced
from .spectra import along, view_as_real
from .table import aten


def _places(count: Dim, hop: int, length: int) -> Expr:
    """Where the elements of each window stand in the signal."""
    start = call("expand_dims", call("arange", 0, count, 1, "int64"), 1)
    return start * number(hop, start) + call("arange", 0, length, 1, "int64")


def _widened(window: Expr, length: int) -> Expr:
    """A window with zeros on both sides."""
    (width,) = dims_of(window)
    before = (length - width) // 2
    return padded(window, [before, length - width - before], "constant", 0)


@aten("stft.default")
def stft(
    self: Expr,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Expr | None = None,
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Expr:
    """The transforms of windows of a signal, which torch has padded before."""
    hop, axis = hop_length or n_fft // 4, ndim_of(self) - 1
    count = (dims_of(self)[axis] - n_fft) // hop + 1
    frames: Expr = call("take", self, _places(count, hop, n_fft), axis)
    if window is not None:
        x, shape = promoted(frames, _widened(window, n_fft))
        frames = x * shape
    elif win_length is not None and win_length != n_fft:
        raise ValueError("a window of ones that is shorter than `n_fft`: give `window`")
    one_side = not is_complex(frames) if onesided is None else onesided
    norm = "ortho" if normalized else None
    found = along(frames, "RFFT" if one_side else "FFT", axis + 1, None, norm)
    found = call("permute_dims", found, [*range(axis), axis + 1, axis])
    return found if return_complex else view_as_real(found)


@aten("istft.default")
def istft(
    self: Expr,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Expr | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: Dim | None = None,
    return_complex: bool = False,
) -> Expr:
    """The sum of windows, divided by that of the squares of what they were multiplied by.

    It is not finite where that is 0, which is an error in PyTorch.
    """
    if return_complex:
        raise ValueError("a signal of complex numbers: give `return_complex=False`")
    hop, axis = hop_length or n_fft // 4, ndim_of(self) - 1
    spectrum = transpose(self, -2, -1)
    norm = "ortho" if normalized else None
    frames = along(spectrum, "IRFFT", axis, n_fft, norm)
    shape: Expr = call("ones", [win_length or n_fft], dtype_of(frames))
    shape = _widened(shape if window is None else cast(window, dtype_of(frames)), n_fft)
    count = dims_of(self)[axis]
    squares = call("broadcast_to", call("square", shape), ShapeExpr((count, n_fft)))
    places = _places(count, hop, n_fft)
    whole = (count - 1) * hop + n_fft
    start = n_fft // 2 if center else 0
    wanted = whole - 2 * start if length is None else length
    end = start + wanted
    if isinstance(end, int) and isinstance(whole, int):
        end = min(end, whole)
    summed = (_summed(one, places, whole) for one in (frames * shape, squares))
    found, size = (sliced(one, ndim_of(one) - 1, start, end) for one in summed)
    behind = start + wanted - end
    return padded(found / size, [0, behind], "constant", 0)


def _summed(frames: Expr, places: Expr, length: Dim) -> Expr:
    """Windows added up where they stand."""
    *batch, count, width = dims_of(frames)
    base = filled([*batch, length], 0, dtype_of(frames))
    flat = shaped(frames, [*batch, count * width])
    return index_add(base, len(batch), shaped(places, [count * width]), flat)
