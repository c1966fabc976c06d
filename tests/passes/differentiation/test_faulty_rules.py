"""Gradient rules that do not give what they must, as one of a user's own may not."""

from typing import Any

import pytest
from parsing import parse_functions

from relaxjax.ir.registry import OPS, get_op
from relaxjax.ir.types import TensorType
from relaxjax.ops import op
from relaxjax.passes import Gradient, GradientError


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (lambda g, y, x: 2.0, "must give an expression for each argument, .* but it gives 2.0"),
        (lambda g, y, x: None, "but it gives None"),
        (lambda g, y, x: [g, 1.0], "must give an expression for each argument"),
        (lambda g, y, x: (g, g), "gives 2 adjoints for its 1 arguments"),
        (lambda g, y, x: get_op("relax.astype")(g, "int32"), "of dtype int32 for `x` of dtype"),
        (
            lambda g, y, x: get_op("relax.sum")(g, [0], True),
            r"gives an adjoint of shape \(1, 3\) for `x` of shape \(4, 3\), .* of the result",
        ),
        (lambda g, y, x: get_op("relax.permute_dims")(g), r"of shape \(3, 4\) for `x` of shape"),
    ],
)
def test_a_rule_is_named_with_what_it_gives(rule: Any, message: str) -> None:
    @op("relax.test_faulty", lower=lambda x: x, gradient=rule)
    def faulty(x: TensorType) -> TensorType:
        """Itself."""
        return x

    module = parse_functions(
        """
@R.function
def main(x: R.Tensor((4, 3), "float32")):
    y = R.test_faulty(x)
    loss = R.sum(y)
    return loss
"""
    )
    whole = rf"the gradient rule of relax\.test_faulty .*{message}"
    try:
        with pytest.raises(GradientError, match=whole):
            Gradient("main")(module)
    finally:
        del OPS["relax.test_faulty"]
