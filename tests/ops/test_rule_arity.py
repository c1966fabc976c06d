"""Rules that cannot be called as passes call them are found when they are declared."""

from typing import Any

import numpy as np
import pytest

from relaxjax import TensorType, op
from relaxjax.ir.op import OPS

_ALL = "the adjoint of the result, the result and `data`, and by name `axis`"


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"gradient": lambda g, data, **attrs: g}, rf"`gradient` is called with {_ALL}, but it"),
        ({"gradient": lambda g, y, data: g}, r"takes \(g, y, data\): .* argument 'axis'"),
        (
            {"lower": lambda: 1.0},
            r"`lower` is called with `data`, and by name `axis`, but it takes",
        ),
        (
            {"jvp": lambda data, axis: data},
            "`jvp` is called with the tangents of the arguments, the result and `data`",
        ),
        ({"decompose": lambda data: data}, "`decompose` is called with `data`, and by name `axis`"),
        ({"inference": lambda data: data}, "`inference` is called with `data`"),
        ({"canonical": lambda data: data}, "`canonical` is called with `data`"),
    ],
)
def test_a_rule_that_takes_something_else(rules: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=rf"^relax\.test_arity: its .*{message}"):

        @op("relax.test_arity", **rules)
        def named(data: TensorType, axis: int = 0) -> TensorType:
            """Itself."""
            return data

    assert "relax.test_arity" not in OPS


def test_rules_of_few_words() -> None:
    def attributes_unseen(g: Any, y: Any, *args: Any, **attrs: Any) -> Any:
        return g

    try:

        @op("relax.test_arity", lower=np.abs, gradient=attributes_unseen)
        def named(data: TensorType, *more: TensorType) -> TensorType:
            """Itself, whatever stands behind it."""
            return data

        @op("relax.test_arity_2", lower=np.sort, gradient=attributes_unseen)
        def sorted_along(data: TensorType, axis: int = 0) -> TensorType:
            """In order."""
            return data

    finally:
        OPS.pop("relax.test_arity", None)
        OPS.pop("relax.test_arity_2", None)
