"""First values of parameters, drawn by a rule."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np


def xavier_uniform(
    rng: np.random.Generator, shape: Sequence[int], dtype: np.dtype[Any]
) -> np.ndarray[Any, Any]:
    """Uniform in [-b, b] with b = sqrt(6 / (fan in + fan out)), after Glorot and Bengio (2010).

    The fans of a kernel (out, in, height, ...) count its positions. A vector has its length for
    the sum of its fans, as in TVM.
    """
    bound = math.sqrt(6 / max(1, sum(shape[:2]) * math.prod(shape[2:])))
    return rng.uniform(-bound, bound, tuple(shape)).astype(dtype)
