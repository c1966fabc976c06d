"""Operators of neural networks."""

from . import activation as activation
from . import batch_norm as batch_norm
from . import dropout as dropout
from . import loss as loss
from . import normalization as normalization
