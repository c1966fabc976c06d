"""The arguments of a function: what it lets in, and what it says to everything else."""

from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from parsing import parse_functions

from relaxjax.ir import IRModule, SeqExpr, SymbolicVar, TensorType, Var
from relaxjax.ir.builder import make_function
from relaxjax.lowering import ArgumentError, to_jax

X = np.arange(6, dtype="float32").reshape(2, 3)

MODULE = parse_functions("""
@R.function
def pair(x: R.Tensor(("n", 3), "float32"), y: R.Tensor(("n",), "float32")):
    z = R.sum(x, axis=1)
    return R.add(z, y)

@R.function
def twice(x: R.Tensor(("n",), "float32"), y: R.Tensor(("n * 2 + 1",), "float32")):
    return (x, y)

@R.function
def scale(x: R.Tensor((2, 3), "float32"), by: R.Tensor((), "float32")):
    return R.multiply(x, by)

@R.function
def count(i: R.Tensor((), "int8")):
    return i

@R.function
def drawn(key: R.Tensor((), "key<fry>")):
    return R.random.uniform(key, (2,))

@R.function
def flag(b: R.Tensor((), "bool")):
    return b

@R.function
def nested(t: R.Tuple(R.Tensor((3,), "float32"), R.Tuple(R.Tensor((2,), "float32")))):
    return t

@R.function
def filled(s: R.Shape(["n", 2])):
    return R.ones(s, "float32")

@R.function
def number(p: R.Prim("int64")):
    return p

@R.function
def share(p: R.Prim("float64")):
    return p

@R.function
def choice(p: R.Prim("bool")):
    return p

@R.function
def apply(
    f: R.Callable((R.Tensor((3,), "float32"),), R.Tensor((3,), "float32")),
    x: R.Tensor((3,), "float32"),
):
    return f(x)

@R.function
def labels(i: R.Tensor((3,), "int64")):
    return i

@R.function
def wide(x: R.Tensor((3,), "float64")):
    return x

@R.function
def anything(x: R.Object):
    return x

@R.function
def any_dtype(x: R.Tensor((), dtype=None)):
    return x

@R.function
def nothing():
    return R.const(1.0, "float32")

@R.function
def big():
    return R.const(1099511627776, "int64")
""")


def run(name: str, *args: Any) -> Any:
    return to_jax(MODULE, name)(*args)


def refused(message: str, name: str, *args: Any) -> None:
    """The call must be refused with this very message."""
    with pytest.raises(ArgumentError) as caught:
        run(name, *args)
    assert str(caught.value) == message


def test_arrays_of_numpy_and_jax() -> None:
    expected = X.sum(1) + X[:, 0]
    for array in (np.asarray, jnp.asarray):
        chex.assert_trees_all_close(run("pair", array(X), array(X[:, 0])), expected)


def test_whatever_turns_into_an_array() -> None:
    class Foreign:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return X

    chex.assert_trees_all_close(run("scale", Foreign(), 2.0), X * 2)


def test_python_numbers() -> None:
    chex.assert_trees_all_close(run("scale", X, 0.1), X * np.float32(0.1))
    chex.assert_trees_all_close(run("scale", X, 3), X * 3)
    assert run("count", 100).dtype == "int8"
    assert bool(run("flag", True))
    assert run("any_dtype", 7) == 7


def test_lists_for_tuples() -> None:
    chex.assert_trees_all_equal(run("nested", [X[0], [X[:, 0]]]), (X[0], (X[:, 0],)))


def test_shapes_numbers_and_functions() -> None:
    chex.assert_trees_all_equal(run("filled", (3, 2)), np.ones((3, 2), "float32"))
    chex.assert_trees_all_equal(run("filled", np.array([3, 2])), np.ones((3, 2), "float32"))
    assert run("number", np.int64(7)) == 7
    chex.assert_trees_all_close(run("apply", lambda x: x * 2, X[0]), X[0] * 2)
    assert run("anything", "text") == "text"


def test_the_number_of_arguments() -> None:
    refused("`pair` takes 2 arguments (`x`, `y`), but 1 were given", "pair", X)
    refused("`count` takes 1 argument (`i`), but 0 were given", "count")
    refused("`nothing` takes no arguments, but 1 were given", "nothing", X)


def test_something_that_is_no_tensor() -> None:
    refused(
        "`scale`: `x` must be a tensor, found [[1.0, 2.0]] of type list; "
        "give a numpy or a JAX array",
        "scale",
        [[1.0, 2.0]],
        1.0,
    )
    given = {"x": X}
    match = r"`scale`: `x` must be a tensor, found (?s:.*) of type dict"
    with pytest.raises(ArgumentError, match=match):
        run("scale", given, 1.0)


def test_the_rank() -> None:
    refused("`pair`: `x` must have 2 dimensions, found 1: its shape is (3,)", "pair", X[0], X[:, 0])


def test_a_static_dimension() -> None:
    refused("`pair`: dimension 1 of `x` must be 3, found 2: its shape is (3, 2)", "pair", X.T, X[0])


def test_a_symbolic_dimension_is_the_same_everywhere() -> None:
    refused(
        "`pair`: dimension 0 of `y` must be n = 2, as in `x`, found 3: its shape is (3,)",
        "pair",
        X,
        X[0],
    )


def test_a_dimension_computed_from_others() -> None:
    run("twice", X[0], np.ones(7, "float32"))
    refused(
        "`twice`: dimension 0 of `y` must be n * 2 + 1 = 7, as in `x`, found 3: its shape is (3,)",
        "twice",
        X[0],
        X[0],
    )


def test_a_dimension_that_nothing_defines() -> None:
    """The script does not let one be written, but a builder may."""
    x = Var("x", TensorType((SymbolicVar("n") * 2,), "float32"))
    module = IRModule.from_expr(make_function([x], SeqExpr((), x)))
    message = r"`main`: dimension 0 of `x` is n \* 2, but no argument says what n is"
    with pytest.raises(ArgumentError, match=message):
        to_jax(module, "main")(X[0])


def test_the_dtype() -> None:
    refused(
        '`scale`: `x` must be of dtype float32, found float64: convert it by .astype("float32")',
        "scale",
        X.astype("float64"),
        1.0,
    )
    refused(
        '`count`: `i` must be of dtype int8, found int32: convert it by .astype("int8")',
        "count",
        jnp.int32(1),
    )


@pytest.mark.parametrize(
    ("key", "found"),
    [
        (lambda: jax.random.key(0, impl="rbg"), "dtype key<rbg> in shape ()"),
        (lambda: jax.random.PRNGKey(0), "dtype uint32 in shape (2,)"),
    ],
)
def test_a_random_key(key: Callable[[], jax.Array], found: str) -> None:
    refused(
        f"`drawn`: `key` must be a random key, of dtype key<fry>, found {found}: "
        'make it by jax.random.key(seed, impl="threefry2x32")',
        "drawn",
        key(),
    )


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [("count", 300, "int8"), ("count", 1.0, "int8"), ("count", True, "int8"), ("flag", 1, "bool")],
)
def test_python_numbers_that_do_not_fit(name: str, value: Any, told: str) -> None:
    param = MODULE[name].params[0].name
    refused(
        f"`{name}`: `{param}` must be of dtype {told}, which cannot hold "
        f"the Python {type(value).__name__} {value!r}",
        name,
        value,
    )


def test_an_integer_that_no_float_holds_is_taken_as_it_is() -> None:
    n = Var("n", TensorType((), "int64"))
    module = IRModule({"same": make_function([n], SeqExpr((), n))})
    with jax.enable_x64(True):
        assert to_jax(module, "same")(2**53 + 1).item() == 2**53 + 1


def test_a_large_integer_for_a_float() -> None:
    message = "must be of dtype float32, which cannot hold the Python int 16777217"
    with pytest.raises(ArgumentError, match=message):
        run("scale", X, 2**24 + 1)


def test_a_number_for_a_tensor_with_dimensions() -> None:
    with pytest.raises(ArgumentError, match=r"`x` must be a tensor, found 1\.0 of type float"):
        run("scale", 1.0, 1.0)


def test_tuples() -> None:
    told = "`nested`: `t` must be a tuple of 2 values, found"
    refused(f"{told} one of 1", "nested", (X[0],))
    refused(f"{told} 1.0 of type float", "nested", 1.0)
    refused(
        "`nested`: dimension 0 of `t`[1][0] must be 2, found 3: its shape is (3,)",
        "nested",
        (X[0], (X[0],)),
    )


def test_shapes() -> None:
    refused("`filled`: `s` must be a shape, found 3 of type int", "filled", 3)
    refused(
        "`filled`: dimension 1 of `s` must be 2, found 4: its shape is (3, 4)", "filled", (3, 4)
    )


def test_host_numbers() -> None:
    with pytest.raises(ArgumentError, match="`p` must be a number of dtype int64, found Array"):
        run("number", jnp.ones(2))
    for name, value, dtype in (
        ("number", 3.5, "int64"),
        ("number", True, "int64"),
        ("number", "3", "int64"),
        ("share", True, "float64"),
        ("choice", 1, "bool"),
    ):
        with pytest.raises(ArgumentError, match=f"`p` must be a number of dtype {dtype}, found"):
            run(name, value)
    assert run("share", 2) == 2
    assert run("share", 0.5) == 0.5
    assert run("choice", np.True_) is True


def test_functions() -> None:
    with pytest.raises(ArgumentError, match="`f` must be a function, found 1 of type int"):
        run("apply", 1, X[0])


def test_long_values_are_cut_in_messages() -> None:
    with pytest.raises(ArgumentError, match=r"found \['a{35}\.\.\. of type list"):
        run("scale", ["a" * 99], 1.0)


def test_int64_follows_the_setting_of_jax() -> None:
    """Switched off, 32 bits stand in; what they cannot hold is refused instead of changed."""
    labels = np.array([1, 2, 3])
    assert run("labels", labels).dtype == "int32"
    assert run("labels", jnp.asarray(labels)).dtype == "int32"
    with jax.enable_x64(True):
        assert run("labels", labels).dtype == "int64"
        assert run("labels", jnp.asarray(labels, "int32")).dtype == "int64"
    match = "`labels`: `i` needs int64, which JAX has switched off"
    with pytest.raises(ArgumentError, match=match):
        run("labels", labels + 2**40)


def test_constants_are_never_changed() -> None:
    with pytest.raises(ArgumentError, match=r"the constant .* needs int64, which JAX has switched"):
        run("big")
    with jax.enable_x64(True):
        assert run("big") == 2**40


def test_float64_is_refused_where_jax_has_none() -> None:
    x = X[0].astype("float64")
    message = r"`wide`: `x` needs float64, which JAX has switched off: write jax.config.update\("
    with pytest.raises(ArgumentError, match=message):
        run("wide", x)
    with jax.enable_x64(True):
        assert run("wide", x).dtype == "float64"
