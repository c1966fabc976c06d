"""Backends: Python functions that compile regions of a program in ways of their own."""

from .numpy_callback import compile_numpy as compile_numpy
from .numpy_callback import evaluate_numpy as evaluate_numpy
from .numpy_callback import numpy_supports as numpy_supports
from .pallas import compile_pallas as compile_pallas
from .pallas import pallas_patterns as pallas_patterns
from .pallas import pallas_supports as pallas_supports
from .registry import Backend as Backend
from .registry import backends as backends
from .registry import get_backend as get_backend
from .registry import get_patterns_with_prefix as get_patterns_with_prefix
from .registry import register_backend as register_backend

register_backend("numpy", compile_numpy, numpy_supports)
register_backend("pallas", compile_pallas, pallas_supports, list(pallas_patterns()))
