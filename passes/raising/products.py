"""Products of `lax.*` as `relax.matmul`, and the transposes before and after them."""

from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.op import get_op

from .reading import Reading, asks_for_precision, ndim_of, of_one_float, raises
from .writing import in_order


@raises("lax.dot_general")
def product(call: Call, reading: Reading) -> Expr | None:
    """The last axis of a tensor times a matrix, or times a transposed one."""
    if not of_one_float(call):
        return None
    (left, right), batch = call.attrs["dimension_numbers"]
    x, w = call.args
    if asks_for_precision(call) or batch != ((), ()) or ndim_of(w) != 2 or ndim_of(x) < 2:
        return None
    if left != (ndim_of(x) - 1,):
        return None
    return get_op("relax.matmul")(x, in_order(w, (0, 1) if right == (0,) else (1, 0)))


@raises("lax.transpose")
def transpose(call: Call, reading: Reading) -> Expr | None:
    """Axes in another order."""
    return get_op("relax.permute_dims")(call.args[0], axes=call.attrs["permutation"])
