"""Gradients where a slope jumps or has no value: those of PyTorch, whose numbers stand here."""

from typing import Any

import numpy as np
import pytest
from aten_results import program, slopes, value

from relaxjax import to_jax
from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Constant, Var
from relaxjax.ir.types import TensorType
from relaxjax.torch.aten import TABLE

INF, NAN = float("inf"), float("nan")


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
    ("median.default", [1.0, 2, 2, 2, 3], {}, [0, 1 / 3, 1 / 3, 1 / 3, 0]),
    ("median.default", [1.0, NAN, 2], {}, [0, 1, 0]),
    ("median.dim", [1.0, 2, 2, 2, 3], {"dim": 0}, [0, 0, 1, 0, 0]),
    ("median.dim", [1.0, 3, NAN, 2, NAN], {"dim": 0}, [0, 0, 1, 0, 0]),
    ("nanmedian.default", [1.0, 2, 2, NAN, 3], {}, [0, 0.5, 0.5, 0, 0]),
    ("nanmedian.default", [NAN, NAN], {}, [0.5, 0.5]),
    ("nanmedian.dim", [NAN, 4, 1, NAN, 2], {"dim": 0}, [0, 0, 0, 0, 1]),
    ("quantile.scalar", [1.0, 2, 2, 2, 3], {"q": 0.4}, [0, 0.4, 0.6, 0, 0]),
    ("quantile.scalar", [1.0, NAN, 2], {"q": 0.5}, [0, 1, 0]),
    ("nanquantile.scalar", [1.0, 2, 2, NAN, 3], {"q": 0.4}, [0, 0.8, 0.2, 0, 0]),
    ("cummax.default", [1.0, 1, 0, NAN, 2, NAN], {"dim": 0}, [1, 2, 0, 2, 0, 1]),
    ("cummin.default", [1.0, 1, 0, 2], {"dim": 0}, [1, 1, 2, 0]),
    ("nansum.default", [1.0, NAN, 2], {}, [1, 0, 1]),
    ("nanmean.default", [1.0, NAN, 2], {}, [0.5, 0, 0.5]),
    ("special_entr.default", [0.0, 1, -1, NAN], {}, [INF, -1, NAN, NAN]),
    ("linalg_norm.ord_str", [[0.0, 0], [0, 0]], {"ord": "fro"}, [[0, 0], [0, 0]]),
    ("linalg_norm.default", [[1.0, 0], [0, 1]], {"ord": 1}, [[0.5, 0], [0, 0.5]]),
    ("linalg_matrix_norm.default", [[1.0, 0], [0, 1]], {"ord": 2}, [[0.5, 0], [0, 0.5]]),
    ("linalg_matrix_norm.str_ord", [[1.0, 0], [0, 1]], {"ord": "nuc"}, [[1, 0], [0, 1]]),
    ("pdist.default", [[0.0, 0], [0, 0], [3, 4]], {}, [[-0.6, -0.8], [-0.6, -0.8], [1.2, 1.6]]),
]
# Of two tensors.
PAIRS: list[tuple[str, list[float], list[float], list[float], list[float]]] = [
    ("hypot.default", [0.0, 3, 1e30, 1e-30], [0.0, 4, 1e30, 1e-30],
     [NAN, 0.6, 0.5**0.5, 0.5**0.5], [NAN, 0.8, 0.5**0.5, 0.5**0.5]),
    ("hypot.default", [INF, INF, NAN], [1.0, NAN, 1], [NAN] * 3, [0, NAN, NAN]),
    ("copysign.Tensor", [0.0, -0.0, 2, -2], [-1.0, 1, -0.0, 0], [0, 0, -1, -1], [0] * 4),
    ("fmax.default", [1.0, NAN, 1, NAN, 2], [1.0, 1, NAN, NAN, 1],
     [1, 0, 1, 1, 1], [0, 1, 0, 0, 0]),
    ("fmin.default", [1.0, NAN, 1, NAN, 2], [1.0, 1, NAN, NAN, 1],
     [1, 0, 1, 1, 0], [0, 1, 0, 0, 1]),
    ("special_xlog1py.default", [0.0, 0, 1], [-1.0, 1, 1], [0, np.log(2), np.log(2)], [0, 0, 0.5]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "x", "options", "wanted"), CASES)
def test_the_gradient_at_a_turn(name: str, x: Any, options: Any, wanted: Any) -> None:
    np.testing.assert_allclose(slopes(name, x, **options)[0], wanted, rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("median.default", {}),
        ("nanmedian.default", {}),
        ("cummax.default", {"dim": 0}),
        ("cummin.default", {"dim": 0}),
        ("maximum.default", {}),
        ("minimum.default", {}),
        ("fmax.default", {}),
        ("fmin.default", {}),
    ],
)
def test_what_decides_for_several_is_computed_once(name: str, options: dict[str, Any]) -> None:
    """A compiler may compute a value anew in each kernel, and round it otherwise there."""
    arrays = [np.zeros(3, "float32")] * (1 if options or "median" in name else 2)
    assert "R.grad.once" in program(name, arrays, options).script()


@pytest.mark.parametrize(("name", "x", "y", "to_x", "to_y"), PAIRS)
def test_the_gradients_of_two_at_a_turn(name: str, x: Any, y: Any, to_x: Any, to_y: Any) -> None:
    found = slopes(name, x, y)
    np.testing.assert_allclose(found[0], to_x, rtol=1e-6)
    np.testing.assert_allclose(found[1], to_y, rtol=1e-6)


@pytest.mark.parametrize(
    ("reduce", "include_self", "to_x", "to_source"),
    [
        ("amax", True, [1 / 3, 0, 1], [1 / 3, 1 / 3, 0, 0.5, 0.5]),
        ("amax", False, [0, 0, 1], [1 / 3, 1 / 3, 0, 0.5, 0.5]),
        ("mean", False, [0, 0, 1], [1 / 3, 1 / 3, 1 / 3, 0.5, 0.5]),
        ("prod", False, [0, 0, 1], [0, 0, 0, 2, 2]),
        ("sum", False, [0, 0, 1], [1, 1, 1, 1, 1]),
    ],
)
def test_what_is_written_shares_a_gradient(
    reduce: str, include_self: bool, to_x: Any, to_source: Any
) -> None:
    """The tensor is among those that share it where it equals the extreme one, as in PyTorch."""
    places = np.array([0, 0, 0, 1, 1])
    options = {"dim": 0, "index": Constant(places), "reduce": reduce, "include_self": include_self}
    source = np.array([0, 0, -1, 2, 2], "float32")

    def rule(x: Any, src: Any) -> Any:
        return TABLE["aten.scatter_reduce.two"].rule(x, src=src, **options)

    found = slopes(rule, [0.0, 0, 0], source)
    np.testing.assert_allclose(found[0], to_x, rtol=1e-6)
    np.testing.assert_allclose(found[1], to_source, rtol=1e-6)


def test_powers_below_zero_are_infinite_at_zero() -> None:
    assert value("linalg_vector_norm.default", [0.0, 2, 3], ord=-1) == 0


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
