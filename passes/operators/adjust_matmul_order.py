"""The cheaper order of two matrix products."""

import math

from relaxjax.ir.expr import Call, Expr, Var
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.registry import get_op
from relaxjax.ir.types import TensorType
from relaxjax.passes.base import pass_factory
from relaxjax.passes.simplification.definitions import Definitions
from relaxjax.passes.simplification.rewriting import rewritten


@pass_factory(opt_level=1, kind="function")
def AdjustMatmulOrder(function: Function, mod: IRModule) -> Function:
    """Compute x (A B) as (x A) B where that takes fewer multiplications, and the other way round.

    A and B are matrices, x may be a stack of them or a vector; the inner product must have no other
    use, nor may its transpose. Sizes that are not numbers are left alone.

    Before:

        @R.function
        def main(
            x: R.Tensor((2, 300), "float32"),
            a: R.Tensor((300, 4), "float32"),
            b: R.Tensor((4, 500), "float32"),
        ) -> R.Tensor((2, 500), "float32"):
            w = R.matmul(a, b)
            y = R.matmul(x, w)
            return y

    After `AdjustMatmulOrder()`:

        @R.function
        def main(
            x: R.Tensor((2, 300), "float32"),
            a: R.Tensor((300, 4), "float32"),
            b: R.Tensor((4, 500), "float32"),
        ) -> R.Tensor((2, 500), "float32"):
            w = R.matmul(x, a)
            y = R.matmul(w, b)
            return y
    """
    return rewritten(function, _reordered)


def _reordered(call: Call, known: Definitions) -> Expr | None:
    if not _is_plain_product(call):
        return None
    left, right = call.args
    orders = (
        *((left, a, b, True) for a, b in _factors(right, known)),
        *((a, b, right, False) for a, b in _factors(left, known)),
    )
    for one, two, three, left_first in orders:
        costs = _costs(one, two, three)
        if costs is None:
            continue
        from_left, from_right = costs
        if left_first and from_left < from_right:
            return _product(_product(one, two), three)
        if not left_first and from_right < from_left:
            return _product(one, _product(two, three))
    return None


def _factors(product: Expr, known: Definitions) -> list[tuple[Expr, Expr]]:
    """The two matrices of which a value, used once, is the product, transposed with it."""
    inner = known.call(product, "relax.matmul")
    if inner is not None and _is_plain_product(inner) and _used_once(product, known):
        return [(inner.args[0], inner.args[1])]
    turned = known.call(product, "relax.permute_dims")
    if turned is None or not _used_once(product, known) or not _swaps(turned):
        return []
    transpose = get_op("relax.permute_dims")
    pairs = _factors(turned.args[0], known)
    return [(transpose(b), transpose(a)) for a, b in pairs if _ndim(a) == _ndim(b) == 2]


def _costs(one: Expr, two: Expr, three: Expr) -> tuple[int, int] | None:
    """The multiplications of (one two) three and of one (two three), where they can be compared.

    What lies between two others is a matrix; an outer one may be a vector or a stack.
    """
    sizes = [_sizes(item) for item in (one, two, three)]
    if any(size is None for size in sizes) or _ndim(two) != 2:
        return None
    if max(_ndim(one), _ndim(three)) > 2 and min(_ndim(one), _ndim(three)) != 2:
        return None
    left, middle, right = (size or [] for size in sizes)
    inner, outer = middle
    rows = math.prod(left[:-1])
    columns = right[-1] if len(right) > 1 else 1
    stack = math.prod(right[:-2])
    from_left = rows * inner * outer + stack * rows * outer * columns
    from_right = stack * inner * outer * columns + stack * rows * inner * columns
    return from_left, from_right


def _sizes(item: Expr) -> list[int] | None:
    if not isinstance(item.ty, TensorType) or not item.ty.dims:
        return None
    sizes = [dim for dim in item.ty.dims if isinstance(dim, int)]
    return sizes if len(sizes) == item.ty.ndim else None


def _ndim(item: Expr) -> int:
    return item.ty.ndim if isinstance(item.ty, TensorType) else -1


def _is_plain_product(call: Call) -> bool:
    return call.op is get_op("relax.matmul") and call.attrs["out_dtype"] is None


def _swaps(call: Call) -> bool:
    axes = call.attrs["axes"]
    return _ndim(call) == 2 and (axes is None or [axis % 2 for axis in axes] == [1, 0])


def _used_once(value: Expr, known: Definitions) -> bool:
    return isinstance(value, Var) and known.uses.get(value) == 1


def _product(left: Expr, right: Expr) -> Expr:
    return get_op("relax.matmul")(left, right)
