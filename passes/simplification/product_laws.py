"""Laws of matrix products; none of them computes a product that was not there.

They are those that XLA does not find by itself.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from relaxjax.ir.expr import Call, Constant, Expr, PrimExpr, ShapeExpr, np_dtype
from relaxjax.ir.laws import law
from relaxjax.ir.op import Op, get_op, operator_name
from relaxjax.ir.tensor_types import known_dims, known_ndim
from relaxjax.ir.types import TensorType, is_smooth
from relaxjax.ir.uses import Uses
from relaxjax.ops.shapes import element_count, normalize_axes, same_dims

from .tensors import fill, same_type


@law("relax.permute_dims")
def transposed_product(call: Call, op: Op, known: Uses) -> Expr | None:
    """(a b)^T = b^T a^T, where a transpose is undone by it and the product has no other use."""
    product = known.call(call.args[0], "relax.matmul")
    if product is None or not known.used_once(call.args[0]):
        return None
    a, b = product.args
    if not known_ndim(a) == known_ndim(b) == known_ndim(product) >= 2 or not _turns(call):
        return None
    before = [known.call(x, op.name) for x in product.args]
    if not any(x is not None and _turns(x) for x in before):
        return None
    turned = (op(x, axes=call.attrs["axes"]) for x in (b, a))
    return get_op("relax.matmul")(*turned, product.attrs["out_dtype"])


@law("relax.matmul")
def product_with_identity(call: Call, op: Op, known: Uses) -> Expr | None:
    """A product with the identity matrix is the other factor."""
    x, y = call.args
    if _is_identity(y, known) and same_type(x, call):
        return x
    return y if _is_identity(x, known) and same_type(y, call) else None


@law("relax.matmul")
def product_with_filled(call: Call, op: Op, known: Uses) -> Expr | None:
    """A product with a matrix filled with one number is that multiple of sums, repeated."""
    if not _same_dtypes(call) or known_dims(call) is None:
        return None
    for summed, filled, axis in ((0, 1, -1), (1, 0, -2)):
        x, number = call.args[summed], fill(call.args[filled], known)
        dims = known_dims(call.args[filled])
        if number is None or known_ndim(x) < 2 or dims is None or len(dims) < 2:
            continue
        if abs(number) < 1 and _has_narrow_range(call):
            continue
        sums = get_op("relax.sum")(x, axis=[axis], keepdims=True)
        assert isinstance(call.ty, TensorType)
        multiple = sums * Constant(np.asarray(number, np_dtype(call.ty.dtype)))
        return get_op("relax.broadcast_to")(multiple, ShapeExpr(known_dims(call) or ()))
    return None


@law("relax.sum", "relax.mean")
def sum_of_product(call: Call, op: Op, known: Uses) -> Expr | None:
    """sum(a b) = sum(a) sum(b): the rows or columns are added up first; the same for means.

    The product has no other use, so that the smaller one stands in its place. Means of integers
    are rounded, and those of factors before they are multiplied.
    """
    product = known.call(call.args[0], "relax.matmul")
    if product is None or not known.used_once(call.args[0]) or not _same_dtypes(product):
        return None
    (a, b), ndim = product.args, known_ndim(product)
    if known_ndim(a) < 2 or known_ndim(b) != 2:
        return None
    if op.name == "relax.sum" and _has_narrow_range(product):
        return None
    if op.name == "relax.mean" and not _is_smooth(product):
        return None
    given = call.attrs["axis"]
    axes = list(range(ndim)) if given is None else normalize_axes(given, ndim)
    rows = [axis for axis in axes if axis < ndim - 1]
    a = op(a, axis=rows, keepdims=True) if rows else a
    b = op(b, axis=[1], keepdims=True) if len(rows) < len(axes) else b
    smaller = get_op("relax.matmul")(a, b)
    return smaller if call.attrs["keepdims"] else get_op("relax.squeeze")(smaller, axis=axes)


@law("relax.add")
def sum_of_products(call: Call, op: Op, known: Uses) -> Expr | None:
    """x a + x b = x (a + b), and a x + b x = (a + b) x; so in sums of more terms.

    The products have no other use, and their sum is no smaller than that of the factors, which
    takes no longer then. The gradient of x x^T is g x + g^T x.
    """
    for terms, rest in _terms(call, op, known):
        first, second = (known.call(x) for x in terms)
        if first is None or second is None or first.op is not second.op:
            continue
        if not all(same_type(x, call) and _same_dtypes(x) for x in (first, second)):
            continue
        of_sum = _OF_SUM.get(operator_name(first) or "")
        found = None if of_sum is None else of_sum(first, second)
        if found is not None:
            return found if rest is None else rest + found
    return None


def _terms(call: Call, op: Op, known: Uses) -> Iterator[tuple[tuple[Expr, Expr], Expr | None]]:
    """Pairs of terms of a sum that have no other use, and what else is added."""
    x, y = call.args
    pairs: list[tuple[tuple[Expr, Expr], Expr | None]] = [((x, y), None)]
    for inner, other in ((x, y), (y, x)):
        before = known.call(inner, op.name)
        if before is not None and known.used_once(inner) and same_type(inner, call):
            p, q = before.args
            pairs += [((p, other), q), ((q, other), p)]
    for terms, rest in pairs:
        if all(known.used_once(term) for term in terms):
            yield terms, rest


def _of_sum(first: Call, second: Call) -> Expr | None:
    """The product with the sum of two factors, where the other one is shared."""
    if first.attrs != second.attrs:
        return None
    for own in (0, 1):
        a, b, shared = first.args[own], second.args[own], first.args[1 - own]
        if shared is not second.args[1 - own] or known_dims(a) != known_dims(b):
            continue
        if not _is_larger(a, first):
            factors = (a + b, shared) if own == 0 else (shared, a + b)
            return get_op("relax.matmul")(*factors, first.attrs["out_dtype"])
    return None


def _of_sum_in_jax(first: Call, second: Call) -> Expr | None:
    """The same, where the axes of the factors may lie in different orders."""
    numbers = {"dimension_numbers": first.attrs["dimension_numbers"]}
    if {**second.attrs, **numbers} != dict(first.attrs):
        return None
    for own in (0, 1):
        a, b, shared = first.args[own], second.args[own], first.args[1 - own]
        (to, to_shared), (order, from_shared) = (_axes_of(x, own) for x in (first, second))
        if shared is not second.args[1 - own] or to_shared != from_shared or _is_larger(a, first):
            continue
        axes = [order[to.index(axis)] for axis in range(len(to))]
        is_same = axes == [*range(len(axes))]
        moved = b if is_same else get_op("relax.permute_dims")(b, axes=axes)
        if known_dims(a) == known_dims(moved):
            factors = (a + moved, shared) if own == 0 else (shared, a + moved)
            return get_op("lax.dot_general")(*factors, **first.attrs)
    return None


_OF_SUM = {"relax.matmul": _of_sum, "lax.dot_general": _of_sum_in_jax}


def _axes_of(product: Call, own: int) -> tuple[Sequence[int], object]:
    """The axes of a factor: those of the batch, those summed over, its own; and the other one's."""
    summed, batch = product.attrs["dimension_numbers"]
    first = [*batch[own], *summed[own]]
    rest = [axis for axis in range(known_ndim(product.args[own])) if axis not in first]
    return [*first, *rest], (batch[1 - own], summed[1 - own])


@law("relax.collapse_sum_to")
def sum_of_stacked_products(call: Call, op: Op, known: Uses) -> Expr | None:
    """The sum of x^T g over a stack of both is one product of all their rows.

    The stack of products has no other use, so that it is not computed.
    """
    product = known.call(call.args[0], "relax.matmul")
    if product is None or not known.used_once(call.args[0]):
        return None
    if not same_dims(known_dims(call), (known_dims(product) or ())[-2:]):
        return None
    turned, g = known.call(product.args[0], "relax.permute_dims"), product.args[1]
    if turned is None:
        return None
    x = turned.args[0]
    x_dims, g_dims = known_dims(x), known_dims(g)
    if x_dims is None or g_dims is None or len(x_dims) < 3 or x_dims[:-1] != g_dims[:-1]:
        return None
    if not _turns(turned):
        return None
    rows = element_count(x_dims[:-1])
    reshape, transpose = get_op("relax.reshape"), get_op("relax.permute_dims")
    x, g = (reshape(item, ShapeExpr((rows, d[-1]))) for item, d in ((x, x_dims), (g, g_dims)))
    return get_op("relax.matmul")(transpose(x), g, product.attrs["out_dtype"])


@law("relax.matmul")
def product_with_diagonal(call: Call, op: Op, known: Uses) -> Expr | None:
    """A product with a diagonal matrix multiplies the rows or the columns of the other factor."""
    if not _same_dtypes(call):
        return None
    x, y = call.args
    if known_ndim(x) < 2 or known_ndim(y) < 2:
        return None
    columns, rows = _diagonal(y, known), _diagonal(x, known)
    if columns is not None and same_type(x, call):
        return x * columns
    if rows is not None and same_type(y, call):
        return get_op("relax.expand_dims")(rows, axis=[-1]) * y
    return None


def _turns(call: Call) -> bool:
    """Whether a transpose swaps the last two axes, and no others."""
    ndim, axes = known_ndim(call), call.attrs["axes"]
    if axes is None:
        return ndim == 2
    return [axis % ndim for axis in axes] == [*range(ndim - 2), ndim - 1, ndim - 2]


def _diagonal(x: Expr, known: Uses) -> Expr | None:
    """The diagonal of a matrix that is made as `R.multiply(R.eye(n), v)` of a vector."""
    scaled = known.call(x, "relax.multiply")
    if scaled is None:
        return None
    for identity, vector in (scaled.args, scaled.args[::-1]):
        if (
            _is_identity(identity, known)
            and known_ndim(vector) == 1
            and same_type(identity, scaled)
        ):
            return vector
    return None


def _is_identity(x: Expr, known: Uses) -> bool:
    """Whether a matrix is square, with ones on its diagonal and zeros elsewhere."""
    dims = known_dims(x)
    if dims is None or len(dims) != 2 or dims[0] != dims[1]:
        return False
    if isinstance(x, Constant):
        return bool(np.array_equal(x.data, np.eye(x.data.shape[0])))
    made = known.call(x, "relax.eye")
    return made is not None and made.args[2] == PrimExpr(0)


def _same_dtypes(product: Call) -> bool:
    """Whether factors and product are of one dtype: sums are made in it then."""
    dtypes = {ty.dtype for ty in _types(product) if isinstance(ty, TensorType)}
    return len(dtypes) == 1 and None not in dtypes


def _has_narrow_range(product: Call) -> bool:
    """Whether the sum of one factor may be too large for a dtype that has that of the product."""
    ty = product.ty
    return isinstance(ty, TensorType) and str(ty.dtype).startswith(("float16", "float8"))


def _is_smooth(product: Call) -> bool:
    return isinstance(product.ty, TensorType) and is_smooth(product.ty.dtype)


def _types(call: Call) -> Sequence[object]:
    return [call.ty, *(arg.ty for arg in call.args)]


def _is_larger(x: Expr, other: Expr) -> bool:
    """Whether a tensor may have more elements than another."""
    counts = [element_count(dims) for dims in map(known_dims, (x, other)) if dims is not None]
    known = [count for count in counts if isinstance(count, int)]
    return len(known) < 2 or known[0] > known[1]
