"""Functions written in JAX as modules: their programs, names, nesting, and derivatives."""

import functools
from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import relaxjax
from relaxjax import IRModule, TensorType, from_jax, to_jax
from relaxjax.ir.dims import SymbolicVar
from relaxjax.ir.structural import assert_structural_equal
from relaxjax.ops.lax import UnsupportedPrimitiveError
from relaxjax.passes import Gradient, Jvp
from relaxjax.script import from_source

X = np.linspace(-1.0, 1.0, 6, dtype="float32").reshape(2, 3)


def read_back(mod: IRModule) -> IRModule:
    assert_structural_equal(from_source(mod.script()), mod)
    return mod


def gradients(mod: IRModule, *arrays: Any, wanted: Any = None) -> Any:
    adjoint = read_back(Gradient("main", wanted)(read_back(mod)))
    return to_jax(adjoint, "main_adjoint")(*arrays)


def test_a_program() -> None:
    def scaled(x: jax.Array, factor: jax.Array) -> jax.Array:
        return jnp.sum(jnp.tanh(x) * factor[None])

    mod = from_jax(scaled, X, jax.ShapeDtypeStruct((3,), "float32"))
    assert_structural_equal(
        mod,
        from_source("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), factor: R.Tensor((3,), "float32")):
        with R.dataflow():
            lv = L.tanh(x)
            lv1 = L.broadcast_in_dim(factor, shape=[1, 3], broadcast_dimensions=[1])
            lv2 = L.mul(lv, lv1)
            lv3 = L.reduce_sum(lv2, axes=[0, 1])
            gv = lv3
            R.output(gv)
        return gv
"""),
    )


def test_leaves_become_parameters_named_by_where_they_are() -> None:
    def model(params: Any, *rest: Any) -> Any:
        return {"sum": params["w-0"] + params["layers"][1] + rest[0], "last": rest[1]}

    mod = from_jax(model, {"w-0": X, "layers": [X, X]}, X, {"class": X}, name="model")
    names = [param.name for param in mod["model"].params]
    assert names == ["params_layers_0", "params_layers_1", "params_w_0", "rest_0", "rest_1_class"]
    last, total = to_jax(mod, "model")(X, 2 * X, 3 * X, 4 * X, 5 * X)
    chex.assert_trees_all_close((last, total), (5 * X, 9 * X))


@pytest.mark.parametrize(
    "function", [jnp.add, functools.partial(jnp.add), jax.jit(lambda x, y: x + y)]
)
def test_anything_that_can_be_called_on_arrays(function: Any) -> None:
    chex.assert_trees_all_close(to_jax(from_jax(function, X, X), "main")(X, X), X + X)


def test_symbolic_dimensions() -> None:
    n = SymbolicVar("n")
    mod = from_jax(lambda x: jnp.sum(x, 0) * x.shape[0], TensorType((n, 3), "float32"))
    (param,) = mod["main"].params
    assert str(param.ty) == 'R.Tensor((n, 3), dtype="float32")'
    chex.assert_trees_all_close(to_jax(mod, "main")(X), X.sum(0) * 2)


def test_weak_types_promote_as_in_jax() -> None:
    mod = from_jax(lambda x, s: x * s, X.astype("float16"), 2.0)
    assert mod["main"].ret_ty == TensorType((2, 3), "float16")


def test_arrays_from_around_are_constants() -> None:
    mod = read_back(from_jax(lambda x: x + jnp.asarray(X), X))
    assert len(mod["main"].params) == 1
    chex.assert_trees_all_close(to_jax(mod, "main")(X), X + X)


@jax.custom_vjp
def straight(x: jax.Array, factor: jax.Array, steps: jax.Array) -> jax.Array:
    return jnp.round(x * steps.astype("float32"))


straight.defvjp(
    lambda x, factor, steps: (straight(x, factor, steps), (x, factor)),
    lambda saved, g: (g * saved[1], jnp.sum(g * saved[0]), None),
)


@jax.custom_jvp
def halves(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    return x * 0.5, x.astype("int32")


@halves.defjvp
def _halves_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (tangent,) = primals, tangents
    first, second = halves(x)
    return (first, second), (tangent * 7, np.zeros(x.shape, jax.dtypes.float0))


def _rounded(x: jax.Array, factor: jax.Array) -> jax.Array:
    return jnp.sum(straight(x, factor, jnp.int32(3)))


def _in_a_loop(x: jax.Array, factor: jax.Array) -> jax.Array:
    def body(carry: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
        rounded = straight(row, factor, jnp.int32(2))
        kinked = jax.lax.cond(row[0] > 0, jax.nn.relu, jnp.sin, carry)
        return jnp.tanh(kinked + rounded), jnp.sum(rounded)

    last, sums = jax.lax.scan(body, jnp.full(3, 0.3), x, reverse=True)
    return jnp.sum(last) + jnp.sum(sums**2)


@jax.custom_jvp
def squashed(x: jax.Array) -> jax.Array:
    return jnp.tanh(x)


@squashed.defjvp
def _squashed_jvp(primals: Any, tangents: Any) -> Any:
    y = squashed(*primals)
    return y, (1 - y * y * 0.5) * tangents[0]


def _by_its_own_value(x: jax.Array, factor: jax.Array) -> jax.Array:
    return jnp.sum(squashed(squashed(x) * factor))


def _several_results(x: jax.Array, factor: jax.Array) -> jax.Array:
    first, second = jax.checkpoint(halves)(x)
    return jnp.sum(first * factor) + jnp.sum(second).astype("float32")


def _mapped(x: jax.Array, factor: jax.Array) -> jax.Array:
    return jnp.sum(jax.vmap(jax.nn.relu)(x) + jax.nn.relu(x - x) * x) * factor


def _chosen(x: jax.Array, factor: jax.Array) -> jax.Array:
    index = jnp.asarray(factor, "int32")
    branches = [jnp.sin, jnp.cos, lambda x: x**3]
    return jnp.sum(jax.lax.switch(index, branches, x)) * factor


def _solved(x: jax.Array, factor: jax.Array) -> jax.Array:
    matrix = x @ x.T + jnp.array([[2.0, 1.0], [0.0, 3.0]])
    return jnp.sum(jnp.linalg.solve(matrix * jnp.exp(factor), x) ** 3)


def _by_complex_numbers(x: jax.Array, factor: jax.Array) -> jax.Array:
    def turn(z: jax.Array, angle: jax.Array) -> tuple[jax.Array, jax.Array]:
        return z * jnp.exp(jax.lax.complex(angle, angle)), jnp.abs(z)

    spectrum = jnp.fft.fft(x) * jax.lax.complex(factor, jnp.float32(2.0))
    last, sizes = jax.lax.scan(turn, spectrum, x[0])
    return jnp.sum(last.real * last.imag) + jnp.sum(sizes**2)


FORWARD = [_by_its_own_value, _several_results, _mapped, _chosen]
SMOOTH = [_solved, _by_complex_numbers]
AT_KINKS = [(function, x) for function in (_rounded, _in_a_loop, *FORWARD) for x in (-1, 0, 1, 5)]


@pytest.mark.parametrize(("function", "factor"), [*AT_KINKS, *((each, 0.5) for each in SMOOTH)])
def test_gradients_are_those_of_jax(function: Any, factor: float) -> None:
    """Rules by custom_jvp and custom_vjp count, in loops and branches too, and where they lie.

    A body of theirs has another derivative: relu at 0, a rounding, a half that is called 7, a
    system of equations that is solved by a decomposition without derivative.
    """
    args = X, np.float32(factor)
    expected = jax.value_and_grad(function, (0, 1))(*args)
    found = gradients(from_jax(function, *args), *args)
    chex.assert_trees_all_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("function", [*FORWARD, *SMOOTH])
def test_tangents_are_those_of_jax(function: Any) -> None:
    args = X, np.float32(1.0)
    tangents = np.cos(X), np.float32(0.5)
    pushed = to_jax(read_back(Jvp("main")(from_jax(function, *args))), "main_jvp")
    chex.assert_trees_all_close(
        pushed(*args, *tangents), jax.jvp(function, args, tangents), rtol=1e-4
    )


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def power(x: jax.Array, exponent: int) -> jax.Array:
    """Its rule calls the function of another exponent, whose rule calls that of another."""
    return x**exponent


@power.defjvp
def _power_jvp(exponent: int, primals: Any, tangents: Any) -> Any:
    slope = exponent * power(primals[0], exponent - 1)
    return power(primals[0], exponent), slope * tangents[0]


def test_rules_that_call_ever_other_functions_with_rules() -> None:
    def cubes(x: jax.Array) -> jax.Array:
        return jnp.sum(power(x, 3))

    message = r"the rule of `power` calls another function with a rule.* 8 deep to `power8`"
    with pytest.raises(UnsupportedPrimitiveError, match=message):
        from_jax(cubes, X)
    chex.assert_trees_all_close(relaxjax.grad(cubes)(X), 3 * X**2, rtol=1e-6)


def test_a_rule_is_a_function_of_the_module_and_there_once() -> None:
    def twice(x: jax.Array) -> jax.Array:
        return jnp.sum(jax.nn.relu(jax.nn.relu(x) - 1) + jax.nn.relu(x[:1]))

    mod = from_jax(twice, X)
    rules = ["relu", "relu_gradient", "relu_jvp", "relu1", "relu1_gradient", "relu1_jvp"]
    assert list(mod) == ["main", *rules]
    assert mod["relu"].attrs["custom_gradient"] == "relu_gradient"
    assert mod["relu"].attrs["custom_jvp"] == "relu_jvp"
    assert mod["relu1"].params[0].ty == TensorType((1, 3), "float32")


def test_the_same_body_with_another_rule_is_another_function() -> None:
    def with_slope(slope: float) -> Any:
        rounding = jax.custom_jvp(lambda x: jnp.round(x))
        rounding.defjvp(lambda primals, tangents: (rounding(*primals), tangents[0] * slope))
        return rounding

    def both(x: jax.Array) -> jax.Array:
        return jnp.sum(with_slope(2.0)(x) + with_slope(3.0)(x))

    (result,) = gradients(from_jax(both, X), X)[1]
    chex.assert_trees_all_close(result, np.full((2, 3), 5.0, "float32"))


def test_a_function_called_main_has_its_name() -> None:
    @jax.custom_jvp
    def main(x: jax.Array) -> jax.Array:
        return jnp.sin(x)

    main.defjvp(lambda primals, tangents: (main(*primals), tangents[0]))
    assert list(from_jax(main, X)) == ["main", "main1", "main1_gradient", "main1_jvp"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((X, "sum"), r"from_jax: `mode` is 'sum' of type str, which is no array: bind it before"),
        ((TensorType(None, "float32", 2), 0), r"the shape and dtype of `x` must be known, but it"),
    ],
)
def test_arguments_that_cannot_be_traced(args: Any, message: str) -> None:
    def function(x: Any, mode: Any) -> Any:
        return x

    with pytest.raises(TypeError, match=message):
        from_jax(function, *args)


def test_a_loop_of_unknown_length_has_no_gradient() -> None:
    def collatz(x: Any) -> Any:
        return jax.lax.while_loop(lambda x: x.sum() > 1, lambda x: x / 2, x).sum()

    mod = from_jax(collatz, X)
    chex.assert_trees_all_close(to_jax(mod, "main")(X + 1), collatz(X + 1))
    with pytest.raises(ValueError, match=r"no gradient is known for:\n.*lax.while_loop"):
        Gradient("main")(mod)


def test_random_keys_are_carried_through_loops() -> None:
    def noisy(x: jax.Array) -> Any:
        def step(carry: Any, row: jax.Array) -> Any:
            key, total = carry
            key, now = jax.random.split(key)
            return (key, total + jnp.sum(row * jax.random.normal(now, (3,)))), None

        return jax.lax.scan(step, (jax.random.key(1), jnp.float32(0)), x)[0][1]

    chex.assert_trees_all_close(relaxjax.value_and_grad(noisy)(X), jax.value_and_grad(noisy)(X))


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
    with pytest.raises(ValueError, match=r"no gradient is known for:\n.*relax.grad.closed_over"):
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


def test_gradients_by_jax_of_branches_that_keep_different_values() -> None:
    """What one of them does not keep is empty there."""

    def slope(x: jax.Array) -> jax.Array:
        return jnp.sum(jax.grad(lambda x: jax.lax.cond(x > 0, jnp.sin, lambda x: x**3, x))(x) ** 2)

    for x in (np.float32(-0.5), np.float32(0.5)):
        chex.assert_trees_all_close(relaxjax.grad(slope)(x), jax.grad(slope)(x), rtol=1e-6)
