"""A lowering that gives something else than its operator says is named, however it is run."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from parsing import parse_functions

from relaxjax.ir import IRModule, TensorType, TupleType, Type
from relaxjax.ir.op import OPS
from relaxjax.lowering import LoweringError, build, to_jax
from relaxjax.ops import op
from relaxjax.testing import check_gradients

X = np.ones((3, 2), "float32")
SCRIPT = """
@R.function
def main(x: R.Tensor(("n", 2), "float32")):
    y = R.test_result(x)
    z = R.add(x, x)
    return z
"""


def same(data: Type) -> Type:
    return data


def pair(data: Type) -> Type:
    return TupleType((data, data))


@pytest.fixture
def declared() -> Iterator[Callable[[Any, Any], IRModule]]:
    def declare(lower: Any, infer: Any) -> IRModule:
        @op("relax.test_result", lower=lower, gradient=lambda g, y, data: g)
        def test_result(data: TensorType) -> Type:
            """What the rule says."""
            result: Type = infer(data)
            return result

        return parse_functions(SCRIPT)

    yield declare
    OPS.pop("relax.test_result", None)


@pytest.mark.parametrize(
    ("lower", "infer", "found"),
    [
        (jnp.sum, same, r'R\.Tensor\(\(\), dtype="float32"\)'),
        (lambda x: x[:1], same, r'R\.Tensor\(\(1, 2\), dtype="float32"\)'),
        (lambda x: x.astype("int32"), same, r'R\.Tensor\(\(3, 2\), dtype="int32"\)'),
        (lambda x: (x, x, x), pair, r"R\.Tuple\(R\.Tensor\(\(3, 2\), .*, .*, .*\)"),
        (
            lambda x: (x, x[0]),
            pair,
            r'R\.Tuple\(R\.Tensor.*, R\.Tensor\(\(2,\), dtype="float32"\)\)',
        ),
        (lambda x: x, pair, r"R\.Tensor\(\(3, 2\)"),
    ],
)
@pytest.mark.parametrize(
    "runs",
    [
        lambda mod: build(mod, legalized=False)["main"](X),
        lambda mod: jax.jit(to_jax(mod, "main"))(X),
        lambda mod: check_gradients(mod, args=(X,)),
    ],
    ids=["built", "traced", "checked"],
)
def test_another_result(declared: Any, lower: Any, infer: Any, found: str, runs: Any) -> None:
    mod = declared(lower, infer)
    message = rf"^the lowering of relax\.test_result gives a result of type {found}.*, but its type"
    with pytest.raises(LoweringError, match=message):
        runs(mod)


@pytest.mark.parametrize(
    ("lower", "infer"), [(lambda x: x, same), (lambda x: [x, x], pair), (lambda x: (x, x), pair)]
)
def test_the_result_that_it_says(declared: Any, lower: Any, infer: Any) -> None:
    run = to_jax(declared(lower, infer), "main")
    np.testing.assert_array_equal(run(X), X + X)


def test_wide_numbers_are_narrow_where_jax_has_them_so(declared: Any) -> None:
    mod = declared(lambda x: jnp.zeros(x.shape, "int32"), lambda ty: TensorType(ty.dims, "int64"))
    np.testing.assert_array_equal(to_jax(mod, "main")(X), X + X)
