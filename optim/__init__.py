"""Optimizers: rules that make new parameters, written out as Relax functions."""

from .adam import Adam as Adam
from .base import BoundOptimizer as BoundOptimizer
from .base import Optimizer as Optimizer
from .base import Step as Step
from .momentum_sgd import MomentumSGD as MomentumSGD
from .sgd import SGD as SGD
