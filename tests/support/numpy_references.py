"""What operators compute, in numpy, SciPy and jax.random, in the plainest way: by their names."""

from collections.abc import Callable
from typing import Any

from numpy_references_attention import ATTENTION
from numpy_references_backward import BACKWARD
from numpy_references_elementwise import ELEMENTWISE
from numpy_references_image import IMAGE
from numpy_references_indexing import INDEXING
from numpy_references_linalg import LINALG
from numpy_references_narrow import NARROW
from numpy_references_nn import NETWORK
from numpy_references_random import RANDOM
from numpy_references_reductions import REDUCTIONS
from numpy_references_shapes import SHAPES
from numpy_references_vision import VISION
from numpy_references_windows import WINDOWS

REFERENCES: dict[str, Callable[..., Any]] = {
    **ATTENTION,
    **BACKWARD,
    **ELEMENTWISE,
    **IMAGE,
    **INDEXING,
    **LINALG,
    **NARROW,
    **NETWORK,
    **RANDOM,
    **REDUCTIONS,
    **SHAPES,
    **VISION,
    **WINDOWS,
}
