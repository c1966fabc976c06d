"""A product with a sum as a sum of products."""

from relaxjax.ir.expr import Call, Expr, Var
from relaxjax.ir.function import Function
from relaxjax.ir.laws import Laws, law
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import Op
from relaxjax.ir.uses import Uses
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.simplification.apply_laws import rewritten
from relaxjax.passes.simplification.tensors import has_shape_of, weights_of


@pass_factory(opt_level=1, kind="function")
def ExpandMatmulOfSum(function: Function, mod: IRModule) -> Function:
    """Compute x (A + B) as x A + x B.

    This takes more multiplications, unless B is itself a product that AdjustMatmulOrder takes apart
    then, as the adapted weights of a model are. A sum that is used elsewhere too stays, and so does
    one of weights alone: the parameters behind the first `num_input` ones, an attribute of the
    function.
    """
    return rewritten(function, laws(weights_of(function)))


def laws(weights: frozenset[Var]) -> Laws:
    @law("relax.matmul")
    def product_with_sum(call: Call, op: Op, known: Uses) -> Expr | None:
        """x (A + B) = x A + x B, where not both terms are made of weights alone."""
        x, total = call.args
        added = known.call(total, "relax.add")
        if added is None or not known.used_once(total):
            return None
        a, b = added.args
        if not has_shape_of(a, b) or all(known.follows_from(term, weights) for term in (a, b)):
            return None
        dtype = call.attrs["out_dtype"]
        return op(x, a, dtype) + op(x, b, dtype)

    return Laws([product_with_sum])
