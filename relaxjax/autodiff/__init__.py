"""JAX's own names for derivatives, for loss functions written in JAX."""

from .train_step import TrainState as TrainState
from .train_step import train_step as train_step
from .value_and_grad import ValueAndGrad as ValueAndGrad
from .value_and_grad import grad as grad
from .value_and_grad import value_and_grad as value_and_grad
