"""Loops and branches of JAX as operators on Relax functions, written by hand in the script."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax_reading import read_module
from parsing import parse_functions

from relaxjax import Function, FuncType, TensorType, TupleType, Var, to_jax
from relaxjax.ir.op import get_op
from relaxjax.ops import OpError
from relaxjax.ops.cost import Cost, function_cost

X = np.arange(6, dtype="float32").reshape(3, 2)
ROW = TensorType((2,), "float32")


LOOPS = parse_functions("""
    @R.function
    def scan(x: R.Tensor((3, 2), "float32"), c: R.Tensor((2,), "float32")):
        @R.function
        def body(
            scale: R.Tensor((2,), "float32"),
            c: R.Tensor((2,), "float32"),
            y: R.Tensor((2,), "float32"),
        ):
            z = L.add(c, y)
            scaled = L.mul(z, scale)
            return (z, scaled)

        result = L.scan(body, c, c, x, length=3, num_consts=1, num_carry=1)
        return result

    @R.function
    def loop(x: R.Tensor((2,), "float32")):
        @R.function
        def small(limit: R.Tensor((), "float32"), c: R.Tensor((2,), "float32")):
            total = L.reduce_sum(c, axes=[0])
            less = L.lt(total, limit)
            return less

        @R.function
        def double(c: R.Tensor((2,), "float32")):
            twice = L.add(c, c)
            return (twice,)

        result = L.while_loop(
            small, double, R.const(50.0, "float32"), x, cond_consts=1, body_consts=0
        )
        return result

    @R.function
    def choice(i: R.Tensor((), "int32"), x: R.Tensor((2,), "float32")):
        @R.function
        def sine(y: R.Tensor((2,), "float32")):
            z = L.sin(y)
            return (z,)

        @R.function
        def cosine(y: R.Tensor((2,), "float32")):
            z = L.cos(y)
            return (z,)

        result = L.switch(i, sine, cosine, x)
        return result

    @R.function
    def extent(x: R.Tensor((3, 2), "float32")):
        @R.function
        def wider(
            low: R.Tensor((), "float32"),
            high: R.Tensor((), "float32"),
            lower: R.Tensor((), "float32"),
            higher: R.Tensor((), "float32"),
        ):
            least = L.min(low, lower)
            most = L.max(high, higher)
            return (least, most)

        result = L.reduce(
            wider, x, x, R.const(2.0, "float32"), R.const(3.0, "float32"), dimensions=[0]
        )
        return result

    @R.function
    def here(x: R.Tensor((2,), "float32")):
        @R.function
        def elsewhere(y: R.Tensor((2,), "float32")):
            z = L.neg(y)
            return (z,)

        @R.function
        def on_cpu(y: R.Tensor((2,), "float32")):
            z = L.abs(y)
            return (z,)

        result = L.platform_dependent(on_cpu, elsewhere, x, platforms=[["cpu", "tpu"], None])
        return result
""")


def run(name: str, *args: Any) -> Any:
    """A function of the module, under jit: all branches are traced."""
    return jax.jit(to_jax(LOOPS, name))(*args)


def test_scan() -> None:
    start = np.array([1.0, 2.0], "float32")
    expected = jax.lax.scan(lambda c, y: (c + y, (c + y) * start), start, X)
    chex.assert_trees_all_close(run("scan", X, start), expected)
    assert LOOPS["scan"].ret_ty == TupleType((ROW, TensorType((3, 2), "float32")))


def test_while_loop() -> None:
    chex.assert_trees_all_close(run("loop", X[1]), (X[1] * 16,))
    assert LOOPS["loop"].ret_ty == TupleType((ROW,))


def test_switch() -> None:
    for index, function in enumerate((jnp.sin, jnp.cos)):
        chex.assert_trees_all_close(run("choice", np.int32(index), X[1]), (function(X[1]),))


def test_reduce() -> None:
    chex.assert_trees_all_close(run("extent", X), (X.min(0), X.max(0)))
    assert LOOPS["extent"].ret_ty == TupleType((ROW, ROW))


def test_a_reduction_costs_its_function_at_each_element() -> None:
    extent = LOOPS["extent"]
    assert isinstance(extent, Function)
    assert function_cost(extent, LOOPS) == Cost(6 * 2, 2 * X.nbytes + 8 + 2 * 8)


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="the branch of the CPU is expected")
def test_platform_dependent() -> None:
    chex.assert_trees_all_close(run("here", -X[1]), (X[1],))


def test_loops_differentiate_under_jax() -> None:
    """Not by a rule of ours, but as any other function of JAX."""
    gradient = jax.grad(lambda x: to_jax(LOOPS, "scan")(x, X[0])[0].sum())(X)
    chex.assert_trees_all_close(gradient, np.ones_like(X))


def test_the_type_of_a_loop_over_unknown_shapes() -> None:
    unknown = TensorType(None, "float32", 1)
    body = Var("body", FuncType((ROW, ROW), TupleType((ROW, unknown))))
    x = Var("x", ROW)
    call = get_op("lax.scan")(body, x, x, length=3, num_consts=0, num_carry=1)
    assert call.ty == TupleType((ROW, TensorType(None, "float32", 2)))


def test_a_loop_needs_a_function() -> None:
    message = "lax.while_loop: argument 2 must be a function, but `x` is of type R.Tensor"
    x = Var("x", ROW)
    with pytest.raises(OpError, match=message):
        get_op("lax.while_loop")(Var("f", FuncType()), x, cond_consts=0, body_consts=0)


def test_a_loop_without_arguments() -> None:
    match = r"lax.scan: argument 1 must be a function, but it is missing"
    with pytest.raises(OpError, match=match):
        get_op("lax.scan")(length=3, num_consts=0, num_carry=0)


def test_a_body_returns_a_tuple() -> None:
    message = "lax.scan: the body must return a tuple, but it returns R.Tensor"
    with pytest.raises(OpError, match=message):
        get_op("lax.scan")(
            Var("body", FuncType((ROW,), ROW)), Var("x", ROW), length=3, num_consts=0, num_carry=1
        )


def test_a_mapped_loop_stops_for_each_element_by_itself() -> None:
    """Its condition has a dimension of its own, as JAX makes it of a loop that it maps."""

    def doubled(x: Any) -> Any:
        return jax.lax.while_loop(lambda c: c[0] < 10, lambda c: (c[0] * 2, c[1] + 1), (x, 0 * x))

    x = np.array([1.0, 3.0, 20.0], "float32")
    module = read_module(jax.vmap(doubled), x)
    found = jax.jit(to_jax(module, "main"))(x)
    chex.assert_trees_all_close(found, jax.vmap(doubled)(x))
    # One after the other, the loop with a step for two elements of each.
    rows = np.stack([x, x + 1], axis=1)
    by_row = read_module(jax.vmap(lambda row: jax.vmap(doubled)(row)[0].sum()), rows)
    chex.assert_trees_all_close(
        to_jax(by_row, "main")(rows), jax.vmap(doubled)(rows.reshape(-1))[0].reshape(3, 2).sum(1)
    )
