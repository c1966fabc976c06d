"""Gradient rules that do not give what they must, as one of a user's own may not."""

from typing import Any

import numpy as np
import pytest
from parsing import parse_functions, parse_main

from relaxjax import TensorType, op, to_jax
from relaxjax.ir.op import OPS, get_op
from relaxjax.ops.traced import traced_gradient
from relaxjax.passes import Gradient, GradientError


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (lambda g, y, x: 2.0, "must give an expression for each argument, .* but it gives 2.0"),
        (lambda g, y, x: None, "but it gives None"),
        (lambda g, y, x: [g, 1.0], "must give an expression for each argument"),
        (lambda g, y, x: (g, g), "gives 2 adjoints for its 1 argument"),
        (lambda g, y, x: get_op("relax.astype")(g, "int32"), "of dtype int32 for `x` of dtype"),
        (
            lambda g, y, x: get_op("relax.sum")(g, [0], True),
            r"gives an adjoint of shape \(1, 3\) for `x` of shape \(4, 3\), .* of the result",
        ),
        (
            lambda g, y, x: get_op("relax.stack")((g, g)),
            r"gives an adjoint of shape \(2, 4, 3\) for `x` of shape \(4, 3\), to which it cannot",
        ),
        (lambda g, y, x: get_op("relax.permute_dims")(g), r"of shape \(3, 4\) for `x` of shape"),
    ],
)
def test_a_rule_is_named_with_what_it_gives(rule: Any, message: str) -> None:
    @op("relax.test_faulty", lower=lambda x: x, gradient=rule)
    def faulty(x: TensorType) -> TensorType:
        """Itself."""
        return x

    module = parse_functions("""
@R.function
def main(x: R.Tensor((4, 3), "float32")):
    y = R.test_faulty(x)
    loss = R.sum(y)
    return loss
""")
    whole = rf"the gradient rule of relax\.test_faulty .*{message}"
    try:
        with pytest.raises(GradientError, match=whole):
            Gradient("main")(module)
    finally:
        del OPS["relax.test_faulty"]


def declared(power: int) -> None:
    """An operator of a cell that is run again, with another lowering each time."""

    @op("relax.test_again", lower=lambda x: x**power, gradient=traced_gradient("relax.test_again"))
    def again(x: TensorType) -> TensorType:
        """A power."""
        return x


def test_a_program_from_before_an_operator_was_declared_again() -> None:
    source = """
@R.function
def main(x: R.Tensor((4,), "float32")):
    y = R.test_again(x)
    loss = R.sum(y)
    return loss
"""
    message = (
        r"no gradient is known for:\n  `y`: the operator relax\.test_again, which was declared "
        r"again since: make the program anew\n.*\n.*R\.test_again\(x\)"
    )
    try:
        declared(2)
        before = parse_functions(source)
        declared(3)  # its gradient rule would be that of the first lowering, by name
        with pytest.raises(GradientError, match=message):
            Gradient("main")(before)
        adjoint = to_jax(Gradient("main")(parse_functions(source)), "main_adjoint")
        (gradient,) = adjoint(np.full(4, 2.0, "float32"))[1]
        np.testing.assert_allclose(gradient, 12.0)
    finally:
        del OPS["relax.test_again"]


def test_a_rule_may_leave_dimensions_of_size_one() -> None:
    module = parse_main(
        "y = R.matmul(x, w)\nloss = R.sum(R.multiply(y, y))\nreturn loss", x=(3,), w=(2, 3, 4)
    )
    x, w = np.arange(3, dtype="float32"), np.ones((2, 3, 4), "float32")
    _, (by_x, by_w) = to_jax(Gradient("main")(module), "main_adjoint")(x, w)
    np.testing.assert_allclose(by_x, np.full(3, 48.0))
    np.testing.assert_allclose(by_w, np.broadcast_to(6 * x[:, None], w.shape))
