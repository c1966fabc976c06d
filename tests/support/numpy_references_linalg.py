"""What the operators of `R.linalg` compute, in numpy."""

from collections.abc import Callable
from typing import Any

import numpy as np


def _wide(x: Any) -> Any:
    return x if x.dtype in (np.float32, np.float64) else x.astype(np.float32)


def _transposed(x: Any) -> Any:
    return np.swapaxes(x, -1, -2)


def _symmetric(x: Any) -> Any:
    return (_wide(x) + _transposed(_wide(x))) / 2


def _triangle(a: Any, lower: bool, transpose: bool, unit_diagonal: bool) -> Any:
    half = np.tril(_wide(a)) if lower else np.triu(_wide(a))
    if unit_diagonal:
        half = half - half * np.eye(a.shape[-1]) + np.eye(a.shape[-1])
    return _transposed(half) if transpose else half


def _triangular_solve(
    a: Any, b: Any, lower: bool = True, transpose: bool = False, unit_diagonal: bool = False
) -> Any:
    return np.linalg.solve(_triangle(a, lower, transpose, unit_diagonal), _wide(b))


def _norm(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """In numbers whose squares do not overflow."""
    axes = axis if axis is None or isinstance(axis, int) else tuple(axis)
    sizes = np.abs(_wide(x)).astype(np.longdouble)
    return np.sqrt((sizes * sizes).sum(axes, keepdims=keepdims))


LINALG: dict[str, Callable[..., Any]] = {
    "relax.linalg.cholesky": lambda x: np.linalg.cholesky(_symmetric(x)),
    "relax.linalg.inv": lambda x: np.linalg.inv(_wide(x)),
    "relax.linalg.det": lambda x: np.linalg.det(_wide(x)),
    "relax.linalg.slogdet": lambda x: tuple(np.linalg.slogdet(_wide(x))),
    "relax.linalg.solve": lambda a, b: np.linalg.solve(_wide(a), _wide(b)),
    "relax.linalg.triangular_solve": _triangular_solve,
    "relax.linalg.eigh": lambda x: tuple(np.linalg.eigh(_symmetric(x))),
    "relax.linalg.svd": lambda x: tuple(np.linalg.svd(_wide(x), full_matrices=False)),
    "relax.linalg.qr": lambda x: tuple(np.linalg.qr(_wide(x))),
    "relax.linalg.norm": _norm,
}
