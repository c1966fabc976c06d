"""Matrix products of which one is the transpose of the other: (a b)^T = b^T a^T."""

from collections.abc import Iterator, Mapping

from relaxjax.ir.attrs import Attrs
from relaxjax.ir.expr import Call, Expr, Var
from relaxjax.ir.node import replace
from relaxjax.ir.op import Op
from relaxjax.ir.registry import get_op
from relaxjax.ir.types import TensorType

_AXES = (None, (1, 0))


def transposed_twin(value: Expr, seen: Mapping[Expr, Var]) -> Expr | None:
    """The transpose of a product in `seen` that a product of matrices is, None where none is."""
    if not isinstance(value, Call) or not isinstance(value.op, Op):
        return None
    if value.op.name != "relax.matmul" or not all(map(_is_matrix, value.args)):
        return None
    a, b = value.args
    for first in _transposes(b, seen):
        for second in _transposes(a, seen):
            twin = seen.get(replace(value, args=(first, second), ty=None))
            if twin is not None:
                return get_op("relax.permute_dims")(twin)
    return None


def _transposes(x: Expr, seen: Mapping[Expr, Var]) -> Iterator[Expr]:
    """What is known to be the transpose of a matrix."""
    permute = get_op("relax.permute_dims")
    for axes in _AXES:
        var = seen.get(Call(permute, (x,), Attrs(axes=axes)))
        if var is not None:
            yield var
    for value, var in seen.items():
        moved = var is x and isinstance(value, Call) and value.op is permute
        if moved and isinstance(value, Call) and value.attrs["axes"] in _AXES:
            yield value.args[0]


def _is_matrix(x: Expr) -> bool:
    return isinstance(x.ty, TensorType) and x.ty.ndim == 2
