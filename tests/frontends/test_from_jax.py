"""Functions written in JAX as modules: their programs, names, nesting, and derivatives."""

import functools
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import relaxjax
from relaxjax import IRModule, TensorType, from_jax, from_source, to_jax
from relaxjax.ir import SymbolicVar, assert_structural_equal
from relaxjax.passes import Gradient, Jvp

X = np.linspace(-1.0, 1.0, 6, dtype="float32").reshape(2, 3)


def read_back(mod: IRModule) -> IRModule:
    assert_structural_equal(from_source(mod.script()), mod)
    return mod


def gradients(mod: IRModule, *arrays: Any, wanted: Any = None) -> Any:
    adjoint = read_back(Gradient("main", wanted)(read_back(mod)))
    return jax.jit(to_jax(adjoint, "main_adjoint"))(*arrays)


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
    expected = jax.jit(jax.value_and_grad(function, (0, 1)))(*args)
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

    found, expected = (jax.jit(one.value_and_grad(noisy))(X) for one in (relaxjax, jax))
    chex.assert_trees_all_close(found, expected)


def test_gradients_by_jax_of_branches_that_keep_different_values() -> None:
    """What one of them does not keep is empty there."""

    def slope(x: jax.Array) -> jax.Array:
        return jnp.sum(jax.grad(lambda x: jax.lax.cond(x > 0, jnp.sin, lambda x: x**3, x))(x) ** 2)

    for x in (np.float32(-0.5), np.float32(0.5)):
        chex.assert_trees_all_close(relaxjax.grad(slope)(x), jax.grad(slope)(x), rtol=1e-6)
