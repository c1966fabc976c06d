"""Programs written elsewhere, as modules of Relax IR."""

from .from_jax import JaxProgram as JaxProgram
from .from_jax import from_jax as from_jax
from .from_jax import leaf_names as leaf_names
from .from_jax import leaf_paths as leaf_paths
from .from_jax import named_as as named_as
from .from_jax import traced as traced
from .own_rules import OwnRules as OwnRules
