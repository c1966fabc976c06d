"""Laws that keep the gradients of tables as rows and places.

`R.grad.rows(values, places, shape)` stands for what is added up in a tensor of zeros. What is added
to another such, or scaled, stays one; whatever else takes it makes it whole.
"""

from relaxjax.ir.attrs import Attrs
from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Call, Expr, ShapeExpr, TupleGetItem, np_dtype
from relaxjax.ir.laws import Laws, law
from relaxjax.ir.node import replace
from relaxjax.ir.op import Op, get_op
from relaxjax.ir.tensor_types import known_dims, known_dtype
from relaxjax.ir.types import TensorType, is_float
from relaxjax.ir.uses import Uses
from relaxjax.ops.emit import as_places, dtype_of, number, scalar
from relaxjax.ops.shapes import element_count, normalize_axis, same_dims
from relaxjax.passes.simplification.tensors import fill, fills, number_of

ROWS = "relax.grad.rows"


@law("relax.grad.take_backward")
def rows_of_take(call: Call, op: Op, known: Uses) -> Expr | None:
    """What comes back to a table by `take` are rows at the places that were read."""
    g, table, places = call.args
    dims = known_dims(table)
    if not dims or not isinstance(places.ty, TensorType):
        return None
    if normalize_axis(call.attrs["axis"] or 0, len(dims)) != 0:
        return None
    given = _before_clipped(places, dims[0], known)
    if given is None:
        return get_op(ROWS)(g, _clipped(places, dims[0]), ShapeExpr(dims))
    unmasked = _before_masked(g, places, given, known)
    parts = (g, places) if unmasked is None else (unmasked, given)
    return get_op(ROWS)(*parts, ShapeExpr(dims))


@law("lax.scatter_add")
def rows_of_scatter(call: Call, op: Op, known: Uses) -> Expr | None:
    """The same of a lookup that was written in JAX: rows added to zeros."""
    return rows_by_scatter(call, *call.args[1:]) if adds_rows(call, known) else None


def adds_rows(scatter: Call, known: Uses) -> bool:
    """Whether a scatter of JAX adds a row to zeros for each place."""
    zeros, indices, _ = scatter.args
    is_known = bool(known_dims(zeros) and known_dims(indices))
    return is_known and fill(zeros, known) == 0 and _writes_rows(scatter)


def rows_by_scatter(scatter: Call, indices: Expr, values: Expr) -> Expr:
    """What such a scatter gives of these indices and values, which may be stacks of its own."""
    dims, places = known_dims(scatter.args[0]), known_dims(indices)
    assert dims
    assert places
    spots: Expr = get_op("relax.reshape")(indices, ShapeExpr(places[:-1]))
    if scatter.attrs["mode"]["GatherScatterMode"] == "CLIP":
        spots = _clipped(spots, dims[0])
    return get_op(ROWS)(values, spots, ShapeExpr(dims))


@law("relax.add", "lax.add", "lax.add_any")
def added_rows(call: Call, op: Op, known: Uses) -> Expr | None:
    """Rows and rows are the rows of both."""
    first, second = (known.call(arg, ROWS) for arg in call.args)
    if first is None or second is None or first.ty != second.ty:
        return None
    places = [one.args[1] for one in (first, second)]
    if None in map(known_dims, places) or dtype_of(places[0]) != dtype_of(places[1]):
        return None
    flat = [_flat(one) for one in (first, second)]
    joined = [get_op("relax.concat")(list(parts), axis=0) for parts in zip(*flat, strict=True)]
    return get_op(ROWS)(*joined, first.args[2])


@law("relax.multiply", "relax.divide", "lax.mul", "lax.div")
def scaled_rows(call: Call, op: Op, known: Uses) -> Expr | None:
    """Rows times a number are their values times it."""
    divides = op.name in ("relax.divide", "lax.div")
    for rows, factor in ((0, 1),) if divides else ((0, 1), (1, 0)):
        found, by = known.call(call.args[rows], ROWS), number_of(call.args[factor], known)
        if found is not None and by is not None and _keeps_type(call, found):
            operator = get_op("relax.divide" if divides else "relax.multiply")
            return replace(found, args=(operator(found.args[0], by), *found.args[1:]))
    return None


@law("relax.negative", "lax.neg")
def negative_rows(call: Call, op: Op, known: Uses) -> Expr | None:
    """Rows with the other sign are their values with it."""
    found = known.call(call.args[0], ROWS)
    if found is None:
        return None
    return replace(found, args=(get_op("relax.negative")(found.args[0]), *found.args[1:]))


@law("relax.astype", "lax.convert_element_type")
def cast_rows(call: Call, op: Op, known: Uses) -> Expr | None:
    """Rows in another dtype of floats are added up in the wider one of both."""
    found = known.call(call.args[0], ROWS)
    dtype = known_dtype(call)
    if found is None or not (is_float(dtype) and is_float(dtype_of(found))):
        return None
    values, places, shape = found.args
    if np_dtype(dtype).itemsize <= np_dtype(dtype_of(found)).itemsize:
        summed = get_op("relax.grad.summed_rows")(values, places, shape)
        values, places = TupleGetItem(summed, 0), TupleGetItem(summed, 1)
    return get_op(ROWS)(get_op("relax.astype")(values, dtype), places, shape)


ROW_LAWS = Laws([rows_of_take, rows_of_scatter, added_rows, scaled_rows, negative_rows, cast_rows])


def _before_clipped(places: Expr, length: Dim, known: Uses) -> Expr | None:
    """Places before they were moved inside, as the gradient of `take` does for some modes."""
    upper = known.call(places, "relax.minimum")
    lower = None if upper is None else known.call(upper.args[0], "relax.maximum")
    if upper is None or lower is None or fill(lower.args[1], known) != 0:
        return None
    last = known.call(upper.args[1], "relax.subtract")
    is_last = last is not None and fills(last.args, known) == [length, 1]
    return lower.args[0] if is_last else None


def _before_masked(g: Expr, places: Expr, given: Expr, known: Uses) -> Expr | None:
    """Rows before those were made zero whose places were moved, which count for nothing anyway."""
    chosen = known.call(g, "relax.where")
    if chosen is None or fill(chosen.args[2], known) != 0:
        return None
    spread = known.call(chosen.args[0], "relax.expand_dims")
    kept = known.call(chosen.args[0] if spread is None else spread.args[0], "relax.equal")
    return chosen.args[1] if kept is not None and kept.args == (places, given) else None


def _clipped(places: Expr, length: Dim) -> Expr:
    """Places as a gather reads them: the nearest ones inside."""
    spots = as_places(places)
    inside = get_op("relax.maximum")(spots, scalar(0, spots))
    return get_op("relax.minimum")(inside, number(length - 1, spots))


def _flat(rows: Call) -> tuple[Expr, Expr]:
    """Values and places with one axis of places."""
    values, places, shape = rows.args
    dims = known_dims(places) or ()
    assert isinstance(shape, ShapeExpr)
    if len(dims) == 1:
        return values, places
    count = element_count(dims)
    reshape = get_op("relax.reshape")
    flat = reshape(values, ShapeExpr((count, *shape.values[1:])))
    return flat, reshape(places, ShapeExpr((count,)))


def _writes_rows(scatter: Call) -> bool:
    """Whether a scatter of JAX adds a row to zeros for each place, in the order of the places."""
    _, places, values = map(known_dims, scatter.args)
    if places is None or values is None:
        return False
    by_row = Attrs(
        update_window_dims=list(range(len(places) - 1, len(values))),
        inserted_window_dims=[0],
        scatter_dims_to_operand_dims=[0],
        operand_batching_dims=[],
        scatter_indices_batching_dims=[],
    )
    numbers = scatter.attrs["dimension_numbers"]["ScatterDimensionNumbers"]
    return numbers == by_row and places[-1] == 1


def _keeps_type(call: Call, rows: Call) -> bool:
    return dtype_of(call) == dtype_of(rows) and same_dims(known_dims(call), known_dims(rows))
