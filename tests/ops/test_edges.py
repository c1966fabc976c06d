"""Where operators are easily wrong: ties, kinks, zeros, empty sums, and what TVM gets wrong."""

from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from applying import applied, gradient, var
from operator_evaluation import evaluate

from relaxjax.ir import BlockBuilder, Expr, IRModule, TensorType, Var, const
from relaxjax.ir.dims import Dim, SymbolicVar
from relaxjax.ir.op import get_op
from relaxjax.lowering import VirtualMachine, build
from relaxjax.ops.declare import OpError
from relaxjax.ops.emit import call
from relaxjax.passes import LegalizeOps

X = np.asarray([-1.0, 0.0, 2.0], "float32")


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        # TVM's rule gives 1 at 0; JAX and PyTorch give 0.
        (lambda x: call("nn.relu", x), [0.0, 0.0, 1.0]),
        (lambda x: call("nn.leakyrelu", x, 0.5), [0.5, 0.5, 1.0]),
        # A bound that is reached stops the adjoint, as in relu.
        (lambda x: call("clip", x, -1, 2), [0.0, 1.0, 0.0]),
        # A tie hands all to one side, never to both or to none.
        (lambda x: call("maximum", x, x), [1.0, 1.0, 1.0]),
        (lambda x: call("minimum", x, x), [1.0, 1.0, 1.0]),
        # The limits of x ** 2 and x ** 0 at 0 are finite.
        (lambda x: x**2, [-2.0, 0.0, 4.0]),
        (lambda x: x**0, [0.0, 0.0, 0.0]),
        # No derivative goes through integers.
        (lambda x: call("astype", call("astype", x, "int32"), "float32"), None),
    ],
)
def test_kinks(build: Callable[..., Expr], expected: list[float] | None) -> None:
    (adjoint,) = gradient(build, X)
    if expected is None:
        assert adjoint is None
    else:
        chex.assert_trees_all_close(adjoint, jnp.asarray(expected, "float32"))


def test_relu_hands_nothing_on_at_nan() -> None:
    """As `jax.nn.relu`; its value there is NaN."""
    (adjoint,) = gradient(lambda x: call("nn.relu", x), np.asarray([np.nan, 1.0], "float32"))
    chex.assert_trees_all_equal(adjoint, jnp.asarray([0.0, 1.0], "float32"))


def test_the_largest_elements_share_the_adjoint() -> None:
    (adjoint,) = gradient(lambda x: call("max", x), np.asarray([3.0, 1.0, 3.0], "float32"))
    chex.assert_trees_all_close(adjoint, jnp.asarray([0.5, 0.0, 0.5], "float32"))


def test_zeros_in_a_product() -> None:
    x = np.asarray([[2.0, 0.0, 3.0], [0.0, 0.0, 1.0]], "float32")
    (adjoint,) = gradient(lambda x: call("prod", x, axis=1), x)
    chex.assert_trees_all_close(adjoint, jnp.asarray([[0.0, 6.0, 0.0], [0.0] * 3], "float32"))


def test_the_exponent_of_zero_has_no_nan() -> None:
    """TVM's rule gives 0 * log(0)."""
    base, exponent = np.asarray([0.0, 2.0], "float32"), np.asarray([2.0, 3.0], "float32")
    to_base, to_exponent = gradient(lambda x, y: call("power", x, y), base, exponent)
    chex.assert_trees_all_close(to_base, jnp.asarray([0.0, 12.0], "float32"))
    chex.assert_trees_all_close(to_exponent, jnp.asarray([0.0, 8 * np.log(2)], "float32"))


def test_the_power_of_infinity_that_is_one_is_flat() -> None:
    base, exponent = np.asarray([np.inf, -np.inf, 0.0], "float32"), np.zeros(3, "float32")
    to_base, _ = gradient(lambda x, y: call("power", x, y), base, exponent)
    chex.assert_trees_all_equal(to_base, jnp.zeros(3))


def test_the_slope_of_a_power_that_is_one_grows_with_the_exponent() -> None:
    """The derivative of y * x ** (y - 1) by y at 0; JAX gives x."""
    base, exponent = jnp.asarray([0.5, 2.0]), jnp.zeros(2)

    def slope(y: jax.Array) -> jax.Array:
        to_base, _ = gradient(lambda x, y: call("power", x, y), base, y)
        return jnp.sum(to_base)

    chex.assert_trees_all_close(jax.grad(slope)(exponent), 1 / base)


def test_a_sequence_longer_than_the_data_is_reversed_whole() -> None:
    x, lengths = np.arange(6, dtype="float32").reshape(2, 3), np.asarray([5, 2], "int32")
    found = applied("reverse_sequence", x, lengths)
    assert found.tolist() == [[2, 1, 0], [4, 3, 5]]
    adjoint, _ = gradient(lambda x, i: call("reverse_sequence", x, i), x, lengths)
    chex.assert_trees_all_equal(adjoint, jnp.ones((2, 3)))


@pytest.mark.parametrize("name", ["nn.softmax", "nn.log_softmax"])
def test_the_softmax_of_nothing_is_nothing(name: str) -> None:
    assert applied(name, np.zeros((2, 0), "float32")).shape == (2, 0)
    (adjoint,) = gradient(lambda x: call(name, x), np.zeros((2, 0), "float32"))
    assert adjoint.shape == (2, 0)


def test_scattered_products() -> None:
    """JAX has no derivative of it: this is by the product rule."""
    data, updates = np.asarray([2.0, 3.0, 5.0], "float32"), np.asarray([7.0, 11.0], "float32")
    places = np.asarray([0, 0], "int64")

    def build(x: Expr, i: Expr, u: Expr) -> Expr:
        return call("scatter_elements", x, i, u, reduction="mul")

    to_data, _, to_updates = gradient(build, data, places, updates)
    chex.assert_trees_all_close(to_data, jnp.asarray([77.0, 1.0, 1.0], "float32"))
    chex.assert_trees_all_close(to_updates, jnp.asarray([22.0, 14.0], "float32"), rtol=1e-6)


@pytest.mark.parametrize(
    ("updates", "expected"),
    [([0.0, 11.0], [22.0, 0.0]), ([0.0, 0.0], [0.0, 0.0]), ([7.0, 0.0], [0.0, 14.0])],
)
@pytest.mark.parametrize(
    ("name", "places"), [("scatter_elements", [0, 0]), ("scatter_nd", [[0], [0]])]
)
def test_zeros_among_scattered_products(
    name: str, places: list[Any], updates: list[float], expected: list[float]
) -> None:
    arrays = [np.asarray(values, "float32") for values in ([2.0, 3.0, 5.0], updates)]

    def build(x: Expr, i: Expr, u: Expr) -> Expr:
        return call(name, x, i, u, reduction="mul")

    to_data, _, to_updates = gradient(build, arrays[0], np.asarray(places, "int64"), arrays[1])
    chex.assert_trees_all_close(to_data, jnp.asarray([np.prod(updates), 1.0, 1.0], "float32"))
    chex.assert_trees_all_close(to_updates, jnp.asarray(expected, "float32"))


@pytest.mark.parametrize(
    ("name", "places"),
    [("scatter_elements", [1, 1, 2]), ("scatter_nd", [[1], [1], [2]]), ("index_put", [1, 1, 2])],
)
def test_of_several_updates_of_one_place_the_one_that_stands_there_has_a_derivative(
    name: str, places: list[Any]
) -> None:
    data, updates = np.zeros(3, "float32"), np.asarray([4.0, 5.0, 6.0], "float32")

    def build(x: Expr, i: Expr, u: Expr) -> Expr:
        return call(name, x, i, u)

    index = np.asarray(places, "int64")
    v = [var(data), var(index), var(updates)]
    values = map(jnp.asarray, (data, index, updates))
    written = np.asarray(evaluate(build(*v), dict(zip(v, values, strict=True))))
    to_data, _, to_updates = gradient(build, data, index, updates)
    chex.assert_trees_all_close(to_data, jnp.asarray([1.0, 0.0, 0.0]))
    chex.assert_trees_all_close(to_updates, jnp.asarray(np.isin(updates, written), "float32"))


@pytest.mark.parametrize("mode", ["clip", "wrap", "nan"])
def test_places_outside_hand_their_adjoint_to_what_was_read(mode: str) -> None:
    x, places = np.asarray([1.0, 2.0], "float32"), np.asarray([-3, 0, 5], "int32")

    def build(x: Expr, i: Expr) -> Expr:
        return call("take", x, i, axis=0, mode=mode)

    values = evaluate(build(*(v := [var(x), var(places)])), dict(zip(v, (x, places), strict=True)))
    read = {"clip": [1.0, 1.0, 2.0], "wrap": [2.0, 1.0, 2.0], "nan": [np.nan, 1.0, np.nan]}
    chex.assert_trees_all_close(values, jnp.asarray(read[mode], "float32"))
    adjoints = {"clip": [2.0, 1.0], "wrap": [1.0, 2.0], "nan": [1.0, 0.0]}
    chex.assert_trees_all_close(
        gradient(build, x, places)[0], jnp.asarray(adjoints[mode], "float32")
    )


def test_ignored_samples_count_for_nothing() -> None:
    """Not even where their log-probability is infinite."""
    logits = np.asarray([[-1.0, -2.0], [-np.inf, 0.0]], "float32")
    targets = np.asarray([1, -100], "int64")
    v = [var(logits), var(targets)]
    values = map(jnp.asarray, (logits, targets))
    loss = evaluate(call("nn.nll_loss", *v), dict(zip(v, values, strict=True)))
    chex.assert_trees_all_close(loss, jnp.float32(2.0))


def test_the_weights_of_a_loss_have_a_gradient() -> None:
    """TVM's rule leaves it out."""
    logits, targets = (
        np.asarray([[-1.0, -2.0], [-3.0, -4.0]], "float32"),
        np.asarray([1, 0], "int64"),
    )
    weights = np.asarray([1.0, 3.0], "float32")

    def build(x: Expr, t: Expr, w: Expr) -> Expr:
        return call("nn.nll_loss", x, t, w)

    # The loss is (3 * w[0] + 2 * w[1]) / (w[0] + w[1]).
    adjoint = gradient(build, logits, targets, weights)[2]
    chex.assert_trees_all_close(adjoint, jnp.asarray([3 / 16, -1 / 16], "float32"), rtol=1e-5)


def test_a_mean_over_symbolic_lengths_divides_by_what_they_are() -> None:
    """Its count is read from the shape when the program runs."""
    n = SymbolicVar("n")
    x = Var("x", TensorType((n, 2), "float32"))
    rule = get_op("relax.mean").gradient
    assert callable(rule)
    mean = call("mean", x)
    text = str(rule(Var("g", mean.ty), Var("y", mean.ty), x, axis=None, keepdims=False))
    assert "R.shape_to_tensor(R.shape([n * 2]))" in text


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("name", ["mean", "variance", "std"])
def test_statistics_of_nothing_have_empty_gradients(name: str, dtype: str) -> None:
    (adjoint,) = gradient(lambda x: call(name, x, axis=0), np.zeros((0, 2), dtype))
    assert (adjoint.shape, adjoint.dtype) == ((0, 2), dtype)


@pytest.mark.parametrize("name", ["mean", "variance", "std"])
@pytest.mark.parametrize("dims", [(SymbolicVar("n"), 2), None])
def test_statistics_of_integers_that_turn_out_to_be_none_are_refused(
    name: str, dims: tuple[Dim, ...] | None
) -> None:
    run = VirtualMachine(build(statistic(name, TensorType(dims, "int32", 2))))["main"]
    with pytest.raises(OpError, match=rf"relax.{name}: `x` must have an element along axis 0"):
        run(jnp.zeros((0, 2), "int32"))
    np.testing.assert_array_equal(run(jnp.full((3, 2), 7)), [7, 7] if name == "mean" else [0, 0])


@pytest.mark.parametrize("name", ["mean", "variance", "std"])
def test_legalized_statistics_of_no_integers_are_zeros(name: str) -> None:
    """XLA would end the process where it divides by a number that it knows to be 0."""
    mod = statistic(name, TensorType((SymbolicVar("n"), 2), "int32"))
    run = VirtualMachine(build(LegalizeOps()(mod)))["main"]
    np.testing.assert_array_equal(run(jnp.zeros((0, 2), "int32")), [0, 0])
    np.testing.assert_array_equal(run(jnp.full((3, 2), 7)), [7, 7] if name == "mean" else [0, 0])


def statistic(name: str, ty: TensorType) -> IRModule:
    """A program of a statistic along the first axis."""
    x, builder = Var("x", ty), BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(call(name, x, axis=0)))
    return builder.get()


def test_numbers_cast_to_float8_by_quantize_have_the_gradient_of_a_cast() -> None:
    x, scale = np.asarray([0.5, -2.0, 9000.0], "float32"), np.asarray(0.5, "float32")
    offset = np.asarray(0.0, "float16")

    def there_and_back(dtype: str) -> Callable[..., Expr]:
        def build(x: Expr, scale: Expr, offset: Expr) -> Expr:
            narrow = call("quantize", x, scale, offset, out_dtype=dtype)
            return call("dequantize", narrow, scale, offset)

        return build

    to_x, to_scale, _ = gradient(there_and_back("float8_e4m3fn"), x, scale, offset)
    chex.assert_trees_all_close(to_x, jnp.asarray([1.0, 1.0, 0.0]))  # the last is clipped
    chex.assert_trees_all_close(to_scale, jnp.asarray(448.0))
    assert gradient(there_and_back("int8"), x, scale, offset)[0] is None


def test_an_empty_window_of_a_maximum_is_the_lowest_number() -> None:
    x = np.ones((1, 1, 2), "float32")
    v = var(x)
    pooled = evaluate(call("nn.max_pool1d", v, 1, padding=1), {v: x})
    chex.assert_trees_all_close(pooled, jnp.asarray([[[-np.inf, 1, 1, -np.inf]]], "float32"))


@pytest.mark.parametrize("ceil_mode", [False, True])
def test_a_mean_leaves_out_the_padding(ceil_mode: bool) -> None:
    """In ceil_mode too, no window begins behind the end, in the padding altogether."""
    x = np.arange(5, dtype="float32").reshape(1, 1, 5)
    v = var(x)
    attrs = {"padding": 1, "ceil_mode": ceil_mode, "count_include_pad": False}
    pooled = evaluate(call("nn.avg_pool1d", v, 2, 2, **attrs), {v: x})
    chex.assert_trees_all_close(pooled, jnp.asarray([[[0.0, 1.5, 3.5]]], "float32"))


def test_the_mean_of_padding_alone_is_zero() -> None:
    x = np.arange(1, 4, dtype="float32").reshape(1, 1, 3)
    v = var(x)
    pooled = evaluate(call("nn.avg_pool1d", v, 1, padding=1, count_include_pad=False), {v: x})
    chex.assert_trees_all_close(pooled, jnp.asarray([[[0.0, 1.0, 2.0, 3.0, 0.0]]], "float32"))


@pytest.mark.parametrize(
    ("dtype", "low", "high", "expected"),
    [
        ("uint8", -1, 300, [0, 5, 255]),
        ("int8", -1000, 3, [0, 3, -1]),
        ("int8", float("-inf"), 1e9, [0, 5, -1]),
        ("int32", 1, 2**40, [1, 5, 255]),
    ],
)
def test_a_bound_beyond_the_integers_of_a_dtype_is_none(
    dtype: str, low: float, high: float, expected: list[Any]
) -> None:
    x = np.asarray([0, 5, 255]).astype(dtype)
    v = var(x)
    found = evaluate(call("clip", v, low, high), {v: jnp.asarray(x)})
    chex.assert_trees_all_equal(found, jnp.asarray(expected, dtype))


@pytest.mark.parametrize("axis", [None, 0, -1])
@pytest.mark.parametrize("exclusive", [False, True])
def test_small_adjoints_of_a_running_sum_are_not_lost_behind_large_ones(
    exclusive: bool, axis: int | None
) -> None:
    factors = np.asarray([1e9, 1.0, 2.0, np.inf, 4.0, 8.0], "float32")

    def build(x: Expr) -> Expr:
        running = call("cumsum", x, axis=axis, exclusive=exclusive)
        return call("where", const(factors == 0), running, const(factors) * running)

    (adjoint,) = gradient(build, np.ones(6, "float32"))
    behind = [*factors[1:], 0.0] if exclusive else list(factors)
    expected = np.cumsum(np.asarray(behind, "float32")[::-1])[::-1]
    chex.assert_trees_all_equal(np.asarray(adjoint), expected)


def test_equal_infinities_share_the_adjoint_of_the_sum_of_their_powers() -> None:
    x, y = np.asarray([[-np.inf, np.inf, -np.inf, 1], [-np.inf, np.inf, 0, 1]], "float32")
    to_x, to_y = gradient(lambda x, y: call("log_add_exp", x, y), x, y)
    chex.assert_trees_all_equal(to_x, jnp.asarray([0.5, 0.5, 0.0, 0.5]))
    chex.assert_trees_all_equal(to_y, jnp.asarray([0.5, 0.5, 1.0, 0.5]))


@pytest.mark.parametrize("largest", [np.inf, np.nan])
def test_finite_powers_have_no_share_of_an_infinite_sum(largest: float) -> None:
    """Of NaN there are no shares at all."""
    (adjoint,) = gradient(
        lambda x: call("logsumexp", x, axis=1), np.asarray([[largest, 1.0], [0.0, 0.0]], "float32")
    )
    rest = 0.0 if np.isinf(largest) else np.nan
    chex.assert_trees_all_close(adjoint, jnp.asarray([[np.nan, rest], [0.5, 0.5]]))


def test_the_adjoint_of_a_long_window_with_gaps() -> None:
    """The number of its last place is larger than an int8."""
    places = 130
    x = np.arange(2 * places, dtype="float32").reshape(1, 1, -1)
    g = np.ones((1, 1, 2), "float32")
    adjoint = applied("grad.max_pool1d_backward", g, x, places, dilation=2)
    chex.assert_trees_all_equal(adjoint, (x >= 2 * places - 2).astype("float32"))


def test_the_adjoint_of_large_windows_with_gaps_goes_to_the_first_of_their_largest() -> None:
    """They are taken axis by axis, which must choose the same one of many that are equal."""
    x = np.random.default_rng(0).integers(0, 3, (1, 1, 20, 18)).astype("float32")
    window = {"pool_size": (9, 8), "dilation": 2, "padding": 1, "strides": (2, 1)}
    y = applied("nn.max_pool2d", x, **window)
    g = np.arange(1, y.size + 1, dtype="float32").reshape(y.shape)
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)], constant_values=-np.inf)[0, 0]
    expected = np.zeros_like(padded)
    for row, column in np.ndindex(y.shape[2:]):
        part = padded[2 * row :, column:][:17:2, :15:2]
        i, j = np.unravel_index(np.argmax(part), part.shape)
        expected[2 * row + 2 * i, column + 2 * j] += g[0, 0, row, column]
    found = applied("grad.max_pool2d_backward", g, x, **window)
    np.testing.assert_allclose(found[0, 0], expected[1:-1, 1:-1])


def test_the_mean_of_scattered_integers_is_an_integer() -> None:
    x, i, u = (np.asarray(v, d) for v, d in (([-8, 2], "int32"), ([0], "int64"), ([3], "int32")))
    variables = [var(array) for array in (x, i, u)]
    written = evaluate(
        call("scatter_elements", *variables, reduction="mean"),
        dict(zip(variables, map(jnp.asarray, (x, i, u)), strict=True)),
    )
    chex.assert_trees_all_equal(written, jnp.asarray([-2, 2], "int32"))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float16", jnp.bfloat16])
def test_the_mean_of_many_scattered_numbers_of_few_bits(dtype: Any) -> None:
    """Neither their sum nor their count fits the dtype."""
    x, u = np.asarray([[100], [1]], dtype), np.full((900, 1), 100, dtype)
    written = applied("scatter_nd", x, np.zeros((900, 1), "int32"), u, reduction="mean")
    chex.assert_trees_all_equal(written, x)


def test_the_mean_of_wide_integers() -> None:
    """Their sum is as wide as they are."""
    with jax.enable_x64(True):
        x = np.asarray([2**40, 2**40 + 2], "int64")
        v = var(x)
        assert evaluate(call("mean", v), {v: jnp.asarray(x)}) == 2**40 + 1
