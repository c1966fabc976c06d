"""What TVM keeps for building workloads."""

from . import nn as nn
