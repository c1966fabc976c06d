"""An operator whose derivative may be wrong: the third power, and rules for it."""

from typing import Any

from relaxjax.ir import Expr, TensorType
from relaxjax.ir.op import Op
from relaxjax.ops import op


def cube_operator(name: str, gradient: Any, jvp: Any = None) -> Op:
    @op(name, lower=lambda x: x * x * x, gradient=gradient, jvp=jvp)
    def third_power(x: TensorType) -> TensorType:
        """The third power."""
        return x

    return third_power


def right(g: Expr, y: Expr, x: Expr) -> Expr:
    return g * (x * x * 3.0)


def wrong(g: Expr, y: Expr, x: Expr) -> Expr:
    return g * (x * x * 2.0)
