"""What the operators of PyTorch compute, by those of Relax."""

from . import antialiased as antialiased
from . import areas as areas
from . import attending as attending
from . import binary as binary
from . import checked as checked
from . import convolutions as convolutions
from . import copies as copies
from . import creation as creation
from . import decompositions as decompositions
from . import diagonals as diagonals
from . import differences as differences
from . import error_functions as error_functions
from . import experts as experts
from . import exponential as exponential
from . import images as images
from . import indexing as indexing
from . import joining as joining
from . import losses as losses
from . import matrices as matrices
from . import matrix_norms as matrix_norms
from . import max_places as max_places
from . import memory as memory
from . import noise as noise
from . import norms as norms
from . import order as order
from . import padding as padding
from . import pairs as pairs
from . import places as places
from . import pointwise as pointwise
from . import pooling as pooling
from . import products as products
from . import recurrent as recurrent
from . import reductions as reductions
from . import reflections as reflections
from . import resizing as resizing
from . import shapes as shapes
from . import short_time as short_time
from . import slicing as slicing
from . import special as special
from . import spectra as spectra
from .aliases import declare_aliases as _declare_aliases
from .table import TABLE as TABLE

_declare_aliases()
