"""Optimizers, where TVM has them."""

from .training.optimizer import SGD as SGD
from .training.optimizer import Adam as Adam
from .training.optimizer import MomentumSGD as MomentumSGD
from .training.optimizer import Optimizer as Optimizer
