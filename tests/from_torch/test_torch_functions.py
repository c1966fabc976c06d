"""Functions of complex numbers, reflections, checked linear algebra and others, beside numpy."""

import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from aten_results import slopes, value
from jax import lax
from jax import numpy as jnp
from jax.scipy.special import gammainc, gammaincc, ndtri, zeta

from relaxjax.ir.dims import SymbolicVar
from relaxjax.ir.expr import Constant, Expr, Var
from relaxjax.ir.types import TensorType
from relaxjax.ops import OpError
from relaxjax.torch.aten import TABLE
from relaxjax.torch.aten.promotion import default_dtype, defaulting_to, result_dtype
from relaxjax.torch.aten.table import functional

RANDOM = np.random.default_rng(3)
PARTS: Any = RANDOM.normal(size=(4, 2)) * 0.7
X: Any = RANDOM.normal(size=(4, 4)) + 2 * np.eye(4)
pytestmark = pytest.mark.usefixtures("in_64_bits")


def rule(name: str) -> Callable[..., Any]:
    return TABLE[f"aten.{name}"].rule


def parts_of(function: Callable[[Expr], Expr]) -> Callable[[Expr], Expr]:
    """A function of complex numbers on pairs of real ones."""
    return lambda x: rule("view_as_real.default")(function(rule("view_as_complex.default")(x)))


COMPLEX: dict[str, Callable[[Any], Any]] = {
    "acos": jnp.arccos, "acosh": jnp.arccosh, "asin": jnp.arcsin, "asinh": jnp.arcsinh,
    "atan": jnp.arctan, "atanh": jnp.arctanh, "cos": jnp.cos, "cosh": jnp.cosh, "exp": jnp.exp,
    "exp2": lambda z: jnp.exp(z * math.log(2)), "expm1": jnp.expm1, "log": jnp.log,
    "log10": jnp.log10, "log1p": jnp.log1p, "log2": lambda z: jnp.log(z) / math.log(2),
    "rsqrt": lambda z: 1 / jnp.sqrt(z), "sigmoid": lambda z: 1 / (1 + jnp.exp(-z)),
    "sin": jnp.sin, "sinc": lambda z: jnp.sin(np.pi * z) / (np.pi * z), "sinh": jnp.sinh,
    "sqrt": jnp.sqrt, "tan": jnp.tan, "tanh": jnp.tanh,
    "sgn": lambda z: z / lax.complex(jnp.abs(z), jnp.zeros(z.shape)),
}  # fmt: skip


@pytest.mark.parametrize("name", COMPLEX)
def test_a_function_of_complex_numbers(name: str) -> None:
    def theirs(parts: Any) -> Any:
        found = COMPLEX[name](lax.complex(parts[..., 0], parts[..., 1]))
        return jnp.stack([found.real, found.imag], -1)

    ours = parts_of(rule(f"{name}.default"))
    np.testing.assert_allclose(value(ours, PARTS), theirs(PARTS), rtol=1e-9)
    wanted = jax.grad(lambda x: theirs(x).sum())(jnp.asarray(PARTS))
    np.testing.assert_allclose(slopes(ours, PARTS)[0], wanted, rtol=1e-8)


@pytest.mark.parametrize("power", [3.5, -2, 0.5, -0.5, 1.5 + 1j])
def test_a_power_of_complex_numbers(power: complex) -> None:
    found = value(parts_of(lambda z: rule("pow.Tensor_Scalar")(z, power)), PARTS)
    wanted = (PARTS[:, 0] + 1j * PARTS[:, 1]) ** power
    np.testing.assert_allclose(found[:, 0] + 1j * found[:, 1], wanted, rtol=1e-9)


def test_near_and_at_zero() -> None:
    zero = np.array([[0.0, 0.0], [1e-5, -1e-5]])
    found = value(parts_of(rule("sinc.default")), zero)
    np.testing.assert_allclose(found, [[1, 0], [1, 0]], atol=1e-9)
    assert np.isfinite(slopes(parts_of(rule("sinc.default")), zero)[0]).all()
    for name in ("sgn", "angle", "abs"):

        def sums(x: Expr, name: str = name) -> Any:
            return rule(f"{name}.default")(rule("view_as_complex.default")(x))

        both = parts_of(rule("sgn.default")) if name == "sgn" else sums
        np.testing.assert_array_equal(slopes(both, zero[:1])[0], [[0, 0]])


@pytest.mark.parametrize(("order", "wanted"), [(2, 2), (1, 1), (3, 3), (math.inf, math.inf)])
def test_a_norm_of_complex_numbers(order: float, wanted: float) -> None:
    numbers = PARTS[:, 0] + 1j * PARTS[:, 1]

    def ours(x: Expr) -> Any:
        return rule("linalg_vector_norm.default")(rule("view_as_complex.default")(x), order)

    np.testing.assert_allclose(value(ours, PARTS), np.linalg.norm(numbers, wanted), rtol=1e-9)
    wide = value(lambda x: rule("var.correction")(rule("view_as_complex.default")(x)), PARTS)
    np.testing.assert_allclose(wide, np.var(numbers, ddof=1), rtol=1e-9)


def test_dtypes_beside_complex_numbers() -> None:
    narrow = Constant(np.zeros(2, "float32"))
    assert result_dtype(narrow, 1j) == "complex64"
    assert result_dtype(narrow, Constant(np.zeros((), "complex128"))) == "complex64"
    assert result_dtype(Constant(np.zeros(2)), 1j) == "complex128"
    assert value(lambda x: rule("float_power.Tensor_Scalar")(x, 1j), PARTS).dtype == "complex128"


def test_a_product_of_reflections() -> None:
    """What LAPACK gives for a matrix are the reflections whose product is its orthonormal part."""
    raw, scales = np.linalg.qr(X[:, :3], mode="raw")
    wanted, _ = np.linalg.qr(X[:, :3])
    product = rule("linalg_householder_product.default")
    columns = np.ascontiguousarray(raw.T)
    np.testing.assert_allclose(value(product, columns, scales), wanted, atol=1e-12)
    np.testing.assert_allclose(value("orgqr.default", columns, scales), wanted, atol=1e-12)
    stack = np.stack([columns, columns])
    np.testing.assert_allclose(value(product, stack, np.stack([scales] * 2))[1], wanted, atol=1e-12)
    found: Any = slopes(product, columns, scales)
    both: list[Any] = [columns, scales]
    for place, given in enumerate(both):
        for index in np.ndindex(given.shape):
            step = np.zeros_like(given)
            step[index] = 1e-6
            pair = [list(both), list(both)]
            pair[0][place], pair[1][place] = given + step, given - step
            high, low = (value(product, *one).sum() for one in pair)
            np.testing.assert_allclose(found[place][index], (high - low) / 2e-6, atol=1e-6)


def test_matrices_as_tensors() -> None:
    stack = RANDOM.normal(size=(4, 2, 2, 4))
    matrix = stack.reshape(8, 8)
    found = value("linalg_tensorinv.default", stack, ind=2)
    np.testing.assert_allclose(found.reshape(8, 8), np.linalg.inv(matrix), rtol=1e-8)
    right = RANDOM.normal(size=(4, 2))
    wanted = np.linalg.tensorsolve(stack, right)
    np.testing.assert_allclose(value("linalg_tensorsolve.default", stack, right), wanted, rtol=1e-8)
    turned = np.moveaxis(stack, 3, 0)
    wanted = np.linalg.tensorsolve(turned, right.T, (0,))
    found = value("linalg_tensorsolve.default", turned, right.T, dims=[0])
    np.testing.assert_allclose(found, wanted, rtol=1e-8)


def test_linear_algebra_that_tells_whether_it_succeeded() -> None:
    lower = X @ X.T
    pairs: list[tuple[str, tuple[Any, ...], Any]] = [
        ("linalg_inv_ex.default", (X,), np.linalg.inv(X)),
        ("linalg_cholesky_ex.default", (lower,), np.linalg.cholesky(lower)),
        ("linalg_solve_ex.default", (X, X[:, 0]), [1, 0, 0, 0]),
        ("_linalg_solve_ex.default", (X, X), np.eye(4)),
        ("_linalg_det.default", (X,), np.linalg.det(X)),
        ("_linalg_slogdet.default", (X,), np.linalg.slogdet(X)[0]),
        ("triangular_solve.default", (X, np.triu(X)), np.linalg.solve(np.triu(X), X)),
    ]
    for name, given, wanted in pairs:
        np.testing.assert_allclose(value(name, *given), wanted, atol=1e-9)
    for name, last in (("linalg_inv_ex.default", 1), ("linalg_lu_factor_ex.default", 2)):
        for matrix, told in ((X, 0), (np.full((2, 2), np.nan), 1), (np.zeros((0, 0)), 0)):
            found = value(lambda x, name=name, last=last: rule(name)(x)[last], matrix)
            assert (found, found.dtype) == (told, "int32")


def test_a_matrix_without_rows() -> None:
    nothing = np.zeros((2, 0, 0))
    np.testing.assert_array_equal(value("linalg_det.default", nothing), [1, 1])
    np.testing.assert_array_equal(value("logdet.default", nothing), [0, 0])
    np.testing.assert_array_equal(value("linalg_slogdet.default", nothing), [1, 1])


def test_a_solution_from_the_right() -> None:
    found = value("linalg_solve.default", X, X[:2], left=False)
    np.testing.assert_allclose(found @ X, X[:2], atol=1e-12)


def test_whole_numbers() -> None:
    x, y = np.array([12, 0, -8, 7]), np.array([18, 5, 12, 0])
    np.testing.assert_array_equal(value("gcd.default", x, y), np.gcd(x, y))
    np.testing.assert_array_equal(value("lcm.default", x, y), np.lcm(x, y))


def test_shares_of_the_gamma_function() -> None:
    order, bound = np.array([[0.5], [2.0]]), np.array([[0.3, 1.0, 4.0]])
    for name, theirs in (("igamma.default", gammainc), ("special_gammaincc.default", gammaincc)):
        found = value(name, order, bound)
        np.testing.assert_allclose(found, theirs(order, bound), rtol=1e-9)
        wanted = jax.grad(lambda y, f=theirs: f(order, y).sum())(jnp.asarray(bound))
        np.testing.assert_allclose(slopes(name, order, bound)[1], wanted, rtol=1e-8)


def test_a_softmax_of_rows_that_are_out() -> None:
    x = np.array([[1.0, 2.0, -np.inf], [-np.inf] * 3])
    found = value("_safe_softmax.default", x, dim=-1)
    np.testing.assert_allclose(found[0], [1 / (1 + np.e), np.e / (1 + np.e), 0])
    np.testing.assert_array_equal(found[1], [0, 0, 0])
    assert np.isfinite(slopes("_safe_softmax.default", x, dim=-1)[0]).all()


@pytest.mark.parametrize("right", [False, True])
def test_a_search_in_several_rows(right: bool) -> None:
    rows = np.sort(RANDOM.integers(0, 9, (3, 5)).astype("float64"), 1)
    values = RANDOM.integers(0, 9, (3, 4)).astype("float64")
    side: Any = "right" if right else "left"
    pairs = zip(rows, values, strict=True)
    wanted = [np.searchsorted(one, other, side=side) for one, other in pairs]
    found = value("searchsorted.Tensor", rows, values, right=right, out_int32=True)
    np.testing.assert_array_equal(found, wanted)
    assert found.dtype == "int32"
    mixed = RANDOM.permuted(rows, axis=1)
    sorter = Constant(np.argsort(mixed, 1))
    given = value(
        lambda x, y: rule("searchsorted.Tensor")(x, y, right=right, sorter=sorter), mixed, values
    )
    np.testing.assert_array_equal(given, wanted)
    assert value(lambda x: rule("searchsorted.Scalar")(x, 100.0), rows[0]) == 5


@pytest.mark.parametrize("reduce", ["prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
def test_rows_that_are_written_together(reduce: str, include_self: bool) -> None:
    base, source = np.abs(X), np.abs(RANDOM.normal(size=(3, 4)))
    index = Constant(np.array([2, 0, 2]))
    combine: Any = {"prod": np.prod, "mean": np.mean, "amax": np.max, "amin": np.min}[reduce]
    wanted = base.copy()
    for row, places in ((0, [1]), (2, [0, 2])):
        written = source[places] if not include_self else [base[row], *source[places]]
        wanted[row] = combine(written, 0)

    def ours(x: Expr, y: Expr) -> Any:
        return rule("index_reduce.default")(x, 0, index, y, reduce, include_self)

    np.testing.assert_allclose(value(ours, base, source), wanted, rtol=1e-9)


def test_places_that_a_mask_leaves_out() -> None:
    mask, places = Constant(np.array([True, False, True])), Constant(np.array([3, 99, 0]))

    def ours(x: Expr) -> Any:
        return rule("_unsafe_masked_index.default")(x, mask, [places], 7)

    np.testing.assert_array_equal(value(ours, np.arange(4.0)), [3, 7, 0])
    np.testing.assert_array_equal(slopes(ours, np.arange(4.0))[0], [1, 0, 0, 1])


def test_numbers_at_equal_distances() -> None:
    def ours(name: str, *given: Any) -> Any:
        return value(lambda x: rule(name)(*given, dtype="float64"), X)

    np.testing.assert_array_equal(ours("linspace.default", 2, 3, 1), [2])
    np.testing.assert_allclose(ours("logspace.default", -1, 2, 7), np.logspace(-1, 2, 7))
    found = ours("logspace.default", 0, 3, 4, 2.0)
    np.testing.assert_allclose(found, [1, 2, 4, 8])


END = np.array(3.0, "float32")


@pytest.mark.parametrize(
    ("name", "ends", "options", "wanted"),
    [
        ("linspace.Tensor_Tensor", (X[0, 0], END), {}, np.linspace(X[0, 0], 3, 5)),
        ("linspace.Tensor_Scalar", (END, -1), {"dtype": "float16"}, np.linspace(3, -1, 5)),
        ("linspace.Scalar_Tensor", (1, END), {}, np.linspace(1, 3, 5)),
        ("logspace.Scalar_Tensor", (0, END), {"base": 2.0}, np.logspace(0, 3, 5, base=2)),
    ],
)
def test_ends_that_are_tensors(name: str, ends: Any, options: dict[str, Any], wanted: Any) -> None:
    """They are constants to the gradient, as in PyTorch."""
    tensors = [np.asarray(one) for one in ends if not isinstance(one, int)]
    is_tensor = [not isinstance(one, int) for one in ends]

    def rule(*given: Any) -> Any:
        left = iter(given)
        filled = (next(left) if flag else one for one, flag in zip(ends, is_tensor, strict=True))
        return TABLE[f"aten.{name}"].rule(*filled, 5, **options)

    np.testing.assert_allclose(value(rule, *tensors), wanted, rtol=2e-3 if options else 1e-6)
    assert not np.any(slopes(rule, *tensors))


def test_one_number_is_the_start_that_a_tensor_is() -> None:
    rule = TABLE["aten.linspace.Tensor_Tensor"].rule
    np.testing.assert_array_equal(value(lambda *ends: rule(*ends, 1), END, END + 1), [3])


@pytest.mark.parametrize("mode", ["replicate", "reflect"])
def test_what_is_cut_off_is_repeated(mode: str) -> None:
    numpy_mode: Any = {"replicate": "edge", "reflect": "reflect"}[mode]
    x = np.arange(8.0).reshape(1, 2, 4)
    wanted = np.pad(x, [(0, 0), (0, 0), (0, 3)], numpy_mode)[..., 3:]
    np.testing.assert_array_equal(value("pad.default", x, pad=[-3, 3], mode=mode), wanted)


def test_what_stands_at_the_other_end_of_what_is_left() -> None:
    found = value("pad.default", np.arange(5.0)[None], pad=[-2, 2], mode="circular")
    np.testing.assert_array_equal(found, [[2, 3, 4, 2, 3]])


def test_scalars_where_rows_are_taken() -> None:
    label = Constant(np.array(0))
    found = value(lambda x: rule("multi_margin_loss.default")(x, label), np.array(2.0))
    assert found.shape == ()
    grids = value(lambda x: rule("meshgrid.default")([x, x])[0], np.array(2.0))
    assert grids.shape == (1, 1)
    places = value(lambda x: rule("nonzero_static.default")(x, 3), np.array(2.0))
    assert places.shape == (3, 0)


@pytest.mark.parametrize("name", ["batch_norm", "layer_norm", "group_norm", "instance_norm"])
def test_a_norm_whose_factors_are_wider(name: str) -> None:
    x = RANDOM.normal(size=(2, 4, 3)).astype("float16")
    wide = x.astype("float32")
    factor = np.arange(1.0, 5.0, dtype="float32")

    def ours(x: Expr, factor: Expr) -> Any:
        match name:
            case "layer_norm":
                x = rule("transpose.int")(x, 1, 2)
                return rule("layer_norm.default")(x, [4], factor, factor)
            case "group_norm":
                return rule("group_norm.default")(x, 2, factor, factor)
            case "instance_norm":
                return rule("instance_norm.default")(
                    x, factor, factor, None, None, True, 0.1, 1e-5
                )[0]
        return rule("batch_norm.default")(x, factor, factor, None, None, True, 0.1, 1e-5)[0]

    found = value(ours, x, factor)
    assert found.dtype == "float16"
    np.testing.assert_allclose(found, value(ours, wide, factor), rtol=2e-3, atol=2e-3)


def test_a_default_dtype() -> None:
    assert default_dtype() == "float32"
    with defaulting_to("float64"):
        assert value(lambda x: rule("zeros.default")([2]), X).dtype == "float64"
        assert result_dtype(Constant(np.zeros(2, "int64")), 1.5) == "float64"
    assert default_dtype() == "float32"


def test_overloads_that_write_where_others_have_other_names() -> None:
    assert functional("aten.floor_divide_.Tensor") == "aten.floor_divide.default"
    assert functional("aten.relu_.default") == "aten.relu.default"


def test_whole_numbers_where_halves_are_taken() -> None:
    x = np.array([1, 4, 6])
    assert value("trapz.dx", x) == np.trapezoid(x)
    assert value("margin_ranking_loss.default", x, x, x, margin=0.5) == 0.5


def test_the_first_row_of_a_table_may_be_left_as_it_is() -> None:
    rows = Constant(np.array([0, 2, 0]))
    found = slopes(lambda x: rule("embedding.default")(x, rows, padding_idx=0), np.ones((3, 2)))
    np.testing.assert_array_equal(found[0], [[0, 0], [0, 0], [1, 1]])


@pytest.mark.parametrize("place", [1, 2])
def test_statistics_of_a_norm_whose_factors_are_wider(place: int) -> None:
    x = RANDOM.normal(size=(2, 4, 3)).astype("float16")
    factor = Constant(np.ones(3, "float32"))
    found = value(lambda x: rule("native_layer_norm.default")(x, [3], factor, None, 0.5)[place], x)
    wide = x.astype("float32")
    wanted = [wide.mean(-1), 1 / np.sqrt(wide.var(-1) + 0.5)][place - 1]
    np.testing.assert_allclose(found[..., 0], wanted, rtol=1e-5, atol=1e-6)
    other = Constant(np.ones(4, "float32"))
    norm = rule("_native_batch_norm_legit.no_stats")
    assert value(lambda x: norm(x, other, None, True, 0.1, 0.5)[place], x).dtype == "float32"


def test_truth_values_are_squared_as_numbers_and_added_as_truths() -> None:
    x, index = np.array([True, False, False]), Constant(np.array([0, 2]))
    found = value("square.default", x)
    assert (found.tolist(), found.dtype) == ([1, 0, 0], "int64")
    both = value(lambda x, y: rule("index_add.default")(x, 0, index, y, True), x, ~x[:2])
    np.testing.assert_array_equal(both, [True, False, True])


@pytest.mark.parametrize(
    ("shapes", "dim"),
    [
        (((1, 2, 3), (2, 1, 3)), -2),
        (((2, 3, 4), (3, 4)), 1),
        (((2, 3, 4), (4,)), 1),
        (((2, 1), (2, 3)), 1),
        (((5, 1, 4), (1, 3, 4)), -1),
    ],
)
def test_a_cosine_along_an_axis_of_what_both_are_repeated_to(shapes: Any, dim: int) -> None:
    """Lengths were those before the axis was repeated, which made the cosine too large."""
    pair = [RANDOM.normal(size=shape) for shape in shapes]
    one, other = np.broadcast_arrays(*pair)
    wanted = (one * other).sum(dim) / np.linalg.norm(one, axis=dim)
    wanted = wanted / np.linalg.norm(other, axis=dim)
    found = value(lambda x, y: rule("cosine_similarity.default")(x, y, dim=dim), *pair)
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


def test_powers_of_numbers() -> None:
    x = np.array([2.0, 0.0, -1.5])
    np.testing.assert_allclose(value("vander.default", x), np.vander(x))
    wanted = np.vander(x, 2, increasing=True)
    np.testing.assert_allclose(value("vander.default", x, N=2, increasing=True), wanted)
    assert value("vander.default", x, N=0).shape == (3, 0)
    assert value("vander.default", np.array([2, 3], "int32"), N=0).dtype == "int64"
    found = value("linalg_vander.default", np.array([2, 3], "int32"))
    assert (found.tolist(), found.dtype) == ([[1, 2], [1, 3]], "int64")
    (slope,) = slopes("linalg_vander.default", x, N=4)
    np.testing.assert_allclose(slope, 1 + 2 * x + 3 * x * x)
    with pytest.raises(ValueError, match="the first n powers, how many is not known: give `N`"):
        rule("linalg_vander.default")(Var("x", TensorType((SymbolicVar("n"),), "float64")))


def test_below_which_number_a_share_of_a_normal_distribution_is() -> None:
    shares = np.array([1e-30, 0.01, 0.3, 0.5, 0.9])
    np.testing.assert_allclose(value("special_ndtri.default", shares), ndtri(shares), rtol=1e-12)
    (slope,) = slopes("special_ndtri.default", shares)
    np.testing.assert_allclose(slope, math.sqrt(2 * np.pi) * np.exp(ndtri(shares) ** 2 / 2))
    ends = np.array([0.0, 1.0])
    np.testing.assert_array_equal(value("special_ndtri.default", ends), [-np.inf, np.inf])
    np.testing.assert_array_equal(slopes("special_ndtri.default", ends)[0], [np.inf, np.inf])
    assert value("special_ndtri.default", np.array([0.3], "float16")).dtype == "float16"


def test_zeta_functions() -> None:
    x, q = np.array([1.5, 2.0, 7.0]), np.array([0.3, 1.0, 4.0])
    np.testing.assert_allclose(value("special_zeta.default", x, q), zeta(x, q), rtol=1e-12)
    for power in (2.5, 3):
        found = value(lambda q, power=power: rule("special_zeta.self_scalar")(power, q), q)
        np.testing.assert_allclose(found, zeta(power, q), rtol=1e-12)
    (slope,) = slopes(lambda q: rule("special_zeta.self_scalar")(3.0, q), q)
    np.testing.assert_allclose(slope, -3 * zeta(4, q), rtol=1e-12)
    with pytest.raises(OpError, match=r"lax\.zeta: JAX has no gradient of it"):
        slopes("special_zeta.default", x, q)
