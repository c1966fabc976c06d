"""The script, where TVM has it."""

from relaxjax.script import from_source as from_source
from relaxjax.script import ir as ir
from relaxjax.script import ir_module as ir_module
from relaxjax.script import relax as relax
from relaxjax.script import tirx as tir
from relaxjax.script import tirx as tirx

__all__ = ["from_source", "ir", "ir_module", "relax", "tir", "tirx"]
