"""Dataflow blocks as ordinary ones."""

from relaxjax.ir.dataflow import without_dataflow
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.passes.infrastructure.base import pass_factory


@pass_factory(opt_level=0, kind="function")
def ToNonDataflow(function: Function, mod: IRModule) -> Function:
    """Turn dataflow blocks into ordinary blocks, and their variables into ordinary ones."""
    return without_dataflow(function)
