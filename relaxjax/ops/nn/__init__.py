"""Operators of neural networks."""

from . import activation as activation
from . import batch_norm as batch_norm
from . import convolution as convolution
from . import dropout as dropout
from . import loss as loss
from . import normalization as normalization
from . import transposed_convolution as transposed_convolution
