"""Random numbers: those of jax.random, their distributions, whole programs, bad arguments."""

import math
from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from applying import applied, inferred, tensor
from parsing import parse_flow

from relaxjax import from_source, to_jax
from relaxjax.ir import ShapeExpr, ShapeType, SymbolicVar, TensorType, Var
from relaxjax.ops import OpError, random
from relaxjax.passes import Gradient, LegalizeOps

# Numbers by operators, and by JAX from a key.
SAME: dict[str, tuple[Callable[[], Any], Callable[[jax.Array], Any]]] = {
    "normal": (
        lambda: applied("random.normal", random.key(5), (3, 4)),
        lambda key: jax.random.normal(key, (3, 4)),
    ),
    "normal of a narrow dtype": (
        lambda: applied("random.normal", random.key(5), (7,), "bfloat16"),
        lambda key: jax.random.normal(key, (7,), jnp.bfloat16),
    ),
    "uniform": (
        lambda: applied("random.uniform", random.key(5), (3, 4)),
        lambda key: jax.random.uniform(key, (3, 4)),
    ),
    "uniform between bounds": (
        lambda: applied("random.uniform", random.key(5), (7,), -2.0, 3.0),
        lambda key: jax.random.uniform(key, (7,), minval=-2.0, maxval=3.0),
    ),
    "bernoulli": (
        lambda: applied("random.bernoulli", random.key(5), 0.3, (9,)),
        lambda key: jax.random.bernoulli(key, 0.3, (9,)),
    ),
    "bernoulli of many": (
        lambda: applied("random.bernoulli", random.key(5), np.linspace(0, 1, 9, dtype="float32")),
        lambda key: jax.random.bernoulli(key, jnp.linspace(0, 1, 9)),
    ),
    "randint": (
        lambda: applied("random.randint", random.key(5), (9,), -3, 12),
        lambda key: jax.random.randint(key, (9,), -3, 12),
    ),
    "randint of bytes": (
        lambda: applied("random.randint", random.key(5), (9,), 0, 256, "uint8"),
        lambda key: jax.random.randint(key, (9,), 0, 256, "uint8"),
    ),
    "categorical": (
        lambda: applied("random.categorical", random.key(5), np.eye(4, 3, dtype="float32")),
        lambda key: jax.random.categorical(key, jnp.eye(4, 3)),
    ),
    "categorical of many": (
        lambda: applied(
            "random.categorical", random.key(5), np.eye(4, 3, dtype="float32"), (5, 3), axis=0
        ),
        lambda key: jax.random.categorical(key, jnp.eye(4, 3), 0, (5, 3)),
    ),
    "split": (
        lambda: applied("random.uniform", random.fold_in(random.key(5), 9), (2,)),
        lambda key: jax.random.uniform(jax.random.fold_in(key, 9), (2,)),
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_numbers_are_those_of_jax(name: str) -> None:
    found, expected = SAME[name]
    chex.assert_trees_all_close(found(), np.asarray(expected(jax.random.key(5))), rtol=1e-6)


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_other_keys_give_other_numbers(impl: str) -> None:
    draws = [applied("random.uniform", random.key(seed, impl), (4,)) for seed in (0, 1)]
    again = applied("random.uniform", random.key(0, impl), (4,))
    np.testing.assert_array_equal(draws[0], again)
    assert (draws[0] != draws[1]).all()


def test_distributions() -> None:
    """Of 4000 draws, how far their frequencies are from the probabilities; 0.026 is 1 in 100."""
    key, many = random.key(11), (4000,)
    ranks = (np.arange(4000) + 0.5) / 4000
    normal = np.sort(applied("random.normal", key, many))
    below = [(1 + math.erf(x / math.sqrt(2))) / 2 for x in normal]
    np.testing.assert_allclose(below, ranks, atol=0.026)
    evenly = np.sort(applied("random.uniform", key, many, 2.0, 5.0))
    np.testing.assert_allclose((evenly - 2) / 3, ranks, atol=0.026)
    assert abs(applied("random.bernoulli", key, 0.2, many).mean() - 0.2) < 0.02
    counts = np.bincount(applied("random.randint", key, many, 0, 5), minlength=5)
    np.testing.assert_allclose(counts / 4000, [0.2] * 5, atol=0.02)
    logits = np.log(np.array([0.1, 0.2, 0.7], "float32"))
    drawn = applied("random.categorical", key, logits, many)
    np.testing.assert_allclose(np.bincount(drawn) / 4000, [0.1, 0.2, 0.7], atol=0.02)


PROGRAM = parse_flow("""
    key = R.random.fold_in(R.random.key(7), step)
    keys = R.random.split(key, num=3)
    first = R.take(keys, R.prim_value(1), axis=0)
    noise = R.random.uniform(first, R.shape([3, 4]), low, R.prim_value(2.0))
    mask = R.random.bernoulli(key, R.prim_value(0.5), R.shape([3, 4]))
    gv = R.sum(R.where(mask, x * noise, R.const(0, "float32")))
    """, x=(3, 4), low=(4,), step='R.Tensor((), "int32")')  # fmt: skip


def _expected(x: Any, low: Any, step: Any) -> Any:
    key = jax.random.fold_in(jax.random.key(7), step)
    first = jax.random.split(key, 3)[1]
    noise = jax.random.uniform(first, (3, 4), minval=low.reshape(1, 4), maxval=2.0)
    return jnp.sum(jnp.where(jax.random.bernoulli(key, 0.5, (3, 4)), x * noise, 0.0))


def test_a_program_with_keys_is_differentiated_legalised_and_written() -> None:
    x, low = np.full((3, 4), 2.0, "float32"), np.linspace(-1, 1, 4, dtype="float32")
    adjoint = Gradient("main", require_grads=["x", "low"])(PROGRAM)
    for module in (adjoint, LegalizeOps()(adjoint)):
        for step in (0, 3):
            found = to_jax(module, "main_adjoint")(x, low, np.int32(step))
            value, grads = jax.value_and_grad(_expected, (0, 1))(x, low, step)
            chex.assert_trees_all_close(found, (value, grads), rtol=1e-5)
        assert from_source(module.script(show_meta=True)).script() == module.script()


def test_symbolic_and_unknown_shapes() -> None:
    n, key = SymbolicVar("n"), TensorType((), "key<fry>")
    assert inferred("random.normal", key, (n, 3)) == tensor(n, 3)
    some = Var("s", ShapeType(None, 2))
    assert inferred("random.uniform", key, some) == TensorType(some, "float32")
    assert inferred("random.split", key, n) == TensorType((n,), "key<fry>")
    assert inferred("random.categorical", key, tensor(n, 3)) == tensor(n, dtype="int32")
    unknown = TensorType(None, "float32", 3)
    assert inferred("random.categorical", key, unknown) == TensorType(None, "int32", 2)
    assert inferred("random.bernoulli", key, unknown) == TensorType(None, "bool", 3)


K = TensorType((), "key<fry>")
S = ShapeExpr((2, 3))
ERRORS: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("key", (1.5,), {}, "`seed` must be an integer, found dtype float64"),
    ("key", (tensor(2, dtype="int32"),), {}, "`seed` must be one integer, found 1 dimension"),
    ("key", (S,), {}, "`seed` must be a number or a tensor"),
    ("key", (0, "mersenne"), {}, "`impl` must be one of threefry2x32, rbg, unsafe_rbg"),
    ("normal", (tensor(2, dtype="uint32"), S), {}, r"`key` must be a random key, as R.random.key"),
    ("normal", (TensorType((2,), "key<fry>"), S), {}, "`key` must be one key, found 1 dimension"),
    ("normal", (K, S, "int32"), {}, "`dtype` must be a float dtype, found int32"),
    ("normal", (K, (-2,)), {}, "`shape` must have no negative dimension"),
    ("split", (K, -1), {}, r"`num` must not be negative, found \[-1\]"),
    ("fold_in", (K, tensor()), {}, "`data` must be an integer, found dtype float32"),
    ("fold_in", (K, tensor(2, dtype="int32")), {}, "`data` must be one integer"),
    ("uniform", (K, S, tensor(2)), {}, r"`minval` of shape \(2\) does not broadcast to \(2, 3\)"),
    ("uniform", (K, S, 0, tensor(4, 2, 3)), {}, r"`maxval` of shape \(4, 2, 3\) does not"),
    ("uniform", (K, S), {"dtype": "int32"}, "`dtype` must be a float dtype"),
    ("bernoulli", (K, tensor(dtype="int32")), {}, "`p` must have a float dtype, found int32"),
    ("bernoulli", (K, tensor(4), S), {}, r"`p` of shape \(4\) does not broadcast to \(2, 3\)"),
    *(
        (name, (tensor(2, dtype="uint32"), *rest), {}, r"`key` must be a random key, as R.random")
        for name, rest in (
            ("split", (2,)),
            ("fold_in", (1,)),
            ("uniform", (S,)),
            ("bernoulli", (0.5, S)),
            ("randint", (S, 0, 2)),
            ("categorical", (tensor(3, 4),)),
        )
    ),
    ("randint", (K, S, 0.5, 2), {}, "`minval` must be an integer"),
    ("randint", (K, S, 0, 2, "float32"), {}, "`dtype` must be an integer dtype"),
    ("categorical", (K, tensor(3, dtype="int32")), {}, "`logits` must have a float dtype"),
    ("categorical", (K, tensor(3, 4)), {"axis": 2}, r"`axis` must be in \[-2, 2\)"),
    (
        "categorical",
        (K, tensor(3, 4), S),
        {"axis": 0},
        r"the shape \(4\) of `logits` without the axis 0 does not broadcast to \(2, 3\)",
    ),
    ("categorical", (K, tensor(2, 3, 4, 5), S), {}, r"the shape \(2, 3, 4\) of `logits`"),
]


@pytest.mark.parametrize(("name", "args", "attrs", "message"), ERRORS)
def test_bad_arguments(
    name: str, args: tuple[Any, ...], attrs: dict[str, Any], message: str
) -> None:
    with pytest.raises(OpError, match=f"relax.random.{name}: {message}"):
        inferred(f"random.{name}", *args, **attrs)
