"""Choosing columns behind a product instead of before it."""

from relaxjax.ir.expr import Call, Expr, ShapeExpr
from relaxjax.ir.function import Function
from relaxjax.ir.laws import Laws, law
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import Op, get_op
from relaxjax.ir.tensor_types import known_ndim
from relaxjax.ir.types import TensorType
from relaxjax.ir.uses import Uses
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.simplification.apply_laws import rewritten


@pass_factory(opt_level=1, kind="function")
def ReorderTakeAfterMatmul(function: Function, mod: IRModule) -> Function:
    """Compute the product with columns taken of a matrix as columns taken of the whole product.

    So many small adapted weights, of which each row of a batch takes its own, need one product:
    with `take(weights, indices, axis=0)` of a stack of matrices, each row is multiplied by all.
    """
    return rewritten(function, LAWS)


@law("relax.matmul")
def taken_after_product(call: Call, op: Op, known: Uses) -> Expr | None:
    """A product with columns, or with matrices of a stack, that are taken: of the whole, taken."""
    x, taken = call.args
    take = known.call(taken, "relax.take")
    if take is None or not isinstance(x.ty, TensorType) or x.ty.ndim < 1:
        return None
    weights, indices = take.args
    if not isinstance(weights.ty, TensorType) or not _is_vector(indices):
        return None
    axis, ndim = take.attrs["axis"], weights.ty.ndim
    mode, dtype = take.attrs["mode"], call.attrs["out_dtype"]
    if ndim == 2 and axis is not None and axis % 2 == 1:
        whole = op(x, weights, dtype)
        return get_op("relax.take")(whole, indices, x.ty.ndim - 1, mode)
    if ndim == 3 and axis is not None and axis % 3 == 0:
        return _of_stack(x, weights, indices, mode, dtype)
    return None


LAWS = Laws([taken_after_product])


def _of_stack(x: Expr, weights: Expr, indices: Expr, mode: str, dtype: str | None) -> Expr | None:
    """The product of each matrix in `x` with a matrix of its own out of a stack."""
    assert isinstance(x.ty, TensorType)
    assert isinstance(weights.ty, TensorType)
    assert isinstance(indices.ty, TensorType)
    if x.ty.dims is None or x.ty.ndim != 3 or weights.ty.dims is None:
        return None
    if indices.ty.dims != x.ty.dims[:1]:
        return None
    batch, rows, inner = x.ty.dims
    count, _, columns = weights.ty.dims
    reshape = get_op("relax.reshape")
    side_by_side = get_op("relax.permute_dims")(weights, [1, 0, 2])
    flat = reshape(side_by_side, ShapeExpr((inner, count * columns)))
    whole = get_op("relax.matmul")(x, flat, dtype)
    apart = reshape(whole, ShapeExpr((batch, rows, count, columns)))
    chosen = get_op("relax.take")(apart, indices, 2, mode)
    return get_op("relax.einsum")([chosen], "ijik->ijk")


def _is_vector(indices: Expr) -> bool:
    return known_ndim(indices) == 1
