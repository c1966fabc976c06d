"""`value_and_grad` and `grad` against JAX's own."""

import re
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.ad_checkpoint import checkpoint_name

import relaxjax

X = np.linspace(-1.0, 1.0, 12, dtype="float32").reshape(4, 3)
Y = np.cos(X[:, :2])
PARAMS = [
    {"w": np.eye(3, dtype="float32"), "b": np.zeros((1, 3), "float32")},
    {"w": np.ones((3, 2), "float32"), "b": np.full((1, 2), 0.3, "float32")},
]


def loss(params: Any, x: Any, y: Any, *, power: int = 2) -> jax.Array:
    for layer in params:
        x = jax.nn.relu(x @ layer["w"] + layer["b"])
    return jnp.mean((x - y) ** power)


def with_aux(params: Any, x: jax.Array, y: jax.Array) -> tuple[jax.Array, dict[str, Any]]:
    value = loss(params, x, y)
    return value * 2, {"seen": len(params), "value": value, "last": None}


@pytest.mark.parametrize("argnums", [0, 1, -1, (0,), (2, 0), np.int64(1)])
@pytest.mark.parametrize("jitted", [False, True])
def test_values_and_gradients_nested_as_in_jax(argnums: Any, jitted: bool) -> None:
    ours = relaxjax.value_and_grad(loss, argnums)
    found = (jax.jit(ours) if jitted else ours)(PARAMS, X, Y)
    expected = jax.value_and_grad(loss, argnums)(PARAMS, X, Y)
    chex.assert_trees_all_close(found, expected, rtol=1e-5, atol=1e-7)


def test_something_beside_the_loss() -> None:
    """In a pair or, as JAX takes it too, in a list of two."""
    found = jax.jit(relaxjax.value_and_grad(with_aux, has_aux=True))(PARAMS, X, Y)
    expected = jax.jit(jax.value_and_grad(with_aux, has_aux=True))(PARAMS, X, Y)
    chex.assert_trees_all_close(found, expected, rtol=1e-5, atol=1e-7)
    listed = relaxjax.grad(lambda *args: list(with_aux(*args)), has_aux=True)
    gradients = listed(PARAMS, X, Y)
    chex.assert_trees_all_close(gradients, (expected[1], expected[0][1]), rtol=1e-5, atol=1e-7)


def test_what_is_no_array_beside_the_loss_stays_as_it_is() -> None:
    mark = object()

    def function(x: Any) -> Any:
        return jnp.sum(x), {"name": "sum", "count": 3, "mark": mark, "last": x, "none": None}

    ours, theirs = (grad(function, has_aux=True)(X) for grad in (relaxjax.grad, jax.grad))
    assert ours[1].pop("mark") is theirs[1].pop("mark") is mark
    assert ours[1].pop("name") == theirs[1].pop("name") == "sum"
    assert isinstance(ours[1]["count"], int)
    assert isinstance(theirs[1]["count"], int)
    chex.assert_trees_all_equal(ours, theirs)


def test_what_is_no_array_stays_as_it_is() -> None:
    found = relaxjax.grad(loss)(PARAMS, X, Y, power=3)
    chex.assert_trees_all_close(found, jax.grad(loss)(PARAMS, X, Y, power=3), rtol=1e-5, atol=1e-7)


def test_numbers_are_differentiated_by() -> None:
    def cubed(x: float) -> Any:
        return x**3

    assert relaxjax.grad(cubed)(2.0) == 12
    assert relaxjax.grad(lambda z: jnp.abs(z) ** 2)(3.0 + 1.0j) == 6 - 2j


def test_results_promote_as_those_of_jax() -> None:
    """A number of Python has a gradient that promotes like one, and so have constant results."""

    def function(scale: Any, x: Any) -> Any:
        return jnp.sum(x) * scale, {"steps": 3, "mean": jnp.mean(x), "twice": scale * 2}

    args = 2.0, X
    found, expected = (
        jax.jit(module.value_and_grad(function, (0, 1), has_aux=True))(*args)
        for module in (relaxjax, jax)
    )
    assert jax.tree.map(jax.typeof, found) == jax.tree.map(jax.typeof, expected)
    assert found[1][0].weak_type


def test_complex_arguments() -> None:
    def sizes(z: jax.Array, w: jax.Array) -> jax.Array:
        return jnp.sum(jnp.abs(jnp.exp(z) * w) ** 2) + jnp.sum(w.imag)

    args = (X + 1j * X[::-1]), np.asarray(Y[:1, :1] - 0.5j, "complex64")
    ours, theirs = (library.value_and_grad(sizes, (0, 1)) for library in (relaxjax, jax))
    chex.assert_trees_all_close(jax.jit(ours)(*args), jax.jit(theirs)(*args), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_constants_are_as_wide_as_jax_has_them(dtype: str) -> None:
    """Where 64 bits are on, those made in the loss have them, whatever its arguments have."""
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):
        x = jnp.asarray(X, dtype)

        def thirds(x: Any) -> Any:
            return jnp.sum(jnp.sin(x * jnp.linspace(0.0, 1 / 3, 3)[None]))

        found = relaxjax.value_and_grad(thirds)(x)
        expected = jax.value_and_grad(thirds)(x)
        assert found[0].dtype == "float64"
        chex.assert_trees_all_equal_dtypes(found, expected)
        chex.assert_trees_all_close(found[0], expected[0], rtol=1e-12)
        chex.assert_trees_all_close(
            found[1], expected[1], rtol=1e-6 if dtype == "float32" else 1e-12
        )


def test_arrays_from_around_are_parameters_and_not_constants() -> None:
    def by_scale(scale: jax.Array) -> Any:
        def scaled(params: Any) -> jax.Array:
            return loss(params, jnp.asarray(X) * scale, Y)

        return relaxjax.grad(scaled)(PARAMS), relaxjax.value_and_grad(scaled)

    gradients = jax.jit(lambda scale: by_scale(scale)[0])(2.0)
    chex.assert_trees_all_close(gradients, jax.grad(loss)(PARAMS, 2 * X, Y), rtol=1e-5, atol=1e-7)
    module = by_scale(jnp.float32(2.0))[1].module(PARAMS)
    names = [param.name for param in module["loss_adjoint"].params]
    assert [name for name in names if name.startswith("captured_")]


def test_it_composes_with_transformations_of_jax() -> None:
    rows = jnp.stack([X, 2 * X])
    found = jax.vmap(relaxjax.grad(loss), (None, 0, None))(PARAMS, rows, Y)
    expected = jax.vmap(jax.grad(loss), (None, 0, None))(PARAMS, rows, Y)
    chex.assert_trees_all_close(found, expected, rtol=1e-5, atol=1e-7)


def temporary_bytes(step: Any, *args: Any) -> int:
    size: int = step.lower(*args).compile().memory_analysis().temp_size_in_bytes
    return size


def cube_root(x: jax.Array) -> Any:
    """By JAX's root finder, of the sum."""

    def solve(f: Any, start: Any) -> Any:
        return jax.lax.fori_loop(0, 20, lambda _, y: y - f(y) / (3 * y * y), start)

    return jax.lax.custom_root(
        lambda y: y**3 - x.sum(), jnp.ones(()), solve, lambda g, y: y / g(jnp.ones(()))
    )


@pytest.mark.parametrize(
    "function",
    [lambda x: jnp.frexp(x)[0] ** 2, lambda x: jnp.ldexp(x, jnp.arange(3)) ** 3, cube_root],
    ids=["frexp", "ldexp", "custom_root"],
)
def test_what_some_versions_of_jax_have_as_one_primitive_with_a_rule(function: Any) -> None:
    x = jnp.asarray([0.5, 3.0, -0.7])

    def loss(x: jax.Array) -> jax.Array:
        return jnp.sum(function(x))

    once = (jax.jit(grad(loss))(x) for grad in (relaxjax.grad, jax.grad))
    chex.assert_trees_all_close(*once, rtol=1e-5)
    twice = (jax.jit(jax.jacobian(grad(loss)))(x) for grad in (relaxjax.grad, jax.grad))
    chex.assert_trees_all_close(*twice, rtol=1e-5)


def test_memory_is_planned() -> None:
    def deep(w: jax.Array, x: jax.Array) -> jax.Array:
        for _ in range(8):
            x = jnp.tanh(x @ w)
        return jnp.sum(x)

    args = np.eye(16, dtype="float32"), np.ones((2048, 16), "float32")
    temporary = {}
    for policy in ("none", "minimal"):
        step = jax.jit(relaxjax.value_and_grad(deep, memory_policy=policy))
        temporary[policy] = temporary_bytes(step, *args)
        chex.assert_trees_all_close(step(*args), jax.value_and_grad(deep)(*args), rtol=1e-4)
    assert temporary["minimal"] < 0.7 * temporary["none"]
    budget = (temporary["minimal"] + temporary["none"]) // 2
    step = jax.jit(relaxjax.grad(deep, memory_budget=budget))
    assert temporary_bytes(step, *args) <= budget


def _in_layers(policy: Any, in_loop: bool) -> Any:
    """A loss of four layers, of whose values a checkpoint keeps what a policy says."""

    def layer(x: jax.Array, w: jax.Array) -> tuple[jax.Array, None]:
        product = checkpoint_name(x @ w, "product")
        return x + jnp.sin(jnp.exp(jnp.tanh(product))), None

    step: Any = jax.checkpoint(layer, policy=policy)

    def deep(ws: jax.Array, x: jax.Array) -> jax.Array:
        if in_loop:
            return jnp.mean(jax.lax.scan(step, x, ws)[0])
        for w in jnp.unstack(ws):
            x, _ = step(x, w)
        return jnp.mean(x)

    return deep


@pytest.mark.parametrize("in_loop", [False, True])
def test_checkpoints_keep_what_they_say(in_loop: bool) -> None:
    """Nothing, what is named, everything: in XLA's count too."""
    policies = jax.checkpoint_policies
    args = np.stack([np.eye(16, dtype="float32")] * 4), np.full((2048, 16), 0.1, "float32")
    found, sizes = [], []
    for policy in (None, policies.save_only_these_names("product"), policies.everything_saveable):
        step: Any = jax.jit(relaxjax.grad(_in_layers(policy, in_loop))).lower(*args).compile()
        sizes.append(step.memory_analysis().temp_size_in_bytes)
        found.append(step(*args))
    expected = jax.jit(jax.grad(_in_layers(None, in_loop)))(*args)
    chex.assert_trees_all_close(*found, expected, rtol=1e-4, atol=1e-6)
    nothing, named, everything = sizes
    assert nothing < 0.8 * named < 0.8 * 0.9 * everything


def test_the_backward_program_can_be_read() -> None:
    adjoint = relaxjax.value_and_grad(jax.nn.relu).module(np.float32(0.5))["loss_adjoint"]
    assert [param.name for param in adjoint.params] == ["x"]
    assert "L.select_n" in adjoint.script()


@pytest.mark.parametrize("function", [jax.nn.relu, jax.nn.gelu, jax.nn.silu])
def test_where_numbers_end_activations_are_those_of_jax(function: Any) -> None:
    """They are raised to operators of Relax, with gradients in closed form."""
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0], "float32")
    weights = np.arange(1, 8, dtype="float32")

    def total(x: Any) -> Any:
        return jnp.sum(function(x) * weights)

    chex.assert_trees_all_close(relaxjax.grad(total)(x), jax.grad(total)(x), rtol=1e-5)


def test_what_does_not_depend_on_the_arguments_needs_no_derivative() -> None:
    """JAX writes the exponents by a product at places, which it cannot differentiate itself."""

    def total(x: Any) -> Any:
        return jnp.sum(x.at[jnp.array([0, 1])].power(2.0) * 3.0)

    chex.assert_trees_all_close(relaxjax.grad(total)(X), jax.grad(total)(X), rtol=1e-6)


@pytest.mark.parametrize("around", [lambda loss: loss, jax.checkpoint])
def test_arguments_that_jax_refuses_may_be_those_that_are_kept(around: Any) -> None:
    """Of arrays from around as well as of arguments: only by these there is no derivative."""
    order = np.array([1.0, 2.0, 3.0], "float32")

    def function(x: Any, b: Any) -> Any:
        return jnp.sum(lax.polygamma(order, x) * lax.betainc(order, b, x / 4))

    found, expected = (
        grad(around(function))(order / 2, order) for grad in (relaxjax.grad, jax.grad)
    )
    chex.assert_trees_all_close(found, expected, rtol=1e-5)
    for grad in (relaxjax.grad, jax.grad):
        with pytest.raises(ValueError, match="Betainc gradient with respect to a and b"):
            grad(around(function), 1)(order / 2, order)


def test_a_loss_that_is_a_constant_has_gradients_of_zeros() -> None:
    """It is folded to a number before it is differentiated, as the derivative of a line is."""

    def slope(x: jax.Array) -> jax.Array:
        return jnp.sin(jax.grad(lambda x: 2 * x)(x))

    expected = jax.value_and_grad(slope)(3.0)
    chex.assert_trees_all_close(relaxjax.value_and_grad(slope)(3.0), expected)


def test_it_is_called_like_the_loss() -> None:
    assert relaxjax.value_and_grad(loss).__name__ == "loss"
    assert relaxjax.grad(loss).__name__ == "loss"


@pytest.mark.parametrize(
    ("options", "args", "message"),
    [
        ({"argnums": 3}, (PARAMS, X, Y), "`argnums` is 3, but the function is called with 3 arg"),
        ({"argnums": (0, -3)}, (PARAMS, X, Y), "`argnums` must name one argument or several diff"),
        ({"argnums": "x"}, (PARAMS, X, Y), "`argnums` must be an integer or several .* found 'x'"),
        ({"argnums": 1.0}, (PARAMS, X, Y), "`argnums` must be an integer or several .* found 1.0"),
        ({"argnums": ()}, (PARAMS, X, Y), "`argnums` must name one argument or several different"),
        ({"argnums": 1}, (PARAMS, X.astype(int), Y), "`x` is of dtype int32: leave it out"),
        ({"argnums": 2}, (PARAMS, X, "mean"), "but `y` is 'mean' of type str: leave it out"),
    ],
)
def test_arguments_that_cannot_be_differentiated_by(options: Any, args: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message.replace("(", r"\(")):
        relaxjax.value_and_grad(loss, **options)(*args)


def test_a_wrong_leaf_is_named_as_it_is_written() -> None:
    def of_many(params: Any, *others: Any, mode: Any = ()) -> Any:
        return jnp.sum(params["layers"][0])

    gone = jnp.ones(2)
    gone.delete()
    rows = {"layers": [X, (jnp.arange(2),)]}
    with pytest.raises(TypeError, match=re.escape("but `params['layers'][1][0]` is of dtype")):
        relaxjax.grad(of_many)(rows)
    for args, kwargs, path in (
        (({"layers": [gone]},), {}, "params['layers'][0]"),
        (({"layers": [X]}, X, [gone]), {}, "others_1[0]"),
        (({"layers": [X]},), {"mode": (X, gone)}, "mode[1]"),
    ):
        message = re.escape(f"{path} was given to a program that used it up, by donation")
        with pytest.raises(RuntimeError, match=message):
            relaxjax.grad(of_many)(*args, **kwargs)


@pytest.mark.parametrize(
    ("function", "has_aux", "message"),
    [
        (jnp.sin, False, r"returned float32 of shape \(4, 3\): take its mean or its sum(\n|$)"),
        (
            lambda x: lax.complex(x, x)[0, 0],
            False,
            r"returned complex64 of shape \(\): take its real part",
        ),
        (lambda x: (x, x), False, "returned tuple: `has_aux=True` is for functions"),
        (lambda x: x.shape[0], False, "a loss must be one scalar .* the function returned int"),
        (jnp.sum, True, r"must return a pair, .* but it returned float32 of shape \(\)(\n|$)"),
        (
            lambda x: (x, x),
            True,
            r"returned float32 of shape \(4, 3\): take its mean or its sum(\n|$)",
        ),
        (lambda x: [x] * 3, True, "but it returned 3 results"),
    ],
)
def test_losses_that_are_none(function: Any, has_aux: bool, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        relaxjax.value_and_grad(function, has_aux=has_aux)(X)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.sum() if x.sum() > 0 else -x.sum(),
        lambda x: jnp.asarray(np.asarray(x)).sum(),
        lambda x: x[0, [1, 2][x[0, 0].astype(int)]],
    ],
)
def test_a_loss_that_asks_for_values_is_told_what_to_do(function: Any) -> None:
    with pytest.raises((jax.errors.JAXTypeError, TypeError)) as error:
        relaxjax.grad(function)(X)
    notes = "".join(error.value.__notes__)
    assert "choose by jnp.where or jax.lax.cond rather than by `if`" in notes
    assert f"while tracing the function <lambda> at {__file__}" in str(error.value)
    assert "the argument x" in str(error.value)


def test_a_loss_is_a_function() -> None:
    with pytest.raises(TypeError, match="the loss must be a function of arrays, found 3 of type"):
        relaxjax.grad(3)  # type: ignore[arg-type]  # the mistake


def test_arrays_of_numpy_are_mapped_inside_of_jit() -> None:
    """JAX's `custom_jvp` fails there by an assertion of its own."""
    w, rows = np.ones((4, 2), "float32"), np.arange(12, dtype="float32").reshape(3, 4) / 10
    keys = jax.random.split(jax.random.key(0), 3)

    def loss(w: Any, row: Any, key: Any) -> Any:
        return jnp.sum(jnp.tanh(row @ w) * jax.random.normal(key))

    def mapped(gradient: Any) -> Any:
        of_rows = jax.vmap(gradient(loss), (None, 0, 0))
        of_both = jax.vmap(of_rows, (0, None, None))
        return jax.jit(lambda: (of_rows(w, rows, keys), of_both(np.stack([w, -w]), rows, keys)))()

    chex.assert_trees_all_close(mapped(relaxjax.grad), mapped(jax.grad), rtol=1e-5)
