"""Products of two transposed matrices, which XLA computes slowly on a CPU: a^T b^T = (b a)^T.

By itself XLA would make the one of the other again, so a barrier stands between product and
transpose. `python benchmarks/operators.py matmul --case transposed` measures it.
"""

from relaxjax.ir.dead_code import remove_all_unused
from relaxjax.ir.expand import expand_calls
from relaxjax.ir.expr import Call, Expr, TupleGetItem
from relaxjax.ir.function import Function
from relaxjax.ir.node import replace
from relaxjax.ir.op import typed
from relaxjax.ir.registry import get_op
from relaxjax.ir.walk import nested_sequences

_ROWS_BY_COLUMNS = (((1,), (0,)), ((), ()))


def with_quick_products(function: Function) -> Function:
    """`function`, which is in `lax.*`, with none of these products."""
    bindings = (binding for seq in nested_sequences(function) for binding in seq.bindings())
    sources: dict[Expr, Expr] = {
        binding.var: binding.value.args[0]
        for binding in bindings
        if isinstance(binding.value, Call) and _is_transpose(binding.value)
    }

    def expansion(call: Call) -> Expr | None:
        if not _is_product(call) or not all(arg in sources for arg in call.args):
            return None
        a, b = (sources[arg] for arg in call.args)
        product = typed(replace(call, args=(b, a), ty=None))
        kept = TupleGetItem(get_op("lax.optimization_barrier")(product), 0)
        return get_op("lax.transpose")(kept, permutation=(1, 0))

    changed = expand_calls(function, expansion) if sources else function
    return function if changed is function else remove_all_unused(changed)


def _is_transpose(call: Call) -> bool:
    """Whether a call swaps the two axes of a matrix."""
    return call.op is get_op("lax.transpose") and call.attrs["permutation"] == (1, 0)


def _is_product(call: Call) -> bool:
    return (
        call.op is get_op("lax.dot_general") and call.attrs["dimension_numbers"] == _ROWS_BY_COLUMNS
    )
