"""What a loss in JAX computes twice, as it is before its gradients."""

from relaxjax.ir.dtypes import named_dtype
from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.op import Op
from relaxjax.ir.types import TensorType, is_smooth
from relaxjax.passes import EliminateCommonSubexpr
from relaxjax.passes.infrastructure.kinds import Pass


def share_values() -> Pass:
    """`EliminateCommonSubexpr` for a program that is yet to be differentiated.

    Casts of floats to others that are no wider stay apart: the adjoints of each are cast back and
    added up as what they are casts of, as by JAX. Those of a shared one would be added up in its
    few bits. Behind `Gradient` they are shared.
    """
    return EliminateCommonSubexpr(fskip=_is_narrowing)


def _is_narrowing(value: Expr) -> bool:
    """Whether it is a cast of floats to others that have no more bits."""
    if not isinstance(value, Call) or not isinstance(value.op, Op):
        return False
    if value.op.name != "lax.convert_element_type":
        return False
    given, dtype = value.args[0].ty, value.attrs["new_dtype"]
    if not isinstance(given, TensorType) or given.dtype is None or not is_smooth(given.dtype):
        return False
    return is_smooth(dtype) and named_dtype(dtype).itemsize <= named_dtype(given.dtype).itemsize
