"""Losses as the documentation of JAX's libraries has them, each named by the example it follows."""

from collections.abc import Callable, Mapping

from jax_losses import Case as Case
from jax_losses import Draws as Draws

from .equinox_modules import EQUINOX
from .haiku_functions import HAIKU
from .linen import LINEN
from .modules import NNX
from .science import SCIENCE

LOSSES: Mapping[str, Callable[[Draws], Case]] = {**LINEN, **NNX, **EQUINOX, **HAIKU, **SCIENCE}
