"""How models come in, where TVM has it."""

from . import nn as nn
