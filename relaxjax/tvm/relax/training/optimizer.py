"""Optimizers, where TVM has them."""

from relaxjax.optim import SGD as SGD
from relaxjax.optim import Adam as Adam
from relaxjax.optim import MomentumSGD as MomentumSGD
from relaxjax.optim import Optimizer as Optimizer
