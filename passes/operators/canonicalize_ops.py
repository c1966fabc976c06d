"""Special operators as basic ones."""

from relaxjax.ir.expand import expand_calls
from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import Op, arguments
from relaxjax.passes.base import pass_factory


@pass_factory(opt_level=3, kind="function")
def CanonicalizeOps(function: Function, mod: IRModule) -> Function:
    """Write operators that are short for basic ones as those, so that passes meet fewer kinds.

    What an operator is short for is the rule `canonical` of its declaration.

    Before:

        @R.function
        def main(
            x: R.Tensor((2, 3, 4), "float32"), b: R.Tensor((3,), "float32")
        ) -> R.Tensor((2, 3, 4), "float32"):
            y = R.nn.bias_add(x, b, axis=1)
            return y

    After `CanonicalizeOps()`:

        @R.function
        def main(
            x: R.Tensor((2, 3, 4), "float32"), b: R.Tensor((3,), "float32")
        ) -> R.Tensor((2, 3, 4), "float32"):
            column = R.expand_dims(b, axis=[1])
            y = R.add(x, column)
            return y
    """
    return expand_calls(function, _canonical)


def _canonical(call: Call) -> Expr | None:
    if not isinstance(call.op, Op) or call.op.canonical is None:
        return None
    args, attrs = arguments(call)
    return call.op.canonical(*args, **attrs)
