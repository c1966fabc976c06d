"""Operators of neural networks."""

from . import activation as activation
from . import loss as loss
