"""Every operator, its whole story in one place."""

from . import binary as binary
from . import unary as unary
from .declare import OpError as OpError
from .declare import op as op
