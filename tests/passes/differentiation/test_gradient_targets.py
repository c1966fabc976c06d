"""Targets of the gradient that are given a cotangent, and several of them."""

import chex
import jax
import jax.numpy as jnp
import pytest
from adjoint_checks import array
from parsing import parse_flow, parse_functions, parse_main

from relaxjax import from_source, to_jax
from relaxjax.ir import assert_structural_equal, well_formed
from relaxjax.passes.differentiation.gradient import Gradient, GradientError

VECTOR = parse_flow(
    "y = R.exp(x)\nz = R.matmul(w, y)\ns = R.sum(y)\nreturn (z, s, y)", x=(3,), w=(2, 3)
)


def test_a_vector_target_takes_its_cotangent_as_a_parameter() -> None:
    adjoint = Gradient("main", cotangent=True)(VECTOR)
    assert [p.name for p in adjoint["main_adjoint"].params] == ["x", "w", "z_cotangent"]
    x, w, g = array(3), array(2, 3), array(2, seed=3)
    _, gradients = to_jax(adjoint, "main_adjoint")(x, w, g)
    _, pullback = jax.vjp(lambda x, w: w @ jnp.exp(x), x, w)
    chex.assert_trees_all_close(gradients, pullback(g), rtol=1e-5)


def test_a_cotangent_takes_the_dimensions_that_the_body_defines_there() -> None:
    """The parameter cannot name them."""
    module = parse_functions("""
    @R.function
    def main(x: R.Tensor("float32"), y: R.Tensor(("n",), "float32")):
        m, n = T.int64(), T.int64()
        with R.dataflow():
            a = R.match_cast(x, R.Tensor((m, 2), "float32"))
            b = R.exp(R.reshape(a, (2 * m,)))
            c = R.sin(y)
            R.output(b, c)
        return (b, c)
""")
    adjoint = Gradient("main", target_index=[0, 1], cotangent=True)(module)
    well_formed(adjoint)
    assert_structural_equal(from_source(adjoint.script()), adjoint)
    types = [str(param.ty) for param in adjoint["main_adjoint"].params[2:]]
    assert types == ['R.Tensor(dtype="float32", ndim=1)', 'R.Tensor((n,), dtype="float32")']
    x, y, g, h = array(3, 2), array(4), array(6, seed=3), array(4, seed=4)
    _, gradients = to_jax(adjoint, "main_adjoint")(x, y, g, h)
    chex.assert_trees_all_close(
        gradients, (jnp.exp(x) * g.reshape(3, 2), jnp.cos(y) * h), rtol=1e-5
    )


def test_several_targets_have_a_cotangent_each() -> None:
    adjoint = Gradient("main", target_index=[0, 2], cotangent=True)(VECTOR)
    x, w, g, h = array(3), array(2, 3), array(2, seed=3), array(3, seed=4)
    _, gradients = to_jax(adjoint, "main_adjoint")(x, w, g, h)
    _, pullback = jax.vjp(lambda x, w: (w @ jnp.exp(x), jnp.exp(x)), x, w)
    chex.assert_trees_all_close(gradients, pullback((g, h)), rtol=1e-5)


def test_the_cotangents_of_one_variable_have_names_of_their_own() -> None:
    module = parse_main("y = R.sin(x)\nreturn (y, y)", x=(3,))
    adjoint = Gradient("main", target_index=[0, 1], cotangent=True)(module)
    names = [param.name for param in adjoint["main_adjoint"].params]
    assert names == ["x", "y_cotangent", "y_cotangent1"]
    x, g, h = array(3), array(3, seed=3), array(3, seed=4)
    _, gradients = to_jax(adjoint, "main_adjoint")(x, g, h)
    chex.assert_trees_all_close(gradients, (jnp.cos(x) * (g + h),), rtol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target_index": []}, r"must name one target or several, found \[\]"),
        ({"target_index": [1, 1]}, r"must name one target or several, found \[1, 1\]"),
        ({"target_index": 0}, "write `cotangent=True` for other targets"),
    ],
)
def test_targets_that_cannot_be(options: dict[str, object], message: str) -> None:
    with pytest.raises(GradientError, match=message):
        Gradient("main", **options)(VECTOR)  # type: ignore[arg-type]  # options of several kinds


def test_a_target_with_a_cotangent_must_be_of_floats() -> None:
    module = parse_main("i = R.argmax(x)\nreturn i", x=(3,))
    with pytest.raises(GradientError, match="a target with a cotangent must be a tensor of float"):
        Gradient("main", cotangent=True)(module)
