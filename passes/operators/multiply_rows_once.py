"""Products of rows that are repeated: each row is multiplied once, and the product repeated."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from relaxjax.ir.attrs import Attrs
from relaxjax.ir.expr import Call, Expr, ShapeExpr, Tuple, Var, const
from relaxjax.ir.function import Function
from relaxjax.ir.laws import Laws, law
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import Op, get_op, operator_name
from relaxjax.ir.tensor_types import known_dtype, static_dims
from relaxjax.ir.uses import Uses
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.infrastructure.named_params import check_params
from relaxjax.passes.simplification.apply_laws import rewritten
from relaxjax.passes.simplification.tensors import weights_of

# Narrower floats would round each term of a sum that a product keeps in float32.
_WIDE = ("float32", "float64")
_SIGNED = ("int32", "int64")  # have numbers for places outside, on both sides
_JOINING = ("relax.concat", "lax.concatenate")
_PROMISED = Attrs(GatherScatterMode="PROMISE_IN_BOUNDS")
# How often a row must occur: with fewer repetitions there is less to gain than is copied more.
_OFTEN = 2


@pass_factory(opt_level=1, kind="function")
def MultiplyRowsOnce(function: Function, mod: IRModule, tables: Sequence[str] = ()) -> Function:
    """Compute the product of rows that are looked up as a lookup of the products of all rows.

    A graph network multiplies what is known of both ends of each edge, concatenated, and so each
    node once for each of its edges. With the weight in parts, the product of a concatenation is a
    sum of products, and that of a lookup, or of a tensor broadcast along its rows, is computed once
    for each row.

    That is done where a row occurs twice or more, on average and by known shapes, unless the
    product is so much wider that copying it would take longer than what is saved.

    `tables` are names of parameters that stay, as do those behind the first `num_input` ones, an
    attribute of the function: their gradients may be wanted as rows. Half-precision floats stay,
    too, because they would round each term.

    A place outside of a table, which JAX's lookup is promised not to meet, reads its nearest row.
    As in JAX, the weight has a gradient by that, and the table has none. Where a lookup reads NaN
    there, its products are NaN as before. The gradient of the weight is that of the rows inside,
    which JAX's loses to NaN.
    """
    check_params("tables", tables, mod)
    named = frozenset(param for param in function.params if param.name in tables)
    return rewritten(function, laws(weights_of(function) | named))


def laws(tables: frozenset[Var]) -> Laws:
    @law("relax.matmul")
    def multiplied_once(call: Call, op: Op, known: Uses) -> Expr | None:
        """[a[i], b] W = (a U)[i] + b V, where W is U above V."""
        return _Product(call, known, tables).once()

    return Laws([multiplied_once])


Multiply: TypeAlias = Callable[[Expr], Expr]  # gives the product of rows with a weight


class _Repeated(NamedTuple):
    """A tensor of rows, as the rows of a table and what repeats their products."""

    table: Expr
    again: Callable[[Multiply], Expr]


class _Product:
    """A product of rows with a matrix, the rows perhaps concatenated of several parts."""

    def __init__(self, call: Call, known: Uses, tables: frozenset[Var]) -> None:
        self.call, self.known, self.tables = call, known, tables
        self.rows, self.weight = call.args

    def once(self) -> Expr | None:
        """The same by products of each row once, None where there are none worth it."""
        dims, weight = static_dims(self.rows.ty), static_dims(self.weight.ty)
        dtypes = {known_dtype(self.rows), known_dtype(self.weight), known_dtype(self.call)}
        if dims is None or weight is None or len(dims) < 2 or len(weight) != 2:
            return None
        if len(dtypes) > 1 or dtypes.isdisjoint(_WIDE):
            return None
        parts = self.parts()
        repeated = [self.repeated(part) for part in parts]
        if not any(repeated):
            return None
        terms, start, others = [], 0, list[tuple[Expr, Expr]]()
        for part, one in zip(parts, repeated, strict=True):
            width = (static_dims(part.ty) or dims)[-1]
            own = self.weight if len(parts) == 1 else _rows_of(self.weight, start, start + width)
            start += width
            if one is None:
                others.append((part, own))
            else:
                terms.append(one.again(partial(self.product, weight=own)))
        if others:
            together, weights = zip(*others, strict=True)
            terms.insert(0, self.product(_joined(together, -1), _joined(weights, 0)))
        return _stored_sum(terms)

    def parts(self) -> Sequence[Expr]:
        """What the rows are concatenated of, if only products with matrices need them."""
        joined = self.known.call(self.rows)
        if joined is None or operator_name(joined) not in _JOINING:
            return [self.rows]
        assert isinstance(self.rows, Var)
        last = len(static_dims(self.rows.ty) or ()) - 1
        parts = joined.args[0].fields if isinstance(joined.args[0], Tuple) else joined.args
        axis = joined.attrs.get("axis", joined.attrs.get("dimension"))
        users = self.known.users[self.rows]
        is_result = self.known.count(self.rows) > sum(users.values())
        is_multiplied = all(self.is_product(self.known.values.get(user)) for user in users)
        return parts if axis in (last, -1) and is_multiplied and not is_result else [self.rows]

    def is_product(self, value: Expr | None) -> bool:
        """Whether a value is a product of the same rows with a matrix."""
        if not isinstance(value, Call) or value.op is not self.call.op:
            return False
        rows, weight = value.args
        return rows is self.rows and len(static_dims(weight.ty) or ()) == 2

    def repeated(self, part: Expr) -> _Repeated | None:
        """How a part repeats the rows of a table, where that is worth it."""
        call = self.known.call(part)
        found = None if call is None else _repeated(call)
        if found is None or found.table in self.tables:
            return None
        rows, table = static_dims(part.ty), static_dims(found.table.ty)
        columns = (static_dims(self.weight.ty) or (0,))[-1]
        if rows is None or table is None:
            return None
        occur, there = math.prod(rows[:-1]), math.prod(table[:-1])
        worth = occur >= _OFTEN * there and occur * rows[-1] >= _OFTEN * there * columns
        return found if worth else None

    def product(self, rows: Expr, weight: Expr) -> Expr:
        assert isinstance(self.call.op, Op)
        return self.call.op(rows, weight, **self.call.attrs)


def _repeated(call: Call) -> _Repeated | None:
    """How a call repeats rows along the last axis, and nothing of their order in it."""
    assert isinstance(call.op, Op)
    find = _BY_OPERATOR.get(call.op.name)
    dims = static_dims(call.args[0].ty) if find is not None else None
    return find(call, dims) if find is not None and dims else None


def _by_take(call: Call, dims: Sequence[int]) -> _Repeated | None:
    table, places = call.args
    axis, last = call.attrs["axis"], len(dims) - 1
    if axis is None or axis % len(dims) == last:
        return None
    take, mode = get_op("relax.take"), call.attrs["mode"]
    return _Repeated(table, lambda by: take(by(table), places, axis % len(dims), mode))


def _by_gather(call: Call, dims: Sequence[int]) -> _Repeated | None:
    table, places = call.args
    numbers = call.attrs["dimension_numbers"]["GatherDimensionNumbers"]
    sizes, out, last = call.attrs["slice_sizes"], static_dims(call.ty), len(dims) - 1
    chosen = ("collapsed_slice_dims", "start_index_map", "operand_batching_dims")
    is_whole = sizes[-1] == dims[-1] and all(last not in numbers[name] for name in chosen)
    if out is None or not is_whole or len(out) - 1 not in numbers["offset_dims"]:
        return None
    filled = call.attrs.get("fill_value")  # NaN, which is NaN in a product too, unless it is said
    if not (filled is None or filled == 0 or math.isnan(filled)):
        return None

    axes = numbers["start_index_map"]
    is_promised = call.attrs["mode"] == _PROMISED
    is_row = len(axes) == 1 and sizes[axes[0]] == 1 and dims[axes[0]] > 0
    if is_promised and not (is_row and known_dtype(places) in _SIGNED):
        return None  # for a place outside, the nearest one may be that of any row

    def again(by: Multiply) -> Expr:
        product, where, attrs = by(table), places, dict(call.attrs)
        if is_promised:
            product, where = _with_ends(product, table, by, where, axes[0])
            attrs |= {"indices_are_sorted": False, "unique_indices": False}
        columns = (static_dims(product.ty) or (0,))[-1]
        attrs["slice_sizes"] = *sizes[:-1], columns
        return get_op("lax.gather")(product, where, **attrs)

    return _Repeated(table, again)


def _with_ends(
    product: Expr, table: Expr, by: Multiply, places: Expr, axis: int
) -> tuple[Expr, Expr]:
    """The products of a table and behind them those of its last and first row, and the places.

    Places behind the table become that of its last row, and those before it that of its first. No
    gradient of the table comes from these rows, but one of the weight does.
    """
    count, dtype = (static_dims(table.ty) or ())[axis], known_dtype(places)
    sliced, where = get_op("relax.strided_slice"), get_op("relax.where")
    last, first = (sliced(table, [axis], [at], [at + 1]) for at in (count - 1, 0))
    ends = get_op("relax.grad.no_grad")(_joined([last, first], axis))
    behind, before = (const(at, dtype) for at in (count, count + 1))
    is_behind = get_op("relax.greater_equal")(places, behind)
    is_before = get_op("relax.less")(places, const(0, dtype))
    moved = where(is_before, before, where(is_behind, behind, places))
    return _joined([product, by(ends)], axis), moved


def _by_broadcast(call: Call, dims: Sequence[int]) -> _Repeated | None:
    """Of `lax.broadcast_in_dim`, or of `relax.broadcast_to`, whose axes are the last ones."""
    table, out = call.args[0], static_dims(call.ty)
    if out is None or dims[-1] != out[-1]:
        return None
    axes = call.attrs.get("broadcast_dimensions", range(len(out) - len(dims), len(out)))
    if axes[-1] != len(out) - 1:
        return None

    def again(by: Multiply) -> Expr:
        product = by(table)
        shape = (*out[:-1], (static_dims(product.ty) or (0,))[-1])
        if call.op is get_op("relax.broadcast_to"):
            return get_op("relax.broadcast_to")(product, ShapeExpr(shape))
        return get_op("lax.broadcast_in_dim")(product, **{**call.attrs, "shape": shape})

    return _Repeated(table, again)


_BY_OPERATOR = {
    "relax.take": _by_take,
    "lax.gather": _by_gather,
    "lax.broadcast_in_dim": _by_broadcast,
    "relax.broadcast_to": _by_broadcast,
}


def _rows_of(weight: Expr, start: int, end: int) -> Expr:
    return get_op("relax.strided_slice")(weight, [0], [start], [end])


def _joined(parts: Sequence[Expr], axis: int) -> Expr:
    return parts[0] if len(parts) == 1 else get_op("relax.concat")(Tuple(tuple(parts)), axis)


def _stored_sum(terms: Sequence[Expr]) -> Expr:
    """A sum that is stored: a kernel that computes it again would need all its terms kept."""
    total, *others = terms
    for term in others:
        total = get_op("relax.add")(total, term)
    return get_op("relax.grad.once")(total) if others else total
