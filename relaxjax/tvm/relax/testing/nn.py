"""Building workloads on the builder that is open."""

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Expr, Var
from relaxjax.ops.checkpointing import emit_checkpoint as emit_checkpoint
from relaxjax.ops.checkpointing import emit_checkpoint_sequential as emit_checkpoint_sequential


def emit(expr: Expr, name_hint: str = "") -> Var:
    """Bind a value to a new variable."""
    return BlockBuilder.current().emit(expr, name_hint)
