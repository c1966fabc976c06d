"""Rules of one's own, by custom_jvp and custom_vjp, and what they use from around them."""

import functools
from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import relaxjax
from relaxjax import TensorType, from_jax, to_jax
from relaxjax.frontends import own_rules
from relaxjax.frontends.rule_programs import rule_programs
from relaxjax.ops import OpError
from relaxjax.ops.lax import UnsupportedPrimitiveError
from relaxjax.passes import Gradient
from relaxjax.passes.differentiation.gradient import GradientError

X = np.linspace(-1.0, 1.0, 6, dtype="float32").reshape(2, 3)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def power(x: jax.Array, exponent: int) -> jax.Array:
    """Its rule calls the function of another exponent, whose rule calls that of another."""
    return x**exponent


@power.defjvp
def _power_jvp(exponent: int, primals: Any, tangents: Any) -> Any:
    slope = exponent * power(primals[0], exponent - 1)
    return power(primals[0], exponent), slope * tangents[0]


def test_rules_that_call_ever_other_functions_with_rules() -> None:
    """A module holds so many of them, and refuses what would take further ones."""

    def eighth(x: jax.Array) -> jax.Array:
        return jnp.sum(power(x, 8))

    found, factor = from_jax(eighth, X), 1
    for order in range(1, own_rules.DEEPEST + 1):
        module, factor = Gradient("main")(found), factor * (9 - order)
        derivative = to_jax(module, "main_adjoint")
        (gradient,) = derivative(X)[1]
        chex.assert_trees_all_close(gradient, factor * X ** (8 - order), rtol=1e-4, atol=1e-3)
        found = from_jax(lambda x, one=derivative: jnp.sum(one(x)[1][0]), X)
    with pytest.raises(GradientError, match=r"relax.grad.deepest_rule: a rule calls another"):
        Gradient("main")(found)
    message = "an argument of a function whose rule is written nowhere: a rule calls another"
    with pytest.raises(OpError, match=message):
        jax.grad(to_jax(found, "main"))(X)
    chex.assert_trees_all_close(relaxjax.grad(eighth)(X), 8 * X**7, rtol=1e-6)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def solved(system: Any, x: jax.Array) -> Any:
    """Its rule solves a larger system, as that of a differential equation does."""
    return system(x)


@solved.defjvp
def _solved_jvp(system: Any, primals: Any, tangents: Any) -> Any:
    larger = solved(lambda x: jnp.sin(system(x)) + system(x), *primals)
    return solved(system, *primals), larger * tangents[0]


def test_rules_that_call_their_function_on_ever_more() -> None:
    """Each takes a multiple of the time of the one before, and eight of them took minutes."""
    module = from_jax(lambda x: jnp.sum(solved(jnp.cos, x)), X)
    (found,) = to_jax(Gradient("main")(module), "main_adjoint")(X)[1]
    chex.assert_trees_all_close(found, jnp.sin(jnp.cos(X)) + jnp.cos(X), rtol=1e-6)
    names = [name for name in module if not name.endswith(("_jvp", "_gradient"))]
    assert names == ["main", "solved", "solved1", "solved2", "deepest"]


def _scaled(factor: Any, slope: Any) -> Any:
    """A function whose rule has another slope; neither number is an argument of it."""
    scaled = jax.custom_vjp(lambda x: x * factor)
    scaled.defvjp(lambda x: (x * 3, None), lambda _, g: (g * slope,))
    return scaled


def test_rules_of_wide_types_are_wide() -> None:
    """The types say so, where JAX has 64 bits switched off."""
    tripled = jax.custom_vjp(lambda x: x * 3)
    tripled.defvjp(lambda x: (x * 3, None), lambda _, g: (g * jnp.linspace(0.0, 1 / 3, 2),))
    mod = from_jax(lambda x: jnp.sum(tripled(x)), TensorType((2,), "float64"))
    with jax.enable_x64(True):
        _, (found,) = to_jax(Gradient("main")(mod), "main_adjoint")(jnp.ones(2))
        chex.assert_trees_all_equal(found, jnp.array([0, 1 / 3]))


def test_a_rule_leaves_out_what_its_function_has_from_around_it() -> None:
    def by_constant(x: jax.Array) -> jax.Array:
        return jnp.sum(_scaled(jnp.array([[2.0]]), 7.0)(x))

    def by_both(x: jax.Array, factor: jax.Array) -> jax.Array:
        return jnp.sum(_scaled(factor, 7.0)(x))

    sevens = np.full_like(X, 7.0)
    chex.assert_trees_all_close(relaxjax.grad(by_constant)(X), sevens)
    chex.assert_trees_all_close(relaxjax.grad(by_both)(X, X), sevens)
    message = (
        r"no gradient is known for:\n.*relax.grad.closed_over: the rule of a function leaves out "
        "what that has from around it: hand it to the function as an argument, so that its rule .*"
        rf"\n  at {__file__}:\d+"
    )
    with pytest.raises(ValueError, match=message):
        relaxjax.grad(by_both, 1)(X, X)


def _given(x: jax.Array, slope: jax.Array) -> jax.Array:
    return jnp.sum(_scaled(2.0, slope)(x))


def _computed_for_the_rule_alone(x: jax.Array, slope: jax.Array) -> jax.Array:
    return jnp.sum(_scaled(2.0, jnp.sin(jnp.tanh(slope)))(x))


def _twice(x: jax.Array, slope: jax.Array) -> jax.Array:
    once = _scaled(slope, jnp.sin(slope))(x)
    return jnp.sum(_scaled(slope, jnp.cos(slope) * jnp.sin(slope))(once))


def _in_other_rules(x: jax.Array, slope: jax.Array) -> jax.Array:
    inner = _scaled(2.0, jnp.sin(slope))
    outer = jax.custom_vjp(lambda x: inner(x))
    outer.defvjp(lambda x: (outer(x), x), lambda x, g: jax.vjp(inner, x)[1](g))
    return jnp.sum(outer(x))


def _by_tangents(x: jax.Array, slope: jax.Array) -> jax.Array:
    steep = jnp.sin(slope)
    scaled = jax.custom_jvp(lambda x: x * slope)
    scaled.defjvp(lambda primals, tangents: (primals[0] * slope, tangents[0] * steep))
    return jnp.sum(scaled(x))


def _of_a_gradient(x: jax.Array, factor: jax.Array) -> Any:
    """JAX takes the factor for an operand when it traces the function for the gradient."""
    scaled = jax.custom_vjp(lambda x: x * factor)
    scaled.defvjp(lambda x: (scaled(x), x), lambda x, g: (g * jnp.cos(x),))
    value, slope = jax.value_and_grad(lambda x: jnp.sum(jax.jit(scaled)(x)))(x)
    return value + jnp.sum(slope**2)


AROUND = [_given, _computed_for_the_rule_alone, _twice, _in_other_rules, _by_tangents]


@pytest.mark.parametrize("function", [*AROUND, _of_a_gradient])
def test_a_rule_uses_what_the_function_around_it_computes(function: Callable[..., Any]) -> None:
    slope = np.linspace(0.5, 1.5, X.size, dtype="float32").reshape(X.shape)
    expected = jax.jit(jax.grad(function))(X, slope)
    chex.assert_trees_all_close(jax.jit(relaxjax.grad(function))(X, slope), expected, rtol=1e-6)
    mod = Gradient("main", "x")(from_jax(function, X, slope))
    _, (found,) = to_jax(mod, "main_adjoint")(X, slope)
    chex.assert_trees_all_close(found, expected, rtol=1e-6)
    with pytest.raises(ValueError, match=r"no gradient is known for:\n.*relax.grad.closed_over"):
        Gradient("main", [mod["main"].params[1]])(mod)


@pytest.mark.parametrize("function", [_twice, _by_tangents, _of_a_gradient])
def test_nothing_is_differentiated_by_what_moves_around_a_function(
    function: Callable[..., Any],
) -> None:
    with pytest.raises(ValueError, match=r"no gradient is known for:\n.*relax.grad.closed_over"):
        relaxjax.grad(function, 1)(X, X)


@pytest.mark.parametrize("function", [_given, _computed_for_the_rule_alone, _in_other_rules])
def test_a_rule_is_not_asked_where_no_operand_moves(function: Callable[..., Any]) -> None:
    expected = jax.grad(function, 1)(X, X)
    chex.assert_trees_all_equal(relaxjax.grad(function, 1)(X, X), expected)


def test_a_rule_uses_what_is_around_all() -> None:
    @jax.jit
    def slopes(x: jax.Array, slope: jax.Array) -> Any:
        steep = jnp.sin(slope)
        return relaxjax.grad(lambda x: jnp.sum(_scaled(steep, steep)(x)))(x)

    chex.assert_trees_all_close(slopes(X, X), np.sin(X), rtol=1e-6)


def test_a_rule_in_a_loop_cannot_use_what_is_computed_before_it() -> None:
    def looped(x: jax.Array, slope: jax.Array) -> jax.Array:
        scaled = _scaled(2.0, slope)
        return jnp.sum(jax.lax.fori_loop(0, 3, lambda _, x: scaled(x), x))

    message = r"the rule of `function` uses an array of the function around it, of type float32\[2"
    with pytest.raises(UnsupportedPrimitiveError, match=message):
        from_jax(looped, X, X)


def test_tangents_cannot_go_through_a_mapped_choice() -> None:
    """JAX's own gradient has no transpose for them, either."""

    @jax.custom_jvp
    def bent(x: jax.Array) -> jax.Array:
        return jnp.abs(x)

    @bent.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        (x,), (moved,) = primals, tangents
        return bent(x), jax.lax.cond(x[0] > 0, lambda t: t, lambda t: -t, moved)

    def loss(x: jax.Array) -> jax.Array:
        return jnp.sum(jax.vmap(bent)(x))

    with pytest.raises(NotImplementedError, match="stop_gradient"):
        jax.grad(loss)(X)
    message = "the tangents of `bent` go through a lax.cond whose condition jax.vmap maps"
    with pytest.raises(UnsupportedPrimitiveError, match=message):
        relaxjax.grad(loss)(X)


def test_a_rule_cannot_be_mapped_without_its_function() -> None:
    @jax.custom_jvp
    def rounded(x: jax.Array, steepness: jax.Array) -> jax.Array:
        return jnp.round(x)

    @rounded.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        return rounded(*primals), tangents[0] * primals[1]

    def loss(x: jax.Array, steepness: jax.Array) -> jax.Array:
        return jnp.sum(jax.vmap(rounded, in_axes=(None, 0))(x, steepness))

    message = (
        r"the rule of `rounded` uses an argument that jax.vmap maps, and the function itself does "
        r"not: it gives float32\[2\], by the rule float32\[3,2\]; let the function use that"
    )
    with pytest.raises(UnsupportedPrimitiveError, match=message):
        relaxjax.grad(loss)(jnp.ones(2), jnp.ones((3, 2)))


def test_an_inner_function_cannot_use_what_only_a_loop_around_it_knows() -> None:
    """JAX counts it among the constants of the inner one."""

    def looped(x: jax.Array, factor: jax.Array) -> jax.Array:
        return jnp.sum(jax.lax.fori_loop(0, 3, lambda _, x: x + _of_a_gradient(x, factor), x))

    message = "a function inside of the one that is read uses an array from around it"
    with pytest.raises(UnsupportedPrimitiveError, match=message):
        from_jax(looped, X, X)


def test_the_rule_of_jaxs_relu_is_traced_once_for_a_type(monkeypatch: pytest.MonkeyPatch) -> None:
    traced: list[Any] = []

    def counted(eqn: Any, *args: Any, **options: Any) -> Any:
        traced.append(eqn.invars[0].aval.shape)
        return rule_programs(eqn, *args, **options)

    monkeypatch.setattr(own_rules, "rule_programs", counted)

    def loss(x: jax.Array) -> jax.Array:
        inner = jax.nn.relu(jax.nn.relu(x) - 0.5)
        return jnp.sum(jax.nn.relu(inner[0]) * jax.nn.relu(x[1]))

    mod = from_jax(loss, X)
    assert traced == [(2, 3), (2, 3), (3,), (3,)]  # the rule calls the function once more
    assert [name for name in mod if name.startswith("relu")] == [
        "relu",
        "relu_gradient",
        "relu_jvp",
        "relu1",
        "relu1_gradient",
        "relu1_jvp",
    ]
    chex.assert_trees_all_close(relaxjax.grad(loss)(X), jax.grad(loss)(X), rtol=1e-6)


def test_rules_of_functions_that_are_named_like_jaxs_are_told_apart() -> None:
    def relu_of(slope: float) -> Any:
        @jax.custom_jvp
        def relu(x: jax.Array) -> jax.Array:
            return jnp.maximum(x, 0)

        relu.defjvps(lambda g, _, x: jnp.where(x > 0, g * slope, 0))
        return relu

    one, other = relu_of(2.0), relu_of(3.0)

    def loss(x: jax.Array) -> jax.Array:
        return jnp.sum(one(x) * other(x) + jax.nn.relu(x))

    chex.assert_trees_all_close(relaxjax.grad(loss)(X), jax.grad(loss)(X), rtol=1e-6)


def test_a_function_with_a_rule_that_is_mapped_over_an_array_of_numpy() -> None:
    """JAX cannot trace it; its own gradients need not, because they trace the rule."""
    scaled = _scaled(2.0, 3.0)

    def loss(w: Any, data: Any) -> Any:
        return jnp.sum(jax.vmap(lambda x: scaled(x))(data) * w[None])

    with pytest.raises(AssertionError, match="non-canonical constant") as caught:
        relaxjax.grad(lambda w: loss(w, X))(jnp.ones(3))
    assert "make an array of JAX of it, by jnp.asarray" in caught.value.__notes__[-1]
    chex.assert_trees_all_close(relaxjax.grad(loss)(jnp.ones(3), jnp.asarray(X)), 2 * X.sum(0))
