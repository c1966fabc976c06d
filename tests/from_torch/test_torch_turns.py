"""Gradients where a slope jumps or has no value: those of PyTorch, whose numbers stand here."""

from typing import Any

import numpy as np
import pytest

from relaxjax import to_jax
from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Var
from relaxjax.ir.types import TensorType
from relaxjax.passes import Gradient
from relaxjax.torch.aten import TABLE

INF = float("inf")


def both(name: str, x: Any, **options: Any) -> tuple[Any, Any]:
    """What an operator of ATen gives for a tensor, and the gradient of the sum of that."""
    array = np.array(x, "float32")
    param, builder = Var("x", TensorType(array.shape, "float32")), BlockBuilder()
    with builder.function("main", [param]):
        with builder.dataflow():
            result = builder.emit_output(TABLE[f"aten.{name}"].rule(param, **options))
        builder.emit_func_output(result)
    mod = Gradient("main", cotangent=True)(builder.get())
    value = to_jax(mod, "main")(array)
    _, (slope,) = to_jax(mod, "main_adjoint")(array, np.ones(value.shape, "float32"))
    return np.asarray(value), np.asarray(slope)


ZEROS, SOME = [0.0, 0, 0], [0.0, 1, 1]
CASES: list[tuple[str, Any, dict[str, Any], Any]] = [
    ("abs.default", [0.0, -0.0, -2], {}, [0, 0, -1]),
    ("l1_loss.default", ZEROS, {"target": 0.0, "reduction": 2}, ZEROS),
    ("std.correction", ZEROS, {}, ZEROS),
    ("std.correction", [1.0, 1, 1], {}, ZEROS),
    ("linalg_vector_norm.default", ZEROS, {"ord": 1}, ZEROS),
    ("linalg_vector_norm.default", ZEROS, {"ord": 2}, ZEROS),
    ("linalg_vector_norm.default", ZEROS, {"ord": 3}, ZEROS),
    ("linalg_vector_norm.default", ZEROS, {"ord": 0.5}, ZEROS),
    ("linalg_vector_norm.default", ZEROS, {"ord": INF}, ZEROS),
    ("linalg_vector_norm.default", SOME, {"ord": 1}, SOME),
    ("linalg_vector_norm.default", SOME, {"ord": 0.5}, [0, 2, 2]),
    ("linalg_vector_norm.default", SOME, {"ord": INF}, [0, 0.5, 0.5]),
    ("linalg_vector_norm.default", SOME, {"ord": -INF}, ZEROS),
    ("elu.default", ZEROS, {"alpha": 2.0}, [2, 2, 2]),
    ("elu.default", [-1.0, 0, 1], {}, [np.exp(-1), 1, 1]),
    ("celu.default", [-2.0, 0, 1], {"alpha": 2.0}, [np.exp(-1), 1, 1]),
    ("clamp.default", [-1.0, 1, 2], {"min": -1, "max": 1}, [1, 1, 0]),
    ("clamp_min.default", [0.0, -1, 1], {"min": 0}, [1, 0, 1]),
    ("clamp.Tensor", [0.0, 1, 2], {"min": 0.0, "max": 1.0}, [1, 1, 0]),
]


@pytest.mark.parametrize(("name", "x", "options", "wanted"), CASES)
def test_the_gradient_at_a_turn(name: str, x: Any, options: Any, wanted: Any) -> None:
    np.testing.assert_allclose(both(name, x, **options)[1], wanted, rtol=1e-6)


def test_powers_below_zero_are_infinite_at_zero() -> None:
    value, _ = both("linalg_vector_norm.default", [0.0, 2, 3], ord=-1)
    assert value == 0


def test_a_bound_does_not_hide_nan_and_is_one_only_if_it_is_a_number() -> None:
    x, low = Var("x", TensorType((3,), "float32")), Var("low", TensorType((3,), "float32"))
    builder = BlockBuilder()
    with builder.function("main", [x, low]):
        with builder.dataflow():
            rule = TABLE["aten.clamp.default"].rule
            results = [rule(x, min=0, max=1), TABLE["aten.clamp.Tensor"].rule(x, min=low)]
            results = [builder.emit_output(one) for one in results]
        builder.emit_func_output(results)
    by_number, by_tensor = to_jax(builder.get(), "main")(
        np.array([np.nan, 2, -1], "float32"), np.array([0, np.nan, 5], "float32")
    )
    np.testing.assert_array_equal(by_number, [np.nan, 1, 0])
    np.testing.assert_array_equal(by_tensor, [np.nan, np.nan, 5])
