"""Diagonals of matrices: read, written to, and made into matrices."""

from relaxjax.ir.dims import Dim, dim_min
from relaxjax.ir.expr import Expr
from relaxjax.ops.emit import call, dims_of, dtype_of, ndim_of, number, where
from relaxjax.ops.shapes import element_count

from .creation import filled
from .promotion import cast
from .shapes import permute, place_of, shaped
from .slicing import sliced
from .table import aten, view


def _order(ndim: int, dim1: int, dim2: int) -> list[int]:
    """All axes, the rows and the columns of the matrices last."""
    rows, columns = place_of(dim1, ndim), place_of(dim2, ndim)
    return [*(axis for axis in range(ndim) if axis not in (rows, columns)), rows, columns]


def _back(order: list[int]) -> list[int]:
    return [order.index(axis) for axis in range(len(order))]


def _places(rows: Dim, columns: Dim, offset: int) -> tuple[Dim, Dim, Dim]:
    """Where a diagonal begins and ends among the elements of a matrix in a row, and its step."""
    down, right = max(-offset, 0), max(offset, 0)
    length = dim_min(rows - down, columns - right)
    if isinstance(length, int) and length <= 0:
        return 0, 0, 1
    start = down * columns + right
    return start, start + (length - 1) * (columns + 1) + 1, columns + 1


def _put(base: Expr, new: Expr, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Expr:
    order = _order(ndim_of(base), dim1, dim2)
    x = permute(base, order)
    *batch, rows, columns = dims_of(x)
    if not isinstance(columns, int):
        raise ValueError(
            f"the diagonal of matrices of {columns} columns, which are not known, is written to: "
            "write it by torch.where(torch.eye(n, dtype=torch.bool), x, y)"
        )
    start, end, step = _places(rows, columns, offset)
    flat = shaped(x, [*batch, rows * columns])
    written = call("slice_scatter", flat, new, start, end, step, axis=len(batch))
    return permute(shaped(written, dims_of(x)), _back(order))


def _put_matrices(base: Expr, new: Expr, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Expr:
    return _put(base, new, offset, dim1, dim2)


def _read(x: Expr, offset: int, dim1: int, dim2: int) -> Expr:
    x = permute(x, _order(ndim_of(x), dim1, dim2))
    *batch, rows, columns = dims_of(x)
    flat = shaped(x, [*batch, rows * columns])
    start, end, step = _places(rows, columns, offset)
    if isinstance(step, int):
        return sliced(flat, len(batch), start, end, step)
    count = call("arange", 0, dim_min(rows + min(offset, 0), columns - max(offset, 0)), 1, "int64")
    places = count * number(step, count) + number(start, count)
    return call("take", flat, places, len(batch))


@view("diagonal.default", put=_put)
def diagonal(self: Expr, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Expr:
    """The diagonals of the matrices along two axes, as the last axis."""
    return _read(self, offset, dim1, dim2)


@view("linalg_diagonal.default", put=_put_matrices)
def linalg_diagonal(A: Expr, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Expr:  # noqa: N803  # torch's name
    return _read(A, offset, dim1, dim2)


@aten("diagonal_scatter.default")
def diagonal_scatter(self: Expr, src: Expr, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Expr:
    return _put(self, cast(src, dtype_of(self)), offset, dim1, dim2)


@aten("diag_embed.default")
def diag_embed(self: Expr, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Expr:
    """Matrices with the last axis on a diagonal, and zeros elsewhere."""
    *batch, length = dims_of(self)
    side = length + abs(offset)
    matrices = _put(filled([*batch, side, side], 0, dtype_of(self)), self, offset, -2, -1)
    return permute(matrices, _back(_order(len(batch) + 2, dim1, dim2)))


@aten("diag.default")
def diag(self: Expr, diagonal: int = 0) -> Expr:
    is_vector = ndim_of(self) == 1
    return diag_embed(self, diagonal) if is_vector else _read(self, diagonal, 0, 1)


@aten("diagflat.default")
def diagflat(self: Expr, offset: int = 0) -> Expr:
    return diag_embed(shaped(self, [element_count(dims_of(self))]), offset)


@aten("fill_diagonal.default")
def fill_diagonal(self: Expr, fill_value: float, wrap: bool = False) -> Expr:
    if ndim_of(self) != 2 or wrap:
        raise ValueError("of matrices alone, and not below a square: write it by torch.where")
    places = call("eye", *dims_of(self), 0, "bool")
    return where(places, cast(fill_value, dtype_of(self)), self)
