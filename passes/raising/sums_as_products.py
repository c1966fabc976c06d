"""Sums of elementwise products, of which each factor lacks an axis, as products of matrices."""

import math
from collections.abc import Sequence

from relaxjax.ir.attrs import Attrs
from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.function import Function
from relaxjax.ir.laws import Laws
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import Op, get_op
from relaxjax.ir.tensor_types import known_dims, known_dtype, static_dims
from relaxjax.ops.emit import reshaped
from relaxjax.ops.platform import chosen_platform
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.simplification.apply_laws import rewritten

from .reading import Reading, View, raises

_WIDE = ("float32", "float64")
# Elementwise products are exact, and so are these, up to the order of the sum.
_EXACT = Attrs(Precision="HIGHEST")
# From so many products for each matrix of a batch on, and so many in all, they take 0.01 to 0.5 of
# the time; fewer take up to 1.6.
_MANY_EACH, _MANY = 2**9, 2**14


@pass_factory(opt_level=0, kind="function")
def SumsAsProducts(function: Function, mod: IRModule) -> Function:
    """Compute sums of elementwise products as products of matrices, where these are the same.

    Similarities of all with all are written as the sum of a[:, None] * b[None] over the last axis,
    and gradients of what was broadcast are such sums, too. XLA's compiler for CPUs stores the
    factors as broadcast, or the products, which have an axis more than the result. The function is
    to be legalised, its sums are of float32 or float64, of known sizes and large enough to gain by
    it. For other platforms these stay as they are.

    On all platforms, the sum over a batch of products of matrices is one product, if those are
    larger than what they are of, as the gradients of weights that each sample gives are.
    """
    return rewritten(function, _ON_CPUS if chosen_platform() == "cpu" else _ANYWHERE)


@raises("lax.reduce_sum")
def product_of_matrices(call: Call, reading: Reading) -> Expr | None:
    """The sum of a[i, k] b[j, k] over k, for each of a batch."""
    products, summed = call.args[0], tuple(call.attrs["axes"])
    dims, factors = static_dims(products.ty), reading.operands(products, "mul")
    if dims is None or factors is None or known_dtype(call) not in _WIDE:
        return None
    pair = [_without_ones(reading.peeled(factor)) for factor in factors]
    if not reading.known.used_once(products) or None in pair:
        return None
    x, y = _in_order([view for view in pair if view is not None], len(dims))
    both = [axis for axis in x.axes if axis in y.axes]
    batch = [axis for axis in both if axis not in summed]
    own = [axis for one in (x, y) for axis in one.axes if axis not in both]
    kept = [axis for axis in (*batch, *own) if axis is not None]
    neither = set(range(len(dims))).difference(x.axes, y.axes)
    if not set(summed) <= set(both) or not own or kept != sorted(kept):
        return None
    if any(dims[axis] > 1 for axis in neither):
        return None  # both are repeated along it
    if any(list(one.axes[: len(batch)]) != batch for one in (x, y)):
        return None  # what lies otherwise would be copied first
    each = math.prod(length for axis, length in enumerate(dims) if axis not in batch)
    if each < _MANY_EACH or math.prod(dims) < _MANY:
        return None

    def places(axes: Sequence[int | None]) -> list[list[int]]:
        return [[one.axes.index(axis) for axis in axes] for one in (x, y)]

    found = get_op("lax.dot_general")(
        *(x.expr, y.expr),
        dimension_numbers=(places(summed), places(batch)),
        precision=(_EXACT, _EXACT),
    )
    return reshaped(found, known_dims(call) or ())


@raises("lax.reduce_sum")
def sum_over_batch(call: Call, reading: Reading) -> Expr | None:
    """The sum of the products of a batch, which are larger than what they are of."""
    products, summed = call.args[0], set(call.attrs["axes"])
    batched = reading.call(products, "dot_general")
    if batched is None or not reading.known.used_once(products):
        return None
    sizes = [math.prod(static_dims(x.ty) or (0,)) for x in (products, *batched.args)]
    if 0 in sizes or sizes[0] < sum(sizes[1:]):
        return None
    (left, right), batch = batched.attrs["dimension_numbers"]
    if known_dtype(call) not in _WIDE or not summed <= set(range(len(batch[0]))):
        return None
    pairs = list(zip(*batch, strict=True))
    over = [pair for place, pair in enumerate(pairs) if place in summed]
    kept = [pair for place, pair in enumerate(pairs) if place not in summed]
    sums = [[*(pair[side] for pair in over), *axes] for side, axes in enumerate((left, right))]
    numbers = (sums, [[pair[side] for pair in kept] for side in (0, 1)])
    assert isinstance(batched.op, Op)
    return batched.op(*batched.args, **{**batched.attrs, "dimension_numbers": numbers})


_ANYWHERE = Laws([sum_over_batch])
_ON_CPUS = Laws([product_of_matrices, sum_over_batch])


def _without_ones(view: View) -> View | None:
    """A tensor without axes of one element that are repeated, None where sizes are unknown."""
    dims = static_dims(view.expr.ty)
    if dims is None or len(view.axes) != len(dims):
        return None
    kept = [place for place, axis in enumerate(view.axes) if axis is not None]
    return View(reshaped(view.expr, [dims[p] for p in kept]), tuple(view.axes[p] for p in kept))


def _in_order(pair: Sequence[View], ndim: int) -> Sequence[View]:
    """Two factors, first the one that has the first axis which is not of both."""
    return sorted(pair, key=lambda one: [axis not in one.axes for axis in range(ndim)])
