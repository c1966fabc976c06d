"""What reads scripts, where TVM has it."""

from . import from_source as from_source
from . import ir as ir
from . import ir_module as ir_module
from . import relax as relax
from . import tir as tir
from . import tirx as tirx
