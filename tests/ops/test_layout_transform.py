"""What layout_transform refuses, and its adjoint."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from relaxjax.ir import Call, SymbolicVar, TensorType, Var
from relaxjax.ir.op import get_op
from relaxjax.ops import OpError

n = SymbolicVar("n")


def transformed(layout: Any, *shape: Any, dtype: str = "float32", pad: Any = None) -> Call:
    return get_op("relax.layout_transform")(Var("x", TensorType(shape, dtype)), layout, pad)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: transformed("NC -> CN", 2),
            "relax.layout_transform: `index_map` takes 2 places, but `x` has 1 dimension",
        ),
        (lambda: transformed("NC", 2), "relax.layout_transform: `index_map` must be two layouts"),
        (
            lambda: transformed(lambda i: i, 2, dtype="int32", pad=0.5),
            "`pad_value` must be an integer for an `x` of int32, found 0.5",
        ),
        (
            lambda: transformed(lambda i, j: (i * j,), 2, 2),
            "`index_map` must give sums of places along the axes, or of parts of them such as",
        ),
        (
            lambda: transformed(lambda i, j: ((i * 3 + j) // 2,), 2, 2),
            "or of parts of them such as `c // 4` and `c % 4`, but it is T.index_map(lambda i, j:",
        ),
        (lambda: transformed(lambda i: (7 - i,), 8), "`index_map` must give sums of places"),
        (lambda: transformed(lambda i: (i, 1), 8), "`index_map` must give sums of places"),
        (
            lambda: transformed(lambda i: (i // 4, i % 3), 8),
            "the parts of `i` must be like `i // 8`, `i // 4 % 2`, `i % 4`",
        ),
        (lambda: transformed(lambda i: (i, i), 8), "must take each element to a place of its own"),
        (
            lambda: transformed(lambda i: (i % 4,), 8),
            "tells only 4 places along `i` apart, which has 8",
        ),
        (
            lambda: transformed(lambda i, j: (i,), 8, n),
            "tells only 1 places along `j` apart, which has n",
        ),
        (
            lambda: transformed(lambda i, j: (i * 9 + j,), 2, 8),
            "the elements of `i` are 9 places apart, where 8 places lie between them",
        ),
    ],
)
def test_what_is_refused_is_told(make: Callable[[], Any], message: str) -> None:
    with pytest.raises((OpError, ValueError), match=re.escape(message)):
        make()


def test_symbolic_axes_are_cut_and_joined() -> None:
    assert str(transformed("NC -> NC4c", n, 6).ty) == 'R.Tensor((n, 2, 4), dtype="float32")'
    cut = transformed(lambda i: (i // 4, i % 4), n)
    assert str(cut.ty) == 'R.Tensor(((n + 3) // 4, 4), dtype="float32")'
    assert (
        str(transformed(lambda i, j: i * 8 + j, n, 8).ty) == 'R.Tensor((n * 8,), dtype="float32")'
    )
    unknown = get_op("relax.layout_transform")(Var("x", TensorType(None, "int8", 2)), "NC -> CN")
    assert str(unknown.ty) == 'R.Tensor(dtype="int8", ndim=2)'


def test_the_adjoint_goes_back_and_leaves_out_the_padding() -> None:
    call = transformed("NC -> NC4c", 2, 6)
    gradient = call.op.gradient  # type: ignore[attr-defined]  # the callee is an operator
    g, y = Var("g", call.ty), Var("y", call.ty)
    back = gradient(g, y, call.args[0], **call.attrs)
    assert str(back.args[0]) == (
        "R.layout_transform(g, index_map=T.index_map(lambda i0, i1, i2: (i0, i1 * 4 + i2)), "
        "pad_value=None)"
    )
    assert str(back.ty) == 'R.Tensor((2, 6), dtype="float32")'
