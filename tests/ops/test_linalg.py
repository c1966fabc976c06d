"""`R.linalg`: what it refuses, and where it has no derivative."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from parsing import parse_flow
from refusals import t

import relaxjax
from relaxjax import IRModule, to_jax
from relaxjax.ir import SymbolicVar, TensorType, Var
from relaxjax.ir.op import get_op
from relaxjax.ops import OpError
from relaxjax.passes import Gradient


def call(name: str, *args: Any, **attrs: Any) -> Any:
    return get_op(f"relax.linalg.{name}")(*args, **attrs)


n, m = SymbolicVar("n"), SymbolicVar("m")


@pytest.mark.parametrize(
    ("refused", "message"),
    [
        (lambda: call("inv", t(3)), "`x` must have at least 2 dimensions, found 1"),
        (lambda: call("svd", t()), "`x` must have at least 2 dimensions, found 0"),
        (lambda: call("det", t(2, 3)), "`x` must hold square matrices, but its shape is .2, 3."),
        (lambda: call("cholesky", t(2, 2, dtype="int32")), "must have a float dtype, found int32"),
        (lambda: call("norm", t(2, dtype="int32")), "must have a float dtype, found int32"),
        (lambda: call("solve", t(2, 2), t(2)), "`b` must have at least 2 dimensions, found 1"),
        (lambda: call("solve", t(2, 2), t(1, 2, 2)), "number of dimensions, found 2 and 3: give a"),
        (lambda: call("triangular_solve", t(2, 2), t(3, 1)), "the same dimensions but for the la"),
    ],
)
def test_what_is_refused(refused: Callable[[], Any], message: str) -> None:
    with pytest.raises(OpError, match=message):
        refused()


def test_sizes_may_be_symbols() -> None:
    assert call("det", t(4, n, n)).ty == TensorType((4,), "float32")
    assert call("eigh", t(n, n)).ty.fields[0] == TensorType((n,), "float32")
    assert call("solve", t(n, n), t(n, m)).ty == TensorType((n, m), "float32")
    q, r = call("qr", t(n, 3)).ty.fields
    assert q.dims[0] == n
    assert r.dims[1] == 3
    unknown = Var("x", TensorType(None, "float32"))
    for name in ("det", "slogdet", "eigh", "svd", "qr", "inv"):
        assert call(name, unknown).ty is not None


def test_q_and_r_of_a_matrix_with_more_columns_have_no_gradient() -> None:
    module = parse_flow("q = R.linalg.qr(x)[0]\ns = R.sum(q)", x=(2, 3))
    with pytest.raises(ValueError, match="no gradient where `x` may have more columns than rows"):
        Gradient("main")(module)


def test_the_gradient_of_a_log_likelihood_is_that_of_jax() -> None:
    """Of a normal distribution, by a factor of its covariance."""
    body = """
        factor = R.linalg.cholesky(c)
        white = R.linalg.triangular_solve(factor, x)
        length = R.linalg.norm(white)
        sizes = R.linalg.slogdet(c)
        s = length * length + sizes[1]
    """

    def plain(c: Any, x: Any) -> Any:
        white = jax.scipy.linalg.solve_triangular(jax.numpy.linalg.cholesky(c), x, lower=True)
        return (white * white).sum() + jax.numpy.linalg.slogdet(c)[1]

    rng = np.random.default_rng(0)
    half = rng.normal(size=(4, 4)).astype("float32")
    given = half @ half.T + np.eye(4, dtype="float32"), rng.normal(size=(4, 2)).astype("float32")
    adjoint = Gradient("main")(parse_flow(body, c=(4, 4), x=(4, 2)))
    _, found = to_jax(adjoint, "main_adjoint")(*given)
    for one, other in zip(found, jax.grad(plain, (0, 1))(*given), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5)


def test_the_gradient_of_the_length_of_a_vector_of_zeros_is_zero() -> None:
    adjoint = Gradient("main")(parse_flow("s = R.linalg.norm(x)", x=(3,)))
    _, (found,) = to_jax(adjoint, "main_adjoint")(np.zeros(3, "float32"))
    assert not np.asarray(found).any()


def test_the_gradient_of_the_length_of_what_is_no_number_is_none_either() -> None:
    module = parse_flow("y = R.linalg.norm(x, axis=[1])\ns = R.sum(y)", x=(2, 2))
    adjoint = Gradient("main")(module)
    given = np.array([[np.nan, 1], [3, 4]], "float32")
    _, (found,) = to_jax(adjoint, "main_adjoint")(given)
    assert np.isnan(found[0]).all()
    np.testing.assert_allclose(found[1], [0.6, 0.8], rtol=1e-6)


def cubes_of(name: str, field: int) -> IRModule:
    """The sum of the cubes of what a factorization gives in one field."""
    body = f"z = R.linalg.{name}(x)\nagain = z\ny = again[{field}]\ns = R.sum(y * y * y)"
    return parse_flow(body, x=(3, 3))


BY_JAX: dict[str, Callable[[jax.Array], Any]] = {
    "eigh": jnp.linalg.eigh,
    "svd": lambda x: jnp.linalg.svd(x, full_matrices=False),
}


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize(("name", "field"), [("eigh", 0), ("svd", 1)])
def test_equal_values_have_a_gradient(name: str, field: int, lazy: bool) -> None:
    """Of the values alone, it is finite: nothing came back to the vectors, which have none."""
    x = np.diag(np.array([2, 2, 1], "float32"))
    adjoint = Gradient("main", lazy=lazy)(cubes_of(name, field))
    _, (found,) = to_jax(adjoint, "main_adjoint")(x)
    expected = jax.grad(lambda x: jnp.sum(BY_JAX[name](x)[field] ** 3))(x)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["eigh", "svd"])
def test_equal_values_have_a_gradient_in_a_function_of_jax(name: str) -> None:
    def loss(x: jax.Array) -> jax.Array:
        return jnp.sum(BY_JAX[name](x @ x.T)[name == "svd"] ** 2)

    x = np.eye(3, dtype="float32")
    for differentiated in (relaxjax.grad(loss), jax.jit(relaxjax.grad(loss))):
        found = differentiated(x)
        np.testing.assert_allclose(found, jax.grad(loss)(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("name", "field"), [("eigh", 1), ("svd", 0), ("svd", 2)])
def test_where_values_are_equal_the_gradient_of_a_factorization_is_not_finite(
    name: str, field: int
) -> None:
    adjoint = Gradient("main")(cubes_of(name, field))
    x = np.eye(3, dtype="float32")
    _, (found,) = to_jax(adjoint, "main_adjoint")(x)
    expected = jax.grad(lambda x: jnp.sum(BY_JAX[name](x)[field] ** 3))(x)
    assert not np.isfinite(found).all()
    assert not np.isfinite(expected).all()
