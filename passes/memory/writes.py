"""Values that are written into others."""

from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.op import Op

_WRITES = ("lax.scatter", "lax.dynamic_update_slice")


def is_write(value: Expr) -> bool:
    """Whether a value is its first tensor with some numbers changed, which XLA does in place."""
    return (
        isinstance(value, Call) and isinstance(value.op, Op) and value.op.name.startswith(_WRITES)
    )
