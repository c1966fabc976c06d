"""What loops of unknown length carry is there at once: never more than XLA counts of them."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from unknown_loops import steps

from relaxjax import from_jax
from relaxjax.ir import Function, Var
from relaxjax.ir.op import operator_name
from relaxjax.ir.uses import Uses
from relaxjax.passes.memory.planning.carried import carried_at_once

X = jnp.linspace(0.0, 1.0, 1024).reshape(16, 64)  # of 4,096 bytes
BYTES = 4096


def one(n: Any, x: Any) -> Any:
    return steps(n, lambda i, c: jnp.sin(c) + x, x)


def two(n: Any, x: Any) -> Any:
    return steps(n, lambda i, c: (jnp.sin(c[1]), c[0] + x), (x, x + 1))


def one_unchanged(n: Any, x: Any) -> Any:
    return steps(n, lambda i, c: (jnp.sin(c[1]), c[1]), (x, x + 1))


def one_that_nothing_needs(n: Any, x: Any) -> Any:
    return steps(n, lambda i, c: (jnp.sin(c[0]), jnp.cos(c[1])), (x, x + 1))[0]


def one_for_the_condition(n: Any, x: Any) -> Any:
    start = (x, x + 1)
    going = lax.while_loop(
        lambda c: jnp.sum(c[1]) < n, lambda c: (jnp.sin(c[0]), jnp.cos(c[1]) + c[1]), start
    )
    return going[0]


def a_loop_inside(n: Any, x: Any) -> Any:
    """The outer carry is read after the inner loop, which carries as much."""
    return steps(n, lambda i, c: c + steps(i, lambda j, d: jnp.sin(d) + j, x), x)


def a_loop_inside_that_goes_on(n: Any, x: Any) -> Any:
    """The inner loop begins with the outer carry, which nothing reads any more."""
    return steps(n, lambda i, c: steps(i, lambda j, d: jnp.sin(d) + j, c), x)


def a_loop_inside_that_reads(n: Any, x: Any) -> Any:
    """The outer carry is a constant of the inner loop, and nothing reads it afterwards."""
    return steps(n, lambda i, c: steps(i, lambda j, d: jnp.sin(d) * c, x), x)


def a_loop_in_a_branch(n: Any, x: Any) -> Any:
    def step(i: Any, c: Any) -> Any:
        def added(c: Any) -> Any:
            return c + steps(i, lambda j, d: jnp.sin(d) + j, x)

        return lax.cond(i % 2 == 0, added, jnp.cos, c)

    return steps(n, step, x)


def a_loop_in_a_branch_beside(n: Any, x: Any) -> Any:
    """The outer carry is read after the choice, which does not take it."""

    def step(i: Any, c: Any) -> Any:
        new = lax.cond(i % 2 == 0, lambda: steps(i, lambda j, d: jnp.sin(d) + j, x), lambda: x)
        return c * new

    return steps(n, step, x)


def a_loop_that_was_mapped_over(n: Any, x: Any) -> Any:
    def of_one(until: Any, x: Any) -> Any:
        return steps(until, lambda i, c: jnp.sin(c) + i, x)

    return jax.vmap(of_one)(n + jnp.arange(16), x)


CASES = {
    one: 1, two: 2, one_unchanged: 1, one_that_nothing_needs: 1, one_for_the_condition: 2,
    a_loop_inside: 2, a_loop_inside_that_goes_on: 1, a_loop_inside_that_reads: 2,
    a_loop_in_a_branch: 2, a_loop_in_a_branch_beside: 2, a_loop_that_was_mapped_over: 1,
}  # fmt: skip


@pytest.mark.parametrize("function", CASES, ids=lambda function: function.__name__)
def test_what_is_there_at_once(function: Callable[..., Any]) -> None:
    mod = from_jax(function, 5, X)
    written = mod["main"]
    assert isinstance(written, Function)
    loop, known = outermost(written)
    held = sum(carried_at_once(loop, known).values())
    assert held // BYTES == CASES[function]
    assert held % BYTES < 256  # counts
    compiled = jax.jit(function).lower(5, X).compile()
    analysis = compiled.memory_analysis()
    assert analysis is not None
    results = analysis.output_size_in_bytes
    assert held <= analysis.temp_size_in_bytes + results


def outermost(function: Function) -> tuple[Var, Uses]:
    known = Uses.of(function)
    loops = [
        binding.var
        for binding in function.body.bindings()
        if operator_name(binding.value) == "lax.while_loop"
    ]
    assert len(loops) == 1
    return loops[0], known


def test_other_values_carry_nothing() -> None:
    function = from_jax(jnp.sin, X)["main"]
    assert isinstance(function, Function)
    known = Uses.of(function)
    assert [carried_at_once(b.var, known) for b in function.body.bindings()] == [{}, {}]
