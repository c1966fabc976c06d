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
from relaxjax.torch.aten.binary import xlogy

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
    ("abs.default", [NAN, INF, -INF], {}, [0, 1, -1]),
    ("linalg_vector_norm.default", [0.0, 2, 3], {"ord": -1}, ZEROS),
    ("var.correction", [1.0, 2], {"correction": 2}, [-INF, INF]),
    (
        "smooth_l1_loss.default",
        [1.0, -1, 0, INF, -INF],
        {"target": 0.0, "reduction": 2},
        [1, -1, 0, 1, -1],
    ),
    (
        "huber_loss.default",
        [0.5, -0.5, 0, INF],
        {"target": 0.0, "reduction": 2, "delta": 0.5},
        [0.5, -0.5, 0, 0.5],
    ),
    (
        "binary_cross_entropy.default",
        [0.0, 1, 0.5],
        {"target": Constant(np.ones(3, "float32")), "reduction": 2},
        [-1e12, 0, -2],
    ),
    (
        "binary_cross_entropy.default",
        [0.0, 1, 0.5],
        {"target": Constant(np.zeros(3, "float32")), "reduction": 2},
        [0, 1e12, 2],
    ),
    ("hinge_embedding_loss.default", [1.0, 0, 2], {"target": -1.0, "reduction": 2}, [-1, -1, 0]),
    (
        "multi_margin_loss.default",
        [[1.0, 0, 0], [0, 0, 1]],
        {"target": Constant(np.array([0, 1])), "reduction": 2},
        [[0, 0, 0], [1 / 3, -2 / 3, 1 / 3]],
    ),
    ("logit.default", [0.1, 0.5, 0.9, 0], {"eps": 0.1}, [1 / 0.09, 4, 1 / 0.09, 0]),
    ("hardswish.default", [INF, -INF, 3, -3, 0], {}, [1, 0, 1, 0, 0.5]),
    ("logit.default", [0.0, 1, 0.5], {}, [INF, INF, 4]),
    ("digamma.default", [0.0, 1], {}, [INF, np.pi**2 / 6]),
    ("mode.default", [1.0, 2, 2, 1, 3], {"dim": 0}, [0, 0, 0, 1, 0]),
    ("logcumsumexp.default", [INF, 0, 1], {"dim": 0}, ZEROS),
    ("logcumsumexp.default", [0.0, -INF, 0], {"dim": 0}, [2.5, 0, 0.5]),
    ("special_entr.default", [-0.0], {}, [INF]),
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
PAIRS: list[tuple[str, Any, Any, Any, Any]] = [
    ("hypot.default", [0.0, 3, 1e30, 1e-30], [0.0, 4, 1e30, 1e-30],
     [NAN, 0.6, 0.5**0.5, 0.5**0.5], [NAN, 0.8, 0.5**0.5, 0.5**0.5]),
    ("hypot.default", [INF, INF, NAN], [1.0, NAN, 1], [NAN] * 3, [0, NAN, NAN]),
    ("atan2.default", [0.0, -0.0, 1, 0], [0.0, 0, 0, -1], [0, 0, 0, -1], [0, 0, -1, 0]),
    ("copysign.Tensor", [INF, -INF, 2, INF], [2.0, INF, -INF, -INF], [1, -1, -1, -1], [0] * 4),
    ("xlogy.Tensor", [0.0, 0, 0, 1, 0], [0.0, 1, -1, 1, INF], [0] * 5, [0, 0, 0, 1, 0]),
    ("cdist.default", [[0.0, 0]], [[2.0, 2]], [[-0.5**0.5] * 2], [[0.5**0.5] * 2]),
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


def test_equally_far_coordinates_have_the_whole_adjoint_each() -> None:
    """Of the distance by the largest coordinate; a norm by it shares the adjoint out."""
    for name, x, y in (("cdist.default", [[0.0, 0]], [[2.0, -2]]), ("pdist.default", None, None)):
        given = [[[0.0, 0], [2, -2]]] if x is None else [x, y]
        first = slopes(name, *given, p=INF)[0][0]
        np.testing.assert_array_equal(first, [-1, 1])


def test_what_lacks_nothing_of_a_margin_still_moves() -> None:
    """At the margin itself, PyTorch's losses have the slope of what lacks a little."""
    found = slopes("margin_ranking_loss.default", [0.0, 1], [0.0, 2], [1.0, 1], reduction=2)
    np.testing.assert_array_equal(found[0], [-1, -1])
    ranked = slopes("triplet_margin_loss.default", [[0.0, 0]], [[0.0, 0]], [[1.0, 0]], eps=0.0)
    np.testing.assert_array_equal(ranked[2], [[-1, 0]])
    apart = slopes("cosine_embedding_loss.default", [[1.0, 0]], [[0.0, 1]], [-1.0])
    np.testing.assert_allclose(apart[0], [[0, 1]])


def test_equally_near_negatives_have_half_of_the_adjoint_each() -> None:
    root = 0.5**0.5
    options = {"eps": 0.0, "swap": True}
    found = slopes("triplet_margin_loss.default", [[0.0, 0]], [[2.0, 0]], [[1.0, 1]], **options)
    np.testing.assert_allclose(found[2], [[0, -root]], rtol=1e-6, atol=1e-7)


def test_values_at_poles_and_beside_nothing() -> None:
    np.testing.assert_array_equal(value("digamma.default", [0.0, -0.0, -1]), [-INF, INF, NAN])
    products = value("xlogy.Tensor", [0.0, 0, 0, 1], [INF, 0, NAN, 0])
    np.testing.assert_array_equal(products, [0, 0, NAN, -INF])
    np.testing.assert_allclose(value(lambda y: xlogy(0.0, y), [2.0, 0]), [0, 0])
    np.testing.assert_allclose(value("xlogy.Scalar_Other", [2.0], other=np.e), [2], rtol=1e-6)
    np.testing.assert_array_equal(value("var.correction", [1.0, 2], correction=2), INF)
    assert np.isnan(value("var.correction", [1.0], correction=1))


@pytest.mark.parametrize(
    ("order", "values", "to_x"),
    [
        (2, [-2.40411381, -16.8287966, -0.82879664], [6.49393940, 97.4090910, 193.4090910]),
        (3, [6.49393940, 97.4090910, 193.4090910], [-24.8862661, -771.474250, -3.47424982]),
    ],
)
def test_polygamma_of_numbers_below_zero(order: int, values: Any, to_x: Any) -> None:
    def rule(x: Any) -> Any:
        return TABLE["aten.polygamma.default"].rule(order, x)

    numbers = [1.0, 0.5, -0.5]
    np.testing.assert_allclose(value(rule, numbers), values, rtol=1e-4)
    np.testing.assert_allclose(slopes(rule, numbers)[0], to_x, rtol=1e-4)
    assert np.isinf(value(rule, [0.0, -1.0])).all()


def test_a_nan_with_a_sign_is_the_largest_as_well() -> None:
    """As 0 / 0 gives one on many processors: XLA has it below minus infinity."""
    row = np.array([1, -NAN, 2], "float32")
    assert np.signbit(row[1])
    np.testing.assert_array_equal(value("topk.default", row, k=2), [NAN, 2])
    np.testing.assert_array_equal(value("topk.default", row, k=2, largest=False), [1, 2])
    np.testing.assert_array_equal(slopes("topk.default", row, k=2)[0], [0, 1, 1])


def test_the_least_of_the_most_frequent_elements_and_its_last_place() -> None:
    rows = [[1.0, 2, 2], [3, 2, 1], [2, 2, 2]]
    np.testing.assert_array_equal(value("mode.default", rows), [2, 1, 2])
    kept = value(lambda x: TABLE["aten.mode.default"].rule(x, 1, True)[1], rows)
    np.testing.assert_array_equal(kept, [[2], [2], [2]])


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
