"""Losses, where TVM has them."""

from relaxjax.losses import CategoricalCrossEntropyLoss as CategoricalCrossEntropyLoss
from relaxjax.losses import CrossEntropyLoss as CrossEntropyLoss
from relaxjax.losses import L1Loss as L1Loss
from relaxjax.losses import Loss as Loss
from relaxjax.losses import MSELoss as MSELoss
