"""Operators on images: resizing, and sampling at the places of a grid."""

from . import affine_grid as affine_grid
from . import grid_sample as grid_sample
from . import resize as resize
