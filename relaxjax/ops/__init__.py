"""Every operator, its whole story in one place."""

from . import arranging as arranging
from . import binary as binary
from . import core as core
from . import creation as creation
from . import datatype as datatype
from . import einsum as einsum
from . import gathering as gathering
from . import grad as grad
from . import index as index
from . import jax_functions as jax_functions
from . import joining as joining
from . import linear_algebra as linear_algebra
from . import loops as loops
from . import nn as nn
from . import reshaping as reshaping
from . import search as search
from . import slicing as slicing
from . import sorting as sorting
from . import statistical as statistical
from . import ternary as ternary
from . import unary as unary
from . import vision as vision
from .declare import OpError as OpError
from .declare import op as op
from .sugar import SUGAR as SUGAR
