"""Operators of neural networks."""

from . import activation as activation
from . import adaptive_pooling as adaptive_pooling
from . import attention as attention
from . import batch_norm as batch_norm
from . import bias as bias
from . import convolution as convolution
from . import dropout as dropout
from . import logits_loss as logits_loss
from . import loss as loss
from . import noise as noise
from . import normalization as normalization
from . import padding as padding
from . import pooling as pooling
from . import product_loss as product_loss
from . import sparse as sparse
from . import transposed_convolution as transposed_convolution
