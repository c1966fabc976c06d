"""What TVM keeps for building workloads."""

from . import nn as nn
from .attention import get_relax_attention_module as get_relax_attention_module
from .attention import get_relax_stacked_attention_module as get_relax_stacked_attention_module
from .matmul import get_relax_matmul_module as get_relax_matmul_module
