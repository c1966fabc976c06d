"""Sums over axes, moved into the loops that add up what is summed."""

from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import pytest
from adjoint_checks import signed_array
from jax import lax
from parsing import parse_functions
from unknown_loops import steps

import relaxjax
from relaxjax import from_jax, to_jax
from relaxjax.ir import Call, IRModule, TensorType, TupleType, well_formed
from relaxjax.ir.op import operator_name
from relaxjax.ir.walk import nested_bindings
from relaxjax.passes import SumInLoops

X, Y = signed_array(8, 4), signed_array(8, 3, seed=1)
ZERO = jnp.zeros((8, 4, 3))


def outer(x: Any, y: Any) -> Any:
    """The gradient of weights that each sample gives."""
    return jax.vmap(jnp.outer)(x, y)


def added(n: Any, x: Any, y: Any) -> Any:
    return steps(n, lambda i, g: g + outer(x, y * i), ZERO).sum(0)


def subtracted(n: Any, x: Any, y: Any) -> Any:
    return steps(n, lambda i, g: -(outer(x, y * i) - g), ZERO).sum(0)


def from_another_start(n: Any, x: Any, y: Any) -> Any:
    return steps(n, lambda i, g: g + outer(x, y * i), outer(x, jnp.cos(y))).sum(0)


def filled_at_first(n: Any, x: Any, y: Any) -> Any:
    return steps(n, lambda i, g: g + outer(x, y * i), ZERO + 1).sum(0)


def over_two_axes(n: Any, x: Any, y: Any) -> Any:
    return steps(n, lambda i, g: g + outer(x, y * i), ZERO).sum((0, 2))


def by_a_choice(n: Any, x: Any, y: Any) -> Any:
    def step(i: Any, g: Any) -> Any:
        return lax.cond(i % 2 == 0, lambda g: g, lambda g: g + outer(x, y * i), g)

    return steps(n, step, ZERO).sum(0)


def handed_to_a_choice_for_nothing(n: Any, x: Any, y: Any) -> Any:
    def step(i: Any, both: Any) -> Any:
        g, h = both
        g = steps(i, lambda j, g: g + outer(x, y * j), g)
        return g, lax.cond(i == 2, lambda g, h: jnp.sin(h), lambda g, h: jnp.cos(h), g, h)

    return steps(n, step, (ZERO, jnp.ones(())))[0].sum(0)


def with_a_branch_that_starts_anew(n: Any, x: Any, y: Any) -> Any:
    def step(i: Any, g: Any) -> Any:
        return lax.cond(i == 2, lambda g: outer(x, y), lambda g: g + outer(x, y * i), g)

    return steps(n, step, ZERO).sum(0)


def loops_inside(n: Any, x: Any, y: Any) -> Any:
    """A step adds what a loop of its own has added up, from nothing and from what was there."""

    def step(i: Any, g: Any) -> Any:
        new = steps(i, lambda j, g: g + outer(x, y * j), ZERO)
        return steps(i, lambda j, g: g - outer(x * j, y), g + new)

    return steps(n, step, ZERO).sum(0)


def exchanged(n: Any, x: Any, y: Any) -> Any:
    a, b = steps(n, lambda i, both: (both[1] + outer(x, y), both[0]), (ZERO, ZERO))
    return a.sum(0) - 2 * b.sum(0)


def several(n: Any, x: Any, y: Any) -> Any:
    """Two sums, of which one is over another axis."""

    def step(i: Any, both: Any) -> Any:
        return both[0] + outer(x, y * i), both[1] + outer(x * i, y)

    a, b = steps(n, step, (ZERO, ZERO))
    return a.sum(0), b.sum(2)


def summed_twice(n: Any, x: Any, y: Any) -> Any:
    each = steps(n, lambda i, g: g + outer(x, y * i), ZERO)
    return each.sum(0), jnp.sin(each.sum(0))


def over_rows(n: Any, x: Any, y: Any) -> Any:
    """A loop of a known number of steps, which also stacks something."""

    def step(g: Any, row: Any) -> Any:
        return g + outer(x, y * row[0]), row * n

    end, rows = lax.scan(step, ZERO, jnp.ones((6, 4)))
    return end.sum(0), rows


def scans_inside(n: Any, x: Any, y: Any) -> Any:
    def step(i: Any, g: Any) -> Any:
        return lax.fori_loop(0, 3, lambda j, g: g + outer(x, y * j * i), g)

    return steps(n, step, ZERO).sum(0)


def added_to_others(n: Any, x: Any, y: Any) -> Any:
    """The sum is of what two loops add up, and of something else."""
    ends = [steps(n + more, lambda i, g: g + outer(x, y * i), ZERO) for more in (0, 1)]
    return (ends[0] - (ends[1] + outer(x, jnp.cos(y)))).sum(0)


SUMMED = [
    added,
    subtracted,
    from_another_start,
    filled_at_first,
    over_two_axes,
    by_a_choice,
    handed_to_a_choice_for_nothing,
    with_a_branch_that_starts_anew,
    loops_inside,
    scans_inside,
    exchanged,
    several,
    summed_twice,
    over_rows,
    added_to_others,
]
CONTROL = ("lax.while_loop", "lax.scan", "lax.switch")


def carried(mod: IRModule) -> set[tuple[Any, ...]]:
    """The shapes that loops and choices give, but for single numbers."""
    found = set()
    for binding in nested_bindings(mod["main"]):
        value, ty = binding.value, binding.var.ty
        if isinstance(value, Call) and operator_name(value) in CONTROL:
            assert isinstance(ty, TupleType)
            found |= {one.dims for one in ty.fields if isinstance(one, TensorType) and one.dims}
    return found


@pytest.mark.parametrize("function", SUMMED, ids=lambda function: function.__name__)
def test_a_loop_adds_sums(function: Callable[..., Any]) -> None:
    before = from_jax(function, 5, X, Y)
    after = SumInLoops()(before)
    well_formed(after)
    assert (8, 4, 3) in carried(before)
    assert carried(after) == {
        "over_two_axes": {(4,)},
        "over_rows": {(4, 3), (6, 4)},
        "several": {(4, 3), (8, 4)},
    }.get(function.__name__, {(4, 3)})
    assert SumInLoops()(after) is after
    for n in (0, 1, 5):
        wanted = function(n, X, Y)
        chex.assert_trees_all_close(to_jax(after, "main")(n, X, Y), wanted, rtol=1e-5, atol=1e-5)


def returned_as_well(n: Any, x: Any, y: Any) -> Any:
    each = steps(n, lambda i, g: g + outer(x, y * i), ZERO)
    return each.sum(0), each


def over_other_axes_as_well(n: Any, x: Any, y: Any) -> Any:
    each = steps(n, lambda i, g: g + outer(x, y * i), ZERO)
    return each.sum(0), each.sum(1)


def read_by_its_steps(n: Any, x: Any, y: Any) -> Any:
    return steps(n, lambda i, g: g + jnp.sin(g), outer(x, y)).sum(0)


def read_by_the_condition(n: Any, x: Any, y: Any) -> Any:
    return lax.while_loop(lambda g: g[0, 0, 0] < n, lambda g: g + 1 + outer(x, y) ** 2, ZERO).sum(0)


def read_by_a_branch(n: Any, x: Any, y: Any) -> Any:
    def step(i: Any, g: Any) -> Any:
        return lax.cond(i % 2 == 0, lambda g: g * g, lambda g: g + outer(x, y * i), g)

    return steps(n, step, ZERO).sum(0)


def read_as_a_constant(n: Any, x: Any, y: Any) -> Any:
    def step(i: Any, g: Any) -> Any:
        return g + steps(i, lambda j, h: h + j * g, ZERO)

    return steps(n, step, outer(x, y)).sum(0)


def read_inside_of_a_loop(n: Any, x: Any, y: Any) -> Any:
    def step(i: Any, g: Any) -> Any:
        return g + steps(i, lambda j, h: jnp.sin(h), g)

    return steps(n, step, outer(x, y)).sum(0)


def stacked(n: Any, x: Any, y: Any) -> Any:
    """Each step gives all that has been added up so far."""

    def step(g: Any, _: Any) -> Any:
        return g + outer(x, y), g

    end, each = lax.scan(step, ZERO, length=3)
    return end.sum(0), each


def run_over(n: Any, x: Any, y: Any) -> Any:
    """A loop inside runs over what has been added up."""

    def total(i: Any, g: Any) -> Any:
        return lax.scan(lambda sums, row: (sums + row.sum(), None), jnp.float32(i), g)[0]

    return steps(n, lambda i, g: g + total(i, g) * outer(x, y), outer(x, y)).sum(0)


def with_another_index(n: Any, x: Any, y: Any) -> Any:
    """The steps hand it on to what all of is read of."""
    a, b = steps(n, lambda i, both: (both[0] + outer(x, y), both[0]), (ZERO, ZERO))
    return a.sum(0), b


def of_half_precision(n: Any, x: Any, y: Any) -> Any:
    more = outer(x, y).astype("bfloat16")
    return steps(n, lambda i, g: g + more, more).sum(0)


def of_whole_numbers(n: Any, x: Any, y: Any) -> Any:
    more = outer(x, y).astype(int)
    return steps(n, lambda i, g: g + more, more).sum(0)


def of_one_sample(n: Any, x: Any, y: Any) -> Any:
    return steps(n, lambda i, g: g + outer(x[:1], y[:1]), ZERO[:1]).sum(0)


def with_a_number_added(n: Any, x: Any, y: Any) -> Any:
    return steps(n, lambda i, g: g + 1.0, outer(x, y)).sum(0)


def of_samples_that_end_apart(n: Any, x: Any, y: Any) -> Any:
    """A loop that was mapped over goes on for some samples, and adds nothing for the others."""

    def of_one(until: Any, x: Any, y: Any) -> Any:
        return steps(until, lambda i, g: g + jnp.outer(x, y * i), ZERO[0])

    return jax.vmap(of_one)(n + jnp.arange(8), x, y).sum(0)


STAY = [
    returned_as_well,
    over_other_axes_as_well,
    read_by_its_steps,
    read_by_the_condition,
    read_by_a_branch,
    read_as_a_constant,
    read_inside_of_a_loop,
    stacked,
    run_over,
    with_another_index,
    of_half_precision,
    of_whole_numbers,
    of_one_sample,
    with_a_number_added,
    of_samples_that_end_apart,
]


@pytest.mark.parametrize("function", STAY, ids=lambda function: function.__name__)
def test_what_stays(function: Callable[..., Any]) -> None:
    module = from_jax(function, 3, X, Y)
    assert SumInLoops()(module) is module


WRITTEN = """
@R.function
def main(n: R.Tensor((), "int32"), x: R.Tensor((8, 4), "float32")):
    @R.function
    def goes_on(n: R.Tensor((), "int32"), i: R.Tensor((), "int32"), g: R.Tensor((8, 4), "float32")):
        more = L.lt(i, n)
        return more

    @R.function
    def step(
        x: R.Tensor((8, 4), "float32"), i: R.Tensor((), "int32"), g: R.Tensor((8, 4), "float32")
    ):
        i2 = L.add(i, R.const(1, "int32"))
        g2 = L.add(g, x)
        return (i2, g2)

    done = L.while_loop(goes_on, step, n, x, R.const(0, "int32"), x, cond_consts=1, body_consts=1)
    each = done[1]
    total = L.reduce_sum(each, axes=[0])
    return {result}
"""


@pytest.mark.parametrize(
    ("result", "moves"), [("total", True), ("(total, each)", False), ("(total, done)", False)]
)
def test_what_is_returned_as_well_stays(result: str, moves: bool) -> None:
    """By itself, or with all that the loop gives."""
    module = parse_functions(WRITTEN.format(result=result))
    assert (SumInLoops()(module) is not module) is moves


def test_functions_without_loops_stay() -> None:
    module = from_jax(lambda x: (x + x).sum(0), X)
    assert SumInLoops()(module) is module


@jax.custom_vjp
def solved(w: Any, x: Any) -> Any:
    return forward(w, x)[0]


def forward(w: Any, x: Any) -> Any:
    return lax.fori_loop(0, 5, lambda _, x: jnp.tanh(w @ x), x), (w, x)


def backward(residuals: Any, adjoint: Any) -> Any:
    """Not the derivative, but a loop as of a solver that goes back."""
    w, x = residuals

    def step(carry: Any) -> Any:
        i, adjoint, of_w = carry
        return i + 1, jnp.cos(w.T @ adjoint), of_w + jnp.outer(adjoint, x)

    end = lax.while_loop(lambda carry: carry[0] < 5, step, (0, adjoint, jnp.zeros_like(w)))
    return end[2], end[1]


solved.defvjp(forward, backward)


def test_gradients_by_a_rule_that_is_a_loop_are_no_larger_than_the_weights() -> None:
    """Mapped over samples, the rule gives a gradient for each, of 256 KiB in all."""

    def loss(w: Any, x: Any) -> Any:
        return jnp.mean(jax.vmap(solved, (None, 0))(w, x) ** 2)

    w, x = signed_array(32, 32) / 4, signed_array(64, 32, seed=1)
    compiled = jax.jit(relaxjax.value_and_grad(loss, memory_policy="none")).lower(w, x).compile()
    chex.assert_trees_all_close(compiled(w, x), jax.value_and_grad(loss)(w, x), rtol=1e-4)
    analysis = compiled.memory_analysis()
    assert analysis is not None
    assert analysis.temp_size_in_bytes < 64 * 32 * 32 * 4
