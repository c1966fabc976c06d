"""Images to train on without a network, and the file format they come in."""

from .batches import batches as batches
from .digits import Dataset as Dataset
from .digits import digits as digits
from .idx import IdxError as IdxError
