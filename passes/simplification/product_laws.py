"""Laws of matrix products; none of them computes a product that was not there."""

from relaxjax.ir.expr import Call, Expr, Var
from relaxjax.ir.op import Op
from relaxjax.ir.registry import get_op
from relaxjax.ir.types import TensorType

from .definitions import Definitions


def transposed_product(call: Call, op: Op, known: Definitions) -> Expr | None:
    """(a b)^T = b^T a^T, where a transpose is undone by it and the product has no other use."""
    if op.name != "relax.permute_dims" or not isinstance(call.args[0], Var):
        return None
    product = known.call(call.args[0], "relax.matmul")
    if product is None or known.uses.get(call.args[0]) != 1:
        return None
    factors = [factor.ty for factor in product.args]
    if not all(isinstance(ty, TensorType) and ty.ndim == 2 for ty in factors):
        return None
    a, b = product.args
    if all(known.call(x, "relax.permute_dims") is None for x in (a, b)):
        return None
    transpose = get_op("relax.permute_dims")
    return get_op("relax.matmul")(transpose(b), transpose(a), product.attrs["out_dtype"])
