"""Losses in plain JAX as they are found in the wild, none of them in the suite."""

from collections.abc import Callable, Mapping

from .drawn import Case as Case
from .drawn import Draws as Draws
from .images import IMAGES
from .numbers import NUMBERS
from .sequences import SEQUENCES

LOSSES: Mapping[str, Callable[[Draws], Case]] = {**IMAGES, **SEQUENCES, **NUMBERS}
