"""Matrix products of which one is the transpose of the other: (a b)^T = b^T a^T."""

from collections.abc import Iterator, Mapping

from relaxjax.ir.attrs import Attrs
from relaxjax.ir.expr import Call, Expr, Var
from relaxjax.ir.node import replace
from relaxjax.ir.op import Op, get_op
from relaxjax.ir.types import TensorType

_AXES = (None, (1, 0))


def transposed_by(value: Expr) -> Expr | None:
    """The matrix that a value is the transpose of, None where it is none."""
    if not isinstance(value, Call) or value.op is not get_op("relax.permute_dims"):
        return None
    return value.args[0] if value.attrs["axes"] in _AXES else None


def transposed_twin(
    value: Expr, seen: Mapping[Expr, Var], transposes: Mapping[Var, Expr]
) -> Expr | None:
    """The transpose of a product in `seen` that a product of matrices is, None where none is.

    `transposes` says of variables what they are the transposes of.
    """
    if not isinstance(value, Call) or not isinstance(value.op, Op):
        return None
    if value.op.name != "relax.matmul" or not all(map(_is_matrix, value.args)):
        return None
    a, b = value.args
    for first in _transposes(b, seen, transposes):
        for second in _transposes(a, seen, transposes):
            twin = seen.get(replace(value, args=(first, second), ty=None))
            if twin is not None:
                return get_op("relax.permute_dims")(twin)
    return None


def _transposes(
    x: Expr, seen: Mapping[Expr, Var], transposes: Mapping[Var, Expr]
) -> Iterator[Expr]:
    """What is known to be the transpose of a matrix."""
    permute = get_op("relax.permute_dims")
    for axes in _AXES:
        var = seen.get(Call(permute, (x,), Attrs(axes=axes)))
        if var is not None:
            yield var
    if isinstance(x, Var) and x in transposes:
        yield transposes[x]


def _is_matrix(x: Expr) -> bool:
    return isinstance(x.ty, TensorType) and x.ty.ndim == 2
