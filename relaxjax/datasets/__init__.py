"""Images and text to train on without a network, and Fashion-MNIST from its files."""

from .batches import batches as batches
from .characters import Text as Text
from .characters import text as text
from .characters import windows as windows
from .digits import digits as digits
from .fashion import ChecksumError as ChecksumError
from .fashion import fashion_mnist as fashion_mnist
from .idx import IdxError as IdxError
from .image_data import Dataset as Dataset
