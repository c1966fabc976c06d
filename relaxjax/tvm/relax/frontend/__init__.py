"""How models come in, where TVM has it."""

from . import nn as nn
from .parameters import detach_params as detach_params
