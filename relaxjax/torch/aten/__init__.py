"""What the operators of PyTorch compute, by those of Relax."""

from . import attending as attending
from . import binary as binary
from . import creation as creation
from . import images as images
from . import indexing as indexing
from . import losses as losses
from . import matrices as matrices
from . import norms as norms
from . import padding as padding
from . import places as places
from . import pointwise as pointwise
from . import pooling as pooling
from . import products as products
from . import recurrent as recurrent
from . import reductions as reductions
from . import shapes as shapes
from . import slicing as slicing
from .table import TABLE as TABLE
