"""The keywords of JAX's `value_and_grad`: integers are passed over, other numbers are refused."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import relaxjax

PARAMS = {
    "places": np.array([2, 0]),
    "table": np.linspace(-1.0, 1.0, 6, dtype="float32").reshape(3, 2),
    "used": np.array([True, False]),
    "keys": jax.random.split(jax.random.key(0)),
}


def loss(params: Any, scale: Any) -> Any:
    rows = params["table"][params["places"]] + jax.random.uniform(params["keys"][1], (2, 2))
    return jnp.sum(jnp.where(params["used"][:, None], rows, 0.0) ** 3) * scale


@pytest.mark.parametrize("argnums", [0, (1, 0)])
def test_integers_are_passed_over_as_in_jax(argnums: Any) -> None:
    options = {"argnums": argnums, "allow_int": True}
    found = jax.jit(relaxjax.value_and_grad(loss, **options))(PARAMS, 2.0)
    expected = jax.jit(jax.value_and_grad(loss, **options))(PARAMS, 2.0)
    assert jax.tree.map(jnp.shape, found) == jax.tree.map(jnp.shape, expected)
    of_floats = [
        (ours, theirs)
        for ours, theirs in zip(*map(jax.tree.leaves, (found, expected)), strict=True)
        if theirs.dtype != jax.dtypes.float0
    ]
    chex.assert_trees_all_close(*zip(*of_floats, strict=True), rtol=1e-6)
    assert [leaf.dtype for leaf in jax.tree.leaves(found)] == [
        leaf.dtype for leaf in jax.tree.leaves(expected)
    ]


@pytest.mark.parametrize("count", [3, True])
def test_there_may_be_nothing_but_integers(count: Any) -> None:
    found = relaxjax.grad(lambda n, x: x * n, allow_int=True)(count, 2.0)
    assert found.dtype == jax.dtypes.float0
    assert found.shape == ()


def test_without_the_keyword_the_error_names_it() -> None:
    message = "is of dtype %s.*: leave it out of `argnums`, or pass over integers and keys by `all"
    with pytest.raises(TypeError, match=r"`params\['places'\]` " + message % "int"):
        relaxjax.grad(loss)({**PARAMS, "keys": None}, 2.0)
    with pytest.raises(TypeError, match="`key` " + message % "key<fry>"):
        relaxjax.grad(lambda key: 1.0)(jax.random.key(0))


def test_what_is_no_number_stays_an_error() -> None:
    match = r"`x` is 'mean' of type str: leave it out of `argnums`, or "
    with pytest.raises(TypeError, match=match):
        relaxjax.grad(lambda x: 1.0, allow_int=True)("mean")


def test_a_holomorphic_function_has_the_derivative_of_its_real_part() -> None:
    with pytest.raises(ValueError, match="`holomorphic=True` is not taken: take the gradient of"):
        relaxjax.grad(jnp.sin, holomorphic=True)
    z = jnp.complex64(0.3 + 0.4j)
    ours = relaxjax.grad(lambda z: jnp.real(jnp.sin(z)))(z)
    chex.assert_trees_all_close(ours, jax.grad(jnp.sin, holomorphic=True)(z), rtol=1e-6)


@pytest.mark.parametrize("of", ["words", "objects", "dates", "swapped bytes"])
def test_arrays_that_jax_does_not_take_stay_as_they_are(of: str) -> None:
    given: dict[str, Any] = {
        "words": np.array(["sum", "mean"]),
        "objects": np.array([None, len], object),
        "dates": np.array(["2020-01-01"], "datetime64[D]"),
        "swapped bytes": np.ones(3, np.dtype("float32").newbyteorder()),
    }

    def loss(x: Any, beside: Any) -> Any:
        assert beside is given[of]
        return jnp.sum(x**2), beside

    (value, beside), gradient = relaxjax.value_and_grad(loss, has_aux=True)(
        np.ones(2, "float32"), given[of]
    )
    assert beside is given[of]
    assert (float(value), gradient.tolist()) == (2, [2, 2])
