"""Losses: called with the types of their arguments, they give Relax functions."""

from .base import Loss as Loss
from .cross_entropy import CategoricalCrossEntropyLoss as CategoricalCrossEntropyLoss
from .cross_entropy import CrossEntropyLoss as CrossEntropyLoss
from .l1 import L1Loss as L1Loss
from .mse import MSELoss as MSELoss
