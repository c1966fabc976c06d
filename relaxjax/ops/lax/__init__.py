"""The `lax` dialect: an operator for each primitive of jax.lax, and JAX's programs as IR."""

from . import control as control
from .avals import WIDE_DTYPES as WIDE_DTYPES
from .avals import aval_of as aval_of
from .avals import is_key as is_key
from .avals import is_wide as is_wide
from .avals import jax_dtype as jax_dtype
from .avals import matmul_precision as matmul_precision
from .avals import type_of as type_of
from .avals import x64_enabled as x64_enabled
from .avals import x64_for as x64_for
from .composites import whole_function as whole_function
from .dialect import lax_op as lax_op
from .dialect import read_jaxpr as read_jaxpr
from .inlining import depends_on_inputs as depends_on_inputs
from .inlining import has_own_tangent as has_own_tangent
from .inlining import lost_rule as lost_rule
from .inlining import standing_for as standing_for
from .reader import Found as Found
from .reader import OwnRule as OwnRule
from .reader import Report as Report
from .symbols import JaxSymbols as JaxSymbols
from .symbols import evaluate_attrs as evaluate_attrs
from .symbols import evaluate_dim as evaluate_dim
from .unsupported import UnsupportedPrimitiveError as UnsupportedPrimitiveError
