"""JAX differentiates functions of a module by the rules that CustomGradient gave them."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from parsing import parse_functions
from written_programs import written

import relaxjax
from relaxjax import IRModule, to_jax
from relaxjax.passes import CustomGradient, Gradient, Jvp

X = np.linspace(-2.0, 2.0, 6, dtype="float32").reshape(2, 3)
ROUNDED = parse_functions("""
    @R.function(private=True)
    def rounded(x: R.Tensor((2, 3), "float32"), steps: R.Tensor((), "int32")):
        scale = R.astype(steps, "float32")
        y = R.round(R.multiply(x, scale))
        return (y, steps)

    @R.function
    def main(x: R.Tensor((2, 3), "float32"), steps: R.Tensor((), "int32")):
        both = Module.rounded(R.multiply(x, x), steps)
        loss = R.sum(both[0])
        return loss
""")


def gradient(x: Any, steps: Any, cotangent: Any) -> Any:
    return (cotangent[0] * 7,)


def jvp(x: Any, steps: Any, tangent: Any) -> Any:
    return (jnp.round(x * steps.astype("float32")), steps), (tangent * 7, jnp.zeros_like(steps))


@pytest.mark.parametrize(
    "rules", [{"gradient": gradient}, {"jvp": jvp}, {"gradient": gradient, "jvp": jvp}]
)
@pytest.mark.parametrize("transform", [lambda f: f, jax.jit])
def test_gradients_go_by_the_rule(rules: Any, transform: Any) -> None:
    mod = CustomGradient("rounded", **rules)(ROUNDED)
    for main in (to_jax(mod, "main"), written(mod, "main")["main"]):
        run = transform(jax.grad(main))
        chex.assert_trees_all_close(run(X, np.int32(3)), 14 * X, rtol=1e-6)
    if "gradient" in rules:
        adjoint = to_jax(Gradient("main", "x")(mod), "main_adjoint")
        chex.assert_trees_all_close(adjoint(X, np.int32(3))[1][0], 14 * X, rtol=1e-6)


def test_tangents_go_by_the_rule() -> None:
    mod = CustomGradient("rounded", jvp=jvp)(ROUNDED)
    _, moved = jax.jvp(lambda x: to_jax(mod, "main")(x, np.int32(3)), (X,), (X,))
    _, expected = to_jax(Jvp("main", "x")(mod), "main_jvp")(X, np.int32(3), X)
    chex.assert_trees_all_close(moved, expected, rtol=1e-6)
    chex.assert_trees_all_close(moved, np.sum(14 * X * X), rtol=1e-5)


def test_values_are_those_of_the_body() -> None:
    mod = CustomGradient("rounded", gradient=gradient)(ROUNDED)
    values = [to_jax(m, "main")(X, np.int32(3)) for m in (ROUNDED, mod)]
    chex.assert_trees_all_equal(*values)
    mapped = jax.vmap(to_jax(mod, "main"), (0, None))(jnp.stack([X, X]), np.int32(3))
    chex.assert_trees_all_equal(mapped, np.full(2, values[0]))


def test_shapes_and_tuples_among_the_arguments() -> None:
    mod = parse_functions("""
    @R.function(private=True)
    def shaped(pair: R.Tuple(R.Tensor((6,), "float32"), R.Tensor((6,), "int32")),
               shape: R.Shape(["n", "m"])) -> R.Tensor(("n", "m"), "float32"):
        n, m = T.int64(), T.int64()
        y = R.reshape(pair[0], R.shape([n, m]))
        return y

    @R.function(private=True)
    def rule(pair: R.Tuple(R.Tensor((6,), "float32"), R.Tensor((6,), "int32")),
             shape: R.Shape(["n", "m"]), g: R.Tensor(("n", "m"), "float32")):
        n, m = T.int64(), T.int64()
        flat = R.reshape(g, R.shape([6]))
        back = R.multiply(flat, R.const(5.0, "float32"))
        return ((back, R.zeros_like(pair[1])),)

    @R.function
    def main(x: R.Tensor((6,), "float32"), steps: R.Tensor((6,), "int32")):
        y = Module.shaped((x, steps), R.shape([2, 3]))
        loss = R.sum(R.multiply(y, y))
        return loss
""")
    mod = CustomGradient("shaped", gradient="rule")(mod)
    for main in (to_jax(mod, "main"), written(mod, "main")["main"]):
        found = jax.grad(main)(X.ravel(), np.arange(6, dtype="int32"))
        chex.assert_trees_all_close(found, 10 * X.ravel(), rtol=1e-6)


def test_a_rule_for_going_back_has_no_tangent() -> None:
    """As in JAX, rather than the tangent of a body that the rule says otherwise of."""
    mod: IRModule = CustomGradient("rounded", gradient=gradient)(ROUNDED)
    with pytest.raises(TypeError, match="forward-mode autodiff"):
        jax.jvp(lambda x: to_jax(mod, "main")(x, np.int32(3)), (X,), (X,))


@jax.custom_vjp
def five_times(x: Any, by: Any) -> Any:
    return jnp.sin(x) * by


five_times.defvjp(
    lambda x, by: (five_times(x, by), jnp.cos(x)), lambda cos, g: (5 * cos * g, jnp.sum(g))
)


def test_a_written_program_has_the_rules_of_functions_of_jax() -> None:
    def loss(x: Any, by: Any) -> Any:
        return jnp.sum(jax.nn.relu(five_times(x, by)) ** 2)

    mod = relaxjax.from_jax(loss, X, np.float32(0.5))
    main = written(mod)["main"]
    for x in (X, np.zeros_like(X)):
        for grad in (jax.grad, lambda f, at: jax.jit(jax.grad(f, at))):
            found, expected = (grad(f, (0, 1))(x, np.float32(0.5)) for f in (main, loss))
            chex.assert_trees_all_close(found, expected, rtol=1e-6)
