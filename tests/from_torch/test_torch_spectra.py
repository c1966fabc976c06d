"""Complex numbers and Fourier transforms of PyTorch, beside numpy."""

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from aten_results import slopes, value

from relaxjax.ir.dims import SymbolicVar
from relaxjax.ir.expr import Constant, Var
from relaxjax.ir.types import TensorType
from relaxjax.torch.aten import TABLE
from relaxjax.torch.aten.promotion import result_dtype

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(2, 6, 5)).astype("float32")
Z: Any = (RANDOM.normal(size=(2, 6, 5)) + 1j * RANDOM.normal(size=(2, 6, 5))).astype("complex64")
fft = np.fft

CASES: list[tuple[str, tuple[Any, ...], dict[str, Any], Any]] = [
    ("fft_fft.default", (X,), {"n": 4, "dim": 1, "norm": "ortho"}, fft.fft(X, 4, 1, "ortho")),
    ("fft_fft.default", (Z,), {"n": 8, "norm": "forward"}, fft.fft(Z, 8, norm="forward")),
    ("fft_ifft.default", (Z,), {"dim": -2}, fft.ifft(Z, axis=-2)),
    ("fft_ifft.default", (X,), {"norm": "forward"}, fft.ifft(X, norm="forward")),
    ("fft_rfft.default", (X,), {"dim": 0}, fft.rfft(X, axis=0)),
    ("fft_irfft.default", (Z,), {"norm": "ortho"}, fft.irfft(Z, norm="ortho")),
    ("fft_irfft.default", (X,), {"n": 5, "dim": 1}, fft.irfft(X, 5, 1)),
    ("fft_fft2.default", (X,), {}, fft.fft2(X)),
    ("fft_ifft2.default", (Z,), {"s": [4, -1]}, fft.ifft2(Z, (4, 5))),
    ("fft_rfft2.default", (X,), {"norm": "forward"}, fft.rfft2(X, norm="forward")),
    ("fft_irfft2.default", (Z,), {"s": [6, 8]}, fft.irfft2(Z, (6, 8))),
    ("fft_fftn.default", (Z,), {}, fft.fftn(Z)),
    ("fft_ifftn.default", (Z,), {"s": [3, 5]}, fft.ifftn(Z, (3, 5), (1, 2))),
    ("fft_rfftn.default", (X,), {"dim": [0, 1]}, fft.rfftn(X, None, (0, 1))),
    ("fft_irfftn.default", (Z,), {"norm": "ortho"}, fft.irfftn(Z, norm="ortho", axes=(0, 1, 2))),
    ("_fft_r2c.default", (X,), {"dim": [1, 2], "normalization": 1, "onesided": True},
     fft.rfft2(X, norm="ortho")),
    ("_fft_r2c.default", (X,), {"dim": [2], "normalization": 0, "onesided": False}, fft.fft(X)),
    ("_fft_c2c.default", (Z,), {"dim": [1, 2], "normalization": 2, "forward": False},
     fft.ifft2(Z)),
    ("_fft_c2r.default", (Z,), {"dim": [1, 2], "normalization": 2, "last_dim_size": 8},
     fft.irfft2(Z, (6, 8))),
    ("fft_fftshift.default", (X,), {}, fft.fftshift(X)),
    ("fft_ifftshift.default", (X,), {"dim": [-1]}, fft.ifftshift(X, -1)),
    ("fft_fftfreq.default", (), {"n": 5, "d": 0.5}, fft.fftfreq(5, 0.5)),
    ("fft_rfftfreq.default", (), {"n": 6}, fft.rfftfreq(6)),
    ("hann_window.default", (), {"window_length": 6}, np.hanning(7)[:-1]),
    ("hann_window.periodic", (), {"window_length": 6, "periodic": False}, np.hanning(6)),
    ("hamming_window.periodic", (), {"window_length": 6, "periodic": False}, np.hamming(6)),
    ("bartlett_window.default", (), {"window_length": 1}, [1]),
    ("blackman_window.default", (), {"window_length": 4}, np.blackman(5)[:-1]),
    ("real.default", (X,), {}, X),
    ("imag.default", (Z,), {}, Z.imag),
    ("complex.default", (X, X[0]), {}, X + 1j * X[0]),
    ("polar.default", (abs(X), X), {}, abs(X) * np.exp(1j * X)),
    ("view_as_real.default", (Z,), {}, np.stack([Z.real, Z.imag], -1)),
    ("view_as_complex.default", (X[..., :2].copy(),), {}, X[..., 0] + 1j * X[..., 1]),
    ("_conj.default", (Z,), {}, Z.conj()),
    ("conj_physical.default", (X,), {}, X),
    ("angle.default", (Z,), {}, np.angle(Z)),
    ("angle.default", ([-1.0, 2, np.nan],), {}, [np.pi, 0, np.nan]),
    ("abs.default", (Z,), {}, abs(Z)),
]  # fmt: skip


@pytest.mark.parametrize("place", range(len(CASES)), ids=lambda i: f"{i}-{CASES[i][0]}")
def test_it_is_what_numpy_computes(place: int) -> None:
    name, given, options, wanted = CASES[place]
    np.testing.assert_allclose(value(name, *given, **options), wanted, rtol=1e-4, atol=1e-5)


def _frames(x: Any) -> Any:
    window = np.zeros(8)
    window[2:6] = [1, 2, 3, 4]
    return np.stack([fft.rfft(x[..., i : i + 8] * window) for i in (0, 3, 6)], -1)


def test_windows_of_a_signal_are_transformed() -> None:
    signal = RANDOM.normal(size=(2, 15)).astype("float32")
    given = {"n_fft": 8, "hop_length": 3, "win_length": 4, "return_complex": True}
    window = Constant(np.array([1, 2, 3, 4], "float32"))
    found = value("stft.default", signal, window=window, **given)
    np.testing.assert_allclose(found, _frames(signal), rtol=1e-4, atol=1e-4)
    parts = value(
        "stft.default", signal, window=window, normalized=True, n_fft=8, hop_length=3, win_length=4
    )
    np.testing.assert_allclose(parts[..., 0], _frames(signal).real / 8**0.5, rtol=1e-4, atol=1e-4)


def _by_jax(function: Any) -> Any:
    return jax.grad(lambda x: function(x).sum())(X)


_rfft, _irfft = (TABLE[f"aten.fft_{name}.default"].rule for name in ("rfft", "irfft"))
_mul = TABLE["aten.mul.Tensor"].rule
GRADIENTS: dict[str, tuple[Any, Any]] = {
    "a real signal taken as complex": (
        _irfft,
        jnp.fft.irfft,
    ),
    "magnitudes of frequencies": (
        lambda x: TABLE["aten.abs.default"].rule(TABLE["aten.fft_rfft2.default"].rule(x)),
        lambda x: jnp.abs(jnp.fft.rfft2(x)),
    ),
    "back and forth": (
        lambda x: _irfft(_mul(_rfft(x, dim=1), _rfft(x, dim=1)), dim=1),
        lambda x: jnp.fft.irfft(jnp.fft.rfft(x, axis=1) ** 2, axis=1),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GRADIENTS)
def test_the_gradient_of_a_transform(name: str) -> None:
    rule, function = GRADIENTS[name]
    np.testing.assert_allclose(slopes(rule, X)[0], _by_jax(function), rtol=1e-3, atol=1e-4)


def test_the_magnitude_of_zero_has_no_slope() -> None:
    def rule(x: Any) -> Any:
        return TABLE["aten.abs.default"].rule(TABLE["aten.complex.default"].rule(x, x))

    np.testing.assert_allclose(slopes(rule, [0.0, 2.0])[0], [0, 2**0.5], rtol=1e-6)


def test_complex_numbers_are_as_wide_as_their_parts() -> None:
    def tensor(dtype: str) -> Var:
        return Var("x", TensorType((2,), dtype))

    assert result_dtype(tensor("float64"), tensor("complex64")) == "complex128"
    assert result_dtype(tensor("complex64"), tensor("float32")) == "complex64"
    assert result_dtype(tensor("complex64"), 2.5) == "complex64"


N = SymbolicVar("n")
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "fft_fft.default": ({}, "a Fourier transform along an axis of n, which is not known"),
    "fft_rfft.default": ({"n": 4}, "an axis of n is transformed as if of 4"),
    "stft.default": ({"n_fft": 8, "win_length": 4}, "shorter than `n_fft`: give `window`"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_transform_is_refused_with_its_reason(name: str) -> None:
    options, message = REFUSED[name]
    x = Var("x", TensorType((2, N), "float32"))
    with pytest.raises(ValueError, match=re.escape(message)):
        TABLE[f"aten.{name}"].rule(x, **options)


@pytest.mark.parametrize(
    ("hop", "center", "normalized", "onesided", "length"),
    [
        (None, True, False, True, None),
        (4, True, True, False, 40),
        (8, False, False, True, 50),
        (5, True, False, None, 70),
    ],
)
def test_a_signal_comes_back(
    hop: int | None, center: bool, normalized: bool, onesided: bool | None, length: int | None
) -> None:
    """Windows of a signal that are transformed back, and added up where they stood."""
    signal = RANDOM.normal(size=(2, 60 + (0 if center else 4))).astype("float32")
    window = (np.hanning(14)[1:-1] + 0.1).astype("float32")
    same = {"hop_length": hop, "win_length": 12, "normalized": normalized, "onesided": onesided}
    padded = np.pad(signal, [(0, 0), (8, 8)], "reflect") if center else signal
    count = (padded.shape[1] - 16) // (hop or 4) + 1
    there = (count - 1) * (hop or 4) + 16 - (16 if center else 0)
    wanted = np.pad(signal[:, :there], [(0, 0), (0, 99)])[:, : length or there]

    def back(x: Any) -> Any:
        stft, istft = (TABLE[f"aten.{name}.default"].rule for name in ("stft", "istft"))
        framed = stft(x, 16, window=Constant(window), return_complex=True, **same)
        return istft(framed, 16, window=Constant(window), center=center, length=length, **same)

    found, slope = value(back, padded), slopes(back, padded)[0]
    assert found.shape == wanted.shape
    inner = slice(2, 36) if not center else slice(None, 40)
    np.testing.assert_allclose(found[:, inner], wanted[:, inner], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(slope[:, 20:30], 1, rtol=1e-3)


def test_a_signal_of_plain_windows_comes_back() -> None:
    signal = RANDOM.normal(size=(24,)).astype("float32")

    def back(x: Any) -> Any:
        stft, istft = (TABLE[f"aten.{name}.default"].rule for name in ("stft", "istft"))
        return istft(stft(x, 8, return_complex=True), 8, center=False)

    np.testing.assert_allclose(value(back, signal), signal, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(slopes(back, signal)[0], np.ones(24), rtol=1e-4)


def test_a_window_of_another_dtype_is_promoted() -> None:
    signal = RANDOM.normal(size=(32,)).astype("float32")
    options = {"n_fft": 8, "return_complex": False}
    window = np.hanning(8)
    found, wanted = (
        value("stft.default", signal, window=Constant(window.astype(dtype)), **options)
        for dtype in ("float16", "float32")
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-2, atol=1e-2)
