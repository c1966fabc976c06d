"""Operators of object detection."""

from . import all_classes as all_classes
from . import multibox as multibox
from . import roi_align as roi_align
from . import roi_pool as roi_pool
from . import suppression as suppression
from . import valid_counts as valid_counts
