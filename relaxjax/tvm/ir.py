"""Modules, passes and comparisons, where TVM has them."""

from relaxjax.ir import GlobalVar as GlobalVar
from relaxjax.ir import IRModule as IRModule
from relaxjax.ir import Op as Op
from relaxjax.ir.serialize import load_json as load_json
from relaxjax.ir.serialize import save_json as save_json
from relaxjax.ir.structural import assert_structural_equal as assert_structural_equal
from relaxjax.ir.structural import structural_equal as structural_equal
from relaxjax.passes import PassContext as PassContext
from relaxjax.passes import Sequential as Sequential

from . import transform as transform
from .ir_queries import structural_hash as structural_hash
