"""Samples of the operators of `R.linalg`: matrices that are far from singular."""

from typing import Any

import jax
import numpy as np
from operator_samples import Array, Sample, Shape, exactly, floats, sample


def regular(*shape: int, dtype: str = "float64") -> Array:
    """Square matrices with singular values that are apart, and far from 0."""

    def draw(random: np.random.Generator, shape: Shape) -> Any:
        size = shape[-1]
        return random.uniform(-0.3, 0.3, shape) + np.diag(1.0 + np.arange(size))

    return Array(shape, dtype, draw)


def definite(*shape: int, dtype: str = "float64") -> Array:
    """Symmetric matrices with eigenvalues that are apart, and above 0."""

    def draw(random: np.random.Generator, shape: Shape) -> Any:
        drawn = random.uniform(-0.2, 0.2, shape)
        return drawn + np.swapaxes(drawn, -1, -2) + np.diag(1.0 + np.arange(shape[-1]))

    return Array(shape, dtype, draw)


def wide(*shape: int, dtype: str = "float64") -> Array:
    """Matrices of full rank with singular values that are apart."""

    def draw(random: np.random.Generator, shape: Shape) -> Any:
        far = np.zeros(shape[-2:])
        np.fill_diagonal(far, 1.0 + np.arange(min(far.shape)))
        return random.uniform(-0.3, 0.3, shape) + far

    return Array(shape, dtype, draw)


_NARROW = ("bfloat16", "float16")
# A newer JAX chooses by platform inside of the derivative of `det`, which the reverse mode that the
# tests have of their own does not take.
_DET_TWICE = jax.__version_info__ < (0, 11)
_OF_ONE = {"cholesky": definite, "inv": regular, "det": regular, "slogdet": regular}

SAMPLES: dict[str, list[Sample]] = {
    f"relax.linalg.{name}": [
        sample(draw(3, 3), second_order=name != "det" or _DET_TWICE),
        sample(draw(2, 2, 2), second_order=name != "det" or _DET_TWICE),
        sample(draw(1, 1)),
        sample(draw(5, 5, dtype="float32"), smooth=False),
        *(sample(draw(2, 3, 3, dtype=dtype), smooth=False) for dtype in _NARROW),
        sample(draw(0, 3, 3), smooth=False),
    ]
    for name, draw in _OF_ONE.items()
}
SAMPLES["relax.linalg.det"].append(sample(exactly([[1.0, 2.0], [2.0, 4.0]])))  # a singular one
SAMPLES["relax.linalg.solve"] = [
    sample(regular(3, 3), floats(3, 2)),
    sample(regular(2, 2, 2), floats(2, 2, 1)),
    sample(regular(5, 5, dtype="float32"), floats(5, 7, dtype="float32"), smooth=False),
    *(
        sample(regular(3, 3, dtype=dtype), floats(3, 1, dtype=dtype), smooth=False)
        for dtype in _NARROW
    ),
    sample(regular(0, 3, 3), floats(0, 3, 2), smooth=False),
]
SAMPLES["relax.linalg.triangular_solve"] = [
    sample(regular(3, 3), floats(3, 2)),
    sample(regular(2, 2, 2), floats(2, 2, 1), lower=False),
    sample(regular(3, 3), floats(3, 2), transpose=True),
    sample(regular(3, 3), floats(3, 2), lower=False, transpose=True, unit_diagonal=True),
    sample(regular(3, 3), floats(3, 1), unit_diagonal=True),
    *(
        sample(regular(3, 3, dtype=dtype), floats(3, 1, dtype=dtype), smooth=False)
        for dtype in _NARROW
    ),
    sample(regular(0, 3, 3), floats(0, 3, 2), smooth=False),
]
SAMPLES["relax.linalg.eigh"] = [
    sample(definite(3, 3)),
    sample(definite(2, 2, 2)),
    sample(definite(1, 1)),
    *(sample(definite(3, 3, dtype=dtype), smooth=False) for dtype in _NARROW),
    sample(definite(0, 3, 3), smooth=False),
]
SAMPLES["relax.linalg.svd"] = [
    sample(regular(3, 3)),
    sample(wide(3, 2)),
    sample(wide(2, 2, 3)),
    *(sample(wide(3, 2, dtype=dtype), smooth=False) for dtype in _NARROW),
    sample(wide(0, 3, 2), smooth=False),
]
SAMPLES["relax.linalg.qr"] = [
    sample(regular(3, 3)),
    sample(wide(3, 2)),
    sample(wide(2, 3, 2)),
    sample(wide(2, 3), smooth=False),
    *(sample(wide(3, 2, dtype=dtype), smooth=False) for dtype in _NARROW),
    sample(wide(0, 3, 2), smooth=False),
]
SAMPLES["relax.linalg.norm"] = [
    sample(floats(2, 5)),
    sample(floats(2, 5, 3), axis=-1),
    sample(floats(2, 5, 3), axis=[0, -1], keepdims=True),
    sample(floats()),
    sample(floats(3, low=1e200, high=2e200), smooth=False),
    sample(floats(3, low=-2e-200, high=-1e-200), smooth=False),
    sample(exactly([[3.0, 4.0], [0.0, 0.0]]), axis=[1], smooth=False),
    *(sample(floats(5, 2, dtype=dtype), axis=[0], smooth=False) for dtype in _NARROW),
    sample(floats(0, 5), axis=[-1], smooth=False),
    sample(floats(0, 5), smooth=False),
]
