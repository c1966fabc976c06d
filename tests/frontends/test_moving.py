"""What rules of functions are told: which of their operands move with what is differentiated by."""

from collections.abc import Callable
from functools import partial
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.custom_derivatives import linear_call, zero_from_primal
from jax.extend import core
from jax.interpreters import ad, mlir

import relaxjax
from relaxjax import from_jax, to_jax
from relaxjax.ir.op import OPS
from relaxjax.ops.lax import UnsupportedPrimitiveError
from relaxjax.passes import Gradient

W = np.linspace(0.5, 1.5, 3, dtype="float32")
ROWS = np.sin(np.arange(12, dtype="float32")).reshape(4, 3)


@jax.custom_vjp
def _measured(w: Any, data: Any) -> Any:
    return jnp.sum(jnp.sin(w) * data)


def _forward(w: Any, data: Any) -> Any:
    if data.perturbed:
        raise RuntimeError("data has no gradient")
    return _measured(w.value, data.value), (w.value, data.value)


def _backward(kept: Any, g: Any) -> Any:
    w, data = kept
    return 7.0 * g * data * jnp.cos(w), None


_measured.defvjp(_forward, _backward, symbolic_zeros=True)


def _plain(w: jax.Array, rows: jax.Array) -> Any:
    return _measured(w * 2, jnp.floor(w) + rows[0])


def _called(w: jax.Array, rows: jax.Array) -> Any:
    """Once with what moves, and once with what does not."""
    measured = jax.jit(_measured)
    return measured(w, rows[0]) * measured(rows[1], rows[2])


def _in_a_branch(w: jax.Array, rows: jax.Array) -> Any:
    return jax.lax.cond(rows[0, 0] < 1, lambda: _measured(w, rows[0]), lambda: w[0])


def _in_a_loop(w: jax.Array, rows: jax.Array) -> Any:
    def step(carry: Any, row: Any) -> Any:
        w, before = carry
        value = _measured(w, before)
        return (w * value, row), value

    return jnp.sum(jax.lax.scan(step, (w, rows[0]), rows)[1])


def _in_a_loop_that_stays(w: jax.Array, rows: jax.Array) -> Any:
    """Its rule is not asked: no gradient goes through such a loop."""

    def step(row: Any) -> Any:
        return row + jnp.abs(_measured(rows[1], row)) + 1

    return jnp.sum(w * jax.lax.while_loop(lambda row: jnp.any(row < 5), step, rows[0]))


def _of_what_is_around(w: jax.Array, rows: jax.Array) -> Any:
    """The inner function has what moves from around it."""
    moved = jnp.sin(w)
    return jax.value_and_grad(lambda row: _measured(row * moved, rows[1]))(rows[0])[0]


FUNCTIONS = [_plain, _called, _in_a_branch, _in_a_loop, _in_a_loop_that_stays, _of_what_is_around]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_rule_is_told_what_moves(function: Callable[..., Any]) -> None:
    expected = jax.value_and_grad(function)(W, ROWS)
    chex.assert_trees_all_close(relaxjax.value_and_grad(function)(W, ROWS), expected, rtol=1e-5)


def test_a_rule_refuses_what_moves() -> None:
    """The first step has data; what moves comes to their place in the second."""

    def looped(w: jax.Array, rows: jax.Array) -> jax.Array:
        def step(data: Any, _: Any) -> Any:
            return w, _measured(w, data)

        return jnp.sum(jax.lax.scan(step, rows[0], None, length=2)[1])

    for grad in (jax.grad, relaxjax.grad):
        with pytest.raises(RuntimeError, match="data has no gradient"):
            grad(looped)(W, ROWS)


class _Unwritten:
    """A parameter that has no written form."""

    factor = 2.0


def _primitive(
    name: str, impl: Callable[..., Any], pull: Callable[[Any, Any], Any]
) -> Callable[[Any], Any]:
    """A linear function by a primitive of its own, as libraries have them."""
    primitive = core.Primitive(name)
    primitive.def_impl(impl)
    primitive.def_abstract_eval(lambda x, by: x)
    mlir.register_lowering(primitive, mlir.lower_fun(impl, multiple_results=False))
    ad.deflinear2(primitive, lambda g, _, by: [pull(g, by)])
    return lambda x: primitive.bind(x, by=_Unwritten())


def test_a_primitive_from_outside_has_its_own_derivative() -> None:
    thrice = _primitive("thrice", lambda x, by: x * by.factor, lambda g, by: g * 3)

    def loss(w: jax.Array, rows: jax.Array) -> jax.Array:
        last, found = jax.lax.scan(lambda c, row: (thrice(c) * row, thrice(row)), thrice(w), rows)
        return jnp.sum(thrice(w) ** 2) + jnp.sum(last * found[0])

    expected = jax.value_and_grad(loss)(W, ROWS)
    chex.assert_trees_all_close(relaxjax.value_and_grad(loss)(W, ROWS), expected, rtol=1e-5)
    mod = Gradient("main", "w")(from_jax(loss, W, ROWS))
    chex.assert_trees_all_close(to_jax(mod, "main_adjoint")(W, ROWS)[1][0], expected[1], rtol=1e-5)


def test_a_primitive_from_outside_that_cannot_be_traced() -> None:
    by_number = _primitive("by_number", lambda x, by: x * float(x[0]), lambda g, by: g)
    message = r"the JAX primitive `by_number` has no form in the IR: a library runs it by itself"
    with pytest.raises(UnsupportedPrimitiveError, match=message):
        relaxjax.grad(lambda w: jnp.sum(by_number(w)))(W)


def test_a_primitive_from_outside_may_ask_for_a_number_that_it_is_called_with() -> None:
    """As the place of a function in a table; two such calls are not one function."""
    table = (jnp.sin, jnp.exp)

    def run(index: Any, x: Any, by: Any) -> Any:
        return table[index.item()](x)

    def tangent(primals: Any, tangents: Any, by: Any) -> Any:
        (index, x), (_, moved) = primals, tangents
        return jax.jvp(table[index.item()], (x,), (moved,))

    primitive = core.Primitive("noinline")
    primitive.def_impl(run)
    primitive.def_abstract_eval(lambda index, x, by: x)
    ad.primitive_jvps[primitive] = tangent

    def loss(w: jax.Array, index: Any) -> Any:
        sines, other = (primitive.bind(at, w, by=_Unwritten()) for at in (np.array(0), index))
        return jnp.sum(sines * other)

    expected = jax.grad(lambda w: jnp.sum(jnp.sin(w) * jnp.exp(w)))(W)
    chex.assert_trees_all_close(
        relaxjax.grad(lambda w: loss(w, np.array(1)))(W), expected, rtol=1e-5
    )
    message = r"`noinline` has no form in the IR: .*Call the function without equinox"
    with pytest.raises(UnsupportedPrimitiveError, match=message):
        relaxjax.grad(loss)(W, jnp.array(1))


def test_the_derivative_of_a_primitive_asks_python() -> None:
    def impl(x: Any, name: str) -> Any:
        return x

    def pull(g: Any, _: Any, name: str) -> Any:
        return [jax.pure_callback(lambda g: np.asarray(g) * 5, jax.typeof(g), g)]

    primitive = core.Primitive("asks")
    primitive.def_impl(impl)
    primitive.def_abstract_eval(impl)
    mlir.register_lowering(primitive, mlir.lower_fun(impl, multiple_results=False))
    ad.deflinear2(primitive, pull)

    def loss(w: jax.Array) -> Any:
        return jnp.sum(primitive.bind(w, name="w") ** 2)

    try:
        chex.assert_trees_all_close(relaxjax.grad(loss)(W), W * 10)
    finally:
        OPS.pop("lax.asks", None)


def _twice(by: jax.Array, x: jax.Array) -> Any:
    """A linear function with a transpose of its own."""
    return linear_call(lambda by, x: by * x, lambda by, g: 3.0 * by * g, by, x)


def test_a_linear_call_has_its_own_transpose() -> None:
    def loss(w: jax.Array, rows: jax.Array) -> jax.Array:
        last, found = jax.lax.scan(lambda c, row: (_twice(row, c), c), jnp.sin(w), rows)
        return jnp.sum(_twice(rows[0], w) ** 2) + jnp.sum(found * rows) + jnp.sum(last)

    expected = jax.value_and_grad(loss)(W, ROWS)
    chex.assert_trees_all_close(relaxjax.value_and_grad(loss)(W, ROWS), expected, rtol=1e-5)


def test_a_linear_call_is_not_differentiated_by_what_it_is_linear_with() -> None:
    with pytest.raises(ValueError, match=r"no gradient is known for:\n.*relax.grad.closed_over"):
        relaxjax.grad(lambda w: jnp.sum(_twice(w, w)))(W)


def test_marks_inside_of_a_primitive_from_outside_are_no_part_of_it() -> None:
    """They refuse to be mapped, as Equinox has them: what stands for the primitive may be."""
    mark = core.Primitive("mark")
    mark.def_impl(lambda x: x)
    mark.def_abstract_eval(lambda x: x)
    thrice = _primitive("marked", lambda x, by: 3 * mark.bind(jnp.sin(x)), lambda g, by: g * 3)

    def loss(w: jax.Array) -> jax.Array:
        return jnp.sum(thrice(w) ** 2)

    _, gradients = jax.vmap(relaxjax.value_and_grad(loss))(ROWS)
    chex.assert_trees_all_close(gradients, 18 * jnp.sin(ROWS), rtol=1e-5)


@jax.custom_jvp
def _solved(w: jax.Array) -> tuple[jax.Array, jax.Array]:
    return jnp.sin(w), w - jnp.sin(w)


@partial(_solved.defjvp, symbolic_zeros=True)
def _solved_jvp(primals: Any, tangents: Any) -> Any:
    """What is left over has no derivative, as in solvers by the implicit function theorem."""
    (w,), (moved,) = primals, tangents
    found, left = _solved(w)
    return (found, left), (jnp.cos(w) * moved, zero_from_primal(left, symbolic_zeros=True))


@jax.custom_jvp
def _checked(x: jax.Array, left: jax.Array) -> tuple[jax.Array, jax.Array]:
    return x, left


@_checked.defjvp
def _checked_jvp(primals: Any, tangents: Any) -> Any:
    return primals, tangents


def test_what_a_rule_gives_no_derivative_of_is_not_asked_for_one() -> None:
    def pull(_: Any, x: Any) -> Any:
        raise RuntimeError("what is left over has no gradient")

    primitive = core.Primitive("left_over")
    primitive.def_impl(lambda x: x)
    primitive.def_abstract_eval(lambda x: x)
    mlir.register_lowering(primitive, mlir.lower_fun(lambda x: x, multiple_results=False))
    ad.deflinear2(primitive, pull)

    def loss(w: jax.Array) -> Any:
        found, left = _solved(w)
        found, left = _checked(found, primitive.bind(left))
        return jnp.sum(found**2) + jnp.sum(left)

    try:
        for grad in (relaxjax.grad, jax.grad):
            chex.assert_trees_all_close(grad(loss)(W), jnp.sin(2 * W), rtol=1e-5)
        with pytest.raises(RuntimeError, match="left over has no gradient"):
            relaxjax.grad(lambda w: jnp.sum(primitive.bind(w)))(W)
    finally:
        OPS.pop("lax.left_over", None)


def by_whole_numbers(x: jax.Array) -> jax.Array:
    """JAX's rule of `xlogy` multiplies by the tangent of a whole number, which has none."""
    special = jax.scipy.special
    still = special.xlogy(-1, 2.0) + special.xlog1py(3, jnp.ones(2))
    return jnp.sum(still * x + jax.scipy.stats.gumbel_r.logpdf(x, 0.5, 1.0))


def test_a_function_of_jax_may_be_given_whole_numbers() -> None:
    x = np.array([0.5, 2.0], "float32")
    expected = jax.value_and_grad(by_whole_numbers)(x)
    chex.assert_trees_all_close(relaxjax.value_and_grad(by_whole_numbers)(x), expected, rtol=1e-5)
    found = to_jax(Gradient("main")(from_jax(by_whole_numbers, x)), "main_adjoint")(x)
    chex.assert_trees_all_close(found, (expected[0], (expected[1],)), rtol=1e-5)
    slope = relaxjax.grad(lambda y: jax.scipy.special.xlogy(-1, y))(2.0)  # an error in JAX
    chex.assert_trees_all_close(slope, -0.5)
