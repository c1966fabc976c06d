"""Decompositions of matrices beside numpy, and gradients of losses that no sign changes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from aten_results import slopes, value

from relaxjax.ir.expr import Constant
from relaxjax.ops.emit import call
from relaxjax.torch.aten import TABLE
from relaxjax.torch.aten.decompositions import eigh, lu, lu_factor, lu_solve, lu_unpack, qr, svd
from relaxjax.torch.aten.exponential import matrix_exp
from relaxjax.torch.aten.matrices import cholesky_inverse, cholesky_solve

RANDOM = np.random.default_rng(0)
X: Any = RANDOM.normal(size=(3, 3))
WIDE: Any = RANDOM.normal(size=(3, 5))
STACK: Any = RANDOM.normal(size=(2, 3, 3))
SYMMETRIC: Any = X @ X.T + np.eye(3)
WEIGHTS = {shape: RANDOM.normal(size=shape) for shape in [(3, 3), (3, 5), (5, 3), (2, 3, 3)]}
numpy = np.linalg
pytestmark = pytest.mark.usefixtures("in_64_bits")


def differences(function: Callable[[Any], Any], x: Any) -> Any:
    """The gradient of the sum of a function of numpy, by differences."""
    found = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[place] = 1e-6
        found[place] = np.sum(function(x + step) - function(x - step)) / 2e-6
    return found


def weighted(x: Any) -> Any:
    """Elements times numbers of their own; of an expression, or of an array."""
    if isinstance(x, np.ndarray):
        return x * WEIGHTS[x.shape]
    return x * Constant(WEIGHTS[tuple(map(int, x.ty.dims))])


def square(x: Any) -> Any:
    return x * x


CASES: dict[str, tuple[Any, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "eigenvectors": (
        SYMMETRIC,
        lambda x: weighted(square(eigh(x)[1])),
        lambda x: weighted(numpy.eigh((x + x.T) / 2)[1] ** 2),
    ),
    "left vectors": (
        WIDE,
        lambda x: weighted(square(svd(x, False)[0])),
        lambda x: weighted(numpy.svd(x, full_matrices=False)[0] ** 2),
    ),
    "right vectors": (
        WIDE.T,
        lambda x: weighted(square(svd(x, False)[2])),
        lambda x: weighted(numpy.svd(x, full_matrices=False)[2] ** 2),
    ),
    "vectors of squares": (
        X,
        lambda x: weighted(square(svd(x)[0])),
        lambda x: weighted(numpy.svd(x)[0] ** 2),
    ),
    "vectors as columns": (
        WIDE,
        lambda x: weighted(square(TABLE["aten.svd.default"].rule(x)[2])),
        lambda x: weighted(numpy.svd(x, full_matrices=False)[2].T ** 2),
    ),
    "orthonormal columns": (
        WIDE.T,
        lambda x: weighted(square(qr(x)[0])),
        lambda x: weighted(numpy.qr(x)[0] ** 2),
    ),
    "a wide triangle": (
        WIDE,
        lambda x: weighted(square(qr(x)[1])),
        lambda x: weighted(numpy.qr(x)[1] ** 2),
    ),
    "triangles of a stack": (
        STACK,
        lambda x: weighted(square(TABLE["aten.qr.default"].rule(x)[1])),
        lambda x: weighted(numpy.qr(x)[1] ** 2),
    ),
    "a solution by triangles": (
        X,
        lambda x: weighted(lu_solve(*lu_factor(x), Constant(WIDE))),
        lambda x: weighted(numpy.solve(x, WIDE)),
    ),
    "a solution by turned triangles": (
        X,
        lambda x: weighted(lu_solve(*lu_factor(x), Constant(WIDE), adjoint=True)),
        lambda x: weighted(numpy.solve(x.T, WIDE)),
    ),
    "a solution from the right": (
        X,
        lambda x: weighted(lu_solve(*lu_factor(x), Constant(WIDE.T), left=False)),
        lambda x: weighted(numpy.solve(x.T, WIDE).T),
    ),
    "a solution as it was": (
        STACK,
        lambda x: TABLE["aten.lu_solve.default"].rule(Constant(X), *lu_factor(x)),
        lambda x: numpy.solve(x, np.stack([X, X])),
    ),
    "a solution by Cholesky": (
        np.tril(X) + 2 * np.eye(3),
        lambda x: weighted(cholesky_solve(Constant(WIDE), x)),
        lambda x: weighted(numpy.solve(np.tril(x) @ np.tril(x).T, WIDE)),
    ),
    "an inverse by Cholesky": (
        np.triu(X) + 2 * np.eye(3),
        lambda x: weighted(cholesky_inverse(x, True)),
        lambda x: weighted(numpy.inv(np.triu(x).T @ np.triu(x))),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_loss_that_no_sign_changes_is_that_of_numpy(case: str) -> None:
    x, ours, theirs = CASES[case]
    np.testing.assert_allclose(value(ours, x), theirs(x), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(slopes(ours, x)[0], differences(theirs, x), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("x", [X, WIDE, WIDE.T, STACK], ids=["square", "wide", "tall", "stack"])
def test_triangles_and_swapped_rows_are_the_matrix(x: Any) -> None:
    def product(parts: tuple[Any, ...]) -> Any:
        return call("matmul", parts[0], call("matmul", parts[1], parts[2]))

    for both in (lu, lambda x: lu_unpack(*lu_factor(x))):
        np.testing.assert_allclose(value(lambda x, f=both: product(f(x)), x), x, atol=1e-12)
        found = slopes(lambda x, f=both: weighted(product(f(x))), x)[0]
        np.testing.assert_allclose(found, WEIGHTS[x.shape], atol=1e-9)
    lower, upper = (value(lambda x, place=place: lu(x)[place], x) for place in (1, 2))
    np.testing.assert_array_equal(lower, np.tril(lower))
    np.testing.assert_array_equal(upper, np.triu(upper))


@pytest.mark.parametrize("asked", [(True, False), (False, True), (False, False)])
def test_what_is_not_asked_of_unpacking_is_empty(asked: tuple[bool, bool]) -> None:
    data, pivots = asked
    shapes = [(3, 3) if one else (0,) for one in (pivots, data, data)]
    for place, shape in enumerate(shapes):
        found = value(lambda x, place=place: lu_unpack(*lu_factor(x), *asked)[place], X)
        assert (found.shape, found.dtype) == (shape, X.dtype)


@pytest.mark.parametrize(
    ("name", "options", "is_lower"),
    [
        ("linalg_cholesky.default", {}, True),
        ("linalg_cholesky.default", {"upper": True}, False),
        ("linalg_eigvalsh.default", {}, True),
        ("linalg_eigvalsh.default", {"UPLO": "U"}, False),
    ],
)
def test_one_triangle_is_read_and_the_gradient_is_of_both(
    name: str, options: dict[str, Any], is_lower: bool
) -> None:
    half = np.tril(SYMMETRIC) if is_lower else np.triu(SYMMETRIC)
    rest = np.triu(np.full((3, 3), np.nan), 1)
    given = half + np.where(np.isnan(rest if is_lower else rest.T), 7, 0)
    wanted, slope = value(name, SYMMETRIC, **options), slopes(name, SYMMETRIC, **options)[0]
    np.testing.assert_allclose(value(name, given, **options), wanted, rtol=1e-12)
    np.testing.assert_allclose(slopes(name, given, **options)[0], slope, rtol=1e-9)
    np.testing.assert_allclose(slope, slope.T)
    unread = half + (rest if is_lower else rest.T)
    np.testing.assert_allclose(value(name, unread, **options), wanted, rtol=1e-12)


def test_vectors_of_equal_values_have_no_gradient() -> None:
    found = slopes(lambda x: weighted(square(eigh(x)[1])), np.eye(3))[0]
    assert not np.isfinite(found).all()


def test_decompositions_of_decomposed_programs_are_the_same() -> None:
    for name, ours in (("_linalg_eigh.default", eigh), ("_linalg_svd.default", svd)):
        rule = TABLE[f"aten.{name}"].rule
        found, wanted = (value(lambda x, f=f: f(x)[1], SYMMETRIC) for f in (rule, ours))
        np.testing.assert_array_equal(found, wanted)
    values = value(lambda x: TABLE["aten._linalg_svd.default"].rule(x, True, False)[1], X)
    np.testing.assert_allclose(values, numpy.svd(X)[1])


@pytest.mark.parametrize("size", [0.0, 1e-3, 1.0, 30.0])
def test_the_exponential_of_a_matrix(size: float) -> None:
    x = (SYMMETRIC - 5 * np.eye(3)) * size
    values, vectors = numpy.eigh(x)
    wanted = vectors @ np.diag(np.exp(values)) @ vectors.T
    np.testing.assert_allclose(value(matrix_exp, x), wanted, rtol=1e-9, atol=1e-13)


def test_the_gradient_of_the_exponential_of_matrices() -> None:
    def theirs(x: Any) -> Any:
        """By the series, which is long enough for numbers as small as these."""
        total = term = np.broadcast_to(np.eye(3), x.shape)
        for order in range(1, 40):
            term = term @ x / order
            total = total + term
        return weighted(np.array(total))

    found = slopes(lambda x: weighted(matrix_exp(x)), STACK)[0]
    np.testing.assert_allclose(found, differences(theirs, STACK), rtol=1e-6, atol=1e-6)
    narrow = slopes(lambda x: matrix_exp(x), STACK.astype("float32"))[0]
    np.testing.assert_allclose(narrow, slopes(lambda x: matrix_exp(x), STACK)[0], rtol=1e-4)


def test_the_exponential_of_what_is_too_large_is_no_number() -> None:
    assert np.isnan(value(matrix_exp, np.eye(2) * -1e6)).all()


def test_a_gradient_of_16_bits_is_computed_in_32() -> None:
    x = np.array([[0.5, 0], [0, 1]], "float16")
    assert value(matrix_exp, x).dtype == "float16"
    np.testing.assert_allclose(value(matrix_exp, x), np.diag(np.exp([0.5, 1])), rtol=1e-3)
