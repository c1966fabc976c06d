"""Products of transposed matrices, which XLA computes slowly on a CPU.

Of two of them: a^T b^T = (b a)^T. Of one on the left, as the gradient of a layer's weights is, it
multiplies columns; written out first, the transpose is multiplied row by row, in 0.8 to 1.0 of the
time where there is much to multiply. One core alone writes it out: where there is less, and for the
gradients of small batches, that takes 1.1 to 1.5 times as long on two cores. A matrix too large for
it stays, where the other and the result are smaller, and those are transposed: a^T b = (b^T a)^T.
By itself XLA would take transpose and product together again, so barriers stand between them.
`python benchmarks/transposes.py` measures the one form against the other.
"""

from relaxjax.ir.dead_code import remove_all_unused
from relaxjax.ir.expand import expand_calls
from relaxjax.ir.expr import Call, Expr, TupleGetItem
from relaxjax.ir.function import Function
from relaxjax.ir.node import replace
from relaxjax.ir.op import typed
from relaxjax.ir.registry import get_op
from relaxjax.ir.types import TensorType
from relaxjax.ir.walk import nested_sequences
from relaxjax.ops.shapes import element_count

_ROWS_BY_COLUMNS = (((1,), (0,)), ((), ()))

# Measured on two cores: with fewer multiplications, or sums of fewer products, time is lost, and
# memory too. From here to 2^26 multiplications by themselves gain nothing, but an MLP of 64 layers
# does, 0.97 of a step. To move a matrix of more elements than the last takes longer than is won.
_MANY_PRODUCTS = 1 << 24
_LONG_SUM = 128
_MUCH_TO_MOVE = 1 << 21


def with_quick_products(function: Function) -> Function:
    """`function`, which is in `lax.*`, with none of these products."""
    bindings = (binding for seq in nested_sequences(function) for binding in seq.bindings())
    sources: dict[Expr, Expr] = {
        binding.var: binding.value.args[0]
        for binding in bindings
        if isinstance(binding.value, Call) and _is_transpose(binding.value)
    }

    def expansion(call: Call) -> Expr | None:
        if not _is_product(call) or call.args[0] not in sources:
            return None
        a, b = call.args
        if b not in sources:
            return _of_columns(call, sources[a])
        product = typed(replace(call, args=(sources[b], sources[a]), ty=None))
        return _moved(_kept(product))

    changed = expand_calls(function, expansion) if sources else function
    return function if changed is function else remove_all_unused(changed)


def _of_columns(call: Call, source: Expr) -> Expr | None:
    """A product of a transpose with a matrix, the one or the other written out; None as it is."""
    moved, other = call.args
    left, right, result = (_elements(x) for x in (moved, other, call))
    inner = _inner(moved)
    if left is None or right is None or result is None or inner is None:
        return None
    if result * inner < _MANY_PRODUCTS or inner < _LONG_SUM:
        return None
    if left <= _MUCH_TO_MOVE:
        return replace(call, args=(_kept(moved), other))
    if 2 * (right + result) > left:
        return None
    product = typed(replace(call, args=(_kept(_moved(_kept(other))), source), ty=None))
    return _kept(_moved(_kept(product)))


def _inner(matrix: Expr) -> int | None:
    """How many products each number of a matrix's product is the sum of."""
    dims = matrix.ty.dims if isinstance(matrix.ty, TensorType) else None
    return dims[1] if dims is not None and isinstance(dims[1], int) else None


def _elements(x: Expr) -> int | None:
    """How many elements a tensor has, where that is a number."""
    ty = x.ty
    count = element_count(ty.dims) if isinstance(ty, TensorType) and ty.dims is not None else None
    return count if isinstance(count, int) else None


def _kept(value: Expr) -> Expr:
    """A value that XLA computes by itself, apart from what uses it."""
    return TupleGetItem(get_op("lax.optimization_barrier")(value), 0)


def _moved(matrix: Expr) -> Expr:
    return get_op("lax.transpose")(matrix, permutation=(1, 0))


def _is_transpose(call: Call) -> bool:
    """Whether a call swaps the two axes of a matrix."""
    return call.op is get_op("lax.transpose") and call.attrs["permutation"] == (1, 0)


def _is_product(call: Call) -> bool:
    return (
        call.op is get_op("lax.dot_general") and call.attrs["dimension_numbers"] == _ROWS_BY_COLUMNS
    )
