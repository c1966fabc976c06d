"""Laws of sums over axes: what is the same for all that is summed up is multiplied once."""

from collections.abc import Sequence
from dataclasses import dataclass

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.laws import law
from relaxjax.ir.op import Op, get_op
from relaxjax.ir.tensor_types import known_ndim
from relaxjax.ir.types import TensorType
from relaxjax.ir.uses import Uses
from relaxjax.ops.shapes import same_dims

from .tensors import has_shape_of

# In half precision a sum may overflow without the factor that makes each of its terms small.
_DTYPES = frozenset({"float32", "float64"})
# So many operations are looked through.
_DEPTH = 8


@law("relax.sum", "relax.collapse_sum_to")
def factor_of_sum(call: Call, op: Op, known: Uses) -> Expr | None:
    """sum(x * c) = sum(x) * c, where c is one number for all that is summed up; so is x / c.

    Where the gradient of a normalization needs sums of the same product by other factors, one sum
    serves for all, and XLA, which writes out what it is to sum up, has less to write. Single
    numbers stay inside.
    """
    ty = call.ty
    if not isinstance(ty, TensorType) or ty.dtype not in _DTYPES:
        return None
    if ty.dims is None or not (op.name == "relax.collapse_sum_to" or call.attrs["keepdims"]):
        return None
    parts = _Factors(ty.dims, known).of(call.args[0], _DEPTH)
    if not any(known_ndim(c) > 0 for _, c in parts.taken):
        return None
    first, *rest = parts.left
    for factor in rest:
        first = get_op("relax.multiply")(first, factor)
    if not has_shape_of(first, call.args[0]):
        return None
    total: Expr = op(first, *call.args[1:], **call.attrs)
    for name, factor in parts.taken:
        total = get_op(name)(total, factor)
    return get_op("relax.negative")(total) if parts.is_negative else total


@dataclass(frozen=True)
class _Parts:
    """A product: factors that are `left` in a sum, and what is `taken` out, by which operator."""

    left: tuple[Expr, ...]
    taken: tuple[tuple[str, Expr], ...] = ()
    is_negative: bool = False


@dataclass(frozen=True)
class _Factors:
    """Finds the factors of what is summed to some shape that have no more than this shape."""

    dims: Sequence[Dim]
    known: Uses

    def of(self, x: Expr, depth: int) -> _Parts:
        """The parts of `x`, which is one factor if nothing can be taken out of it."""
        call = self.known.call(x)
        whole = _Parts((x,))
        if call is None or not isinstance(call.op, Op) or depth == 0:
            return whole
        if call.op.name == "relax.negative":
            inner = self.of(call.args[0], depth - 1)
            return _Parts(inner.left, inner.taken, not inner.is_negative)
        if call.op.name not in ("relax.multiply", "relax.divide"):
            return whole
        a, b = call.args
        if self.is_constant(b):
            inner = self.of(a, depth - 1)
            return _Parts(inner.left, (*inner.taken, (call.op.name, b)), inner.is_negative)
        if call.op.name == "relax.divide":
            return whole
        if self.is_constant(a):
            inner = self.of(b, depth - 1)
            return _Parts(inner.left, (*inner.taken, (call.op.name, a)), inner.is_negative)
        one, other = self.of(a, depth - 1), self.of(b, depth - 1)
        if not (one.taken or other.taken or one.is_negative or other.is_negative):
            return whole
        taken = (*one.taken, *other.taken)
        return _Parts((*one.left, *other.left), taken, one.is_negative is not other.is_negative)

    def is_constant(self, x: Expr) -> bool:
        """Whether `x` is the same for all that goes into one sum."""
        if not isinstance(x.ty, TensorType) or x.ty.dims is None:
            return False
        own, new = x.ty.dims, len(self.dims) - len(x.ty.dims)
        return new >= 0 and all(
            dim == 1 or same_dims((dim,), (wide,))
            for dim, wide in zip(own, self.dims[new:], strict=True)
        )
