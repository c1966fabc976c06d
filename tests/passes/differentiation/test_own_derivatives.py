"""Functions with derivatives of their own keep them, whatever changes the program before."""

from collections.abc import Callable

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from parsing import parse_flow, parse_functions

from relaxjax import from_jax, to_jax
from relaxjax.ir import IRModule, well_formed
from relaxjax.ops.declare import OpError
from relaxjax.passes import (
    ExpandTupleArguments,
    Gradient,
    Inline,
    InlinePrivateFunctions,
    Jvp,
    LegalizeOps,
    PartialEvaluate,
    Pass,
    RemoveUnusedOutputs,
    RemoveUnusedParameters,
    Sequential,
)
from relaxjax.passes.differentiation.gradient import GradientError

# What the derivatives of `both` are is not what its body says.
BOTH = """
@R.function(private=True)
def both(
    x: R.Tensor((2,), "float32"),
    pair: R.Tuple(R.Tensor((2,), "float32"), R.Tensor((2,), "float32")),
    unused: R.Tensor((2,), "float32"),
) -> R.Tuple(R.Tensor((2,), "float32"), R.Tensor((2,), "float32")):
    R.func_attr({"inline": True, "custom_gradient": "both_gradient"})
    y = R.add(x, pair[0])
    return (y, x)

@R.function(private=True)
def both_gradient(
    x: R.Tensor((2,), "float32"),
    pair: R.Tuple(R.Tensor((2,), "float32"), R.Tensor((2,), "float32")),
    unused: R.Tensor((2,), "float32"),
    g: R.Tuple(R.Tensor((2,), "float32"), R.Tensor((2,), "float32")),
) -> R.Tuple(
    R.Tensor((2,), "float32"),
    R.Tuple(R.Tensor((2,), "float32"), R.Tensor((2,), "float32")),
    R.Tensor((2,), "float32"),
):
    dx = R.multiply(g[0], R.const(3.0, "float32"))
    dy = R.multiply(g[0], R.const(5.0, "float32"))
    dz = R.multiply(g[0], R.const(7.0, "float32"))
    return (dx, (dy, g[1]), dz)
"""
CALLED = parse_functions(
    BOTH
    + """
@R.function
def main(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32")):
    with R.dataflow():
        some = Module.both(x, (y, x), y)
        more = Module.both(R.const([1.0, 2.0], "float32"), (x, y), y)
        loss = R.sum(R.add(some[0], more[0]))
        R.output(loss)
    return loss
"""
)
STEP = """
@R.function(private=True)
def step(
    carry: R.Tensor((), "float32"), x: R.Tensor((), "float32")
) -> R.Tuple(R.Tensor((), "float32"), R.Tensor((), "float32")):
    R.func_attr({"custom_gradient": "step_gradient", "custom_jvp": "step_jvp"})
    y = R.add(carry, x)
    return (y, y)

@R.function(private=True)
def step_gradient(
    carry: R.Tensor((), "float32"),
    x: R.Tensor((), "float32"),
    g: R.Tuple(R.Tensor((), "float32"), R.Tensor((), "float32")),
) -> R.Tuple(R.Tensor((), "float32"), R.Tensor((), "float32")):
    d = R.multiply(g[0], R.const(10.0, "float32"))
    return (d, d)

@R.function(private=True)
def step_jvp(
    carry: R.Tensor((), "float32"),
    x: R.Tensor((), "float32"),
    dcarry: R.Tensor((), "float32"),
    dx: R.Tensor((), "float32"),
) -> R.Tuple(
    R.Tuple(R.Tensor((), "float32"), R.Tensor((), "float32")),
    R.Tuple(R.Tensor((), "float32"), R.Tensor((), "float32")),
):
    y = Module.step(carry, x)
    d = R.multiply(R.add(dcarry, dx), R.const(10.0, "float32"))
    return (y, (d, d))

@R.function
def main(xs: R.Tensor((3,), "float32")):
    result = R.scan(Module.step, R.const(0.0, "float32"), xs)
    total = result[0]
    return total
"""
X, Y = np.array([[1, 2], [3, 4]], "float32")


@pytest.mark.parametrize(
    "change",
    [
        Inline(100),
        InlinePrivateFunctions(),
        PartialEvaluate(),
        ExpandTupleArguments(),
        RemoveUnusedParameters(),
        RemoveUnusedOutputs(),
    ],
    ids=lambda change: str(change.info.name),
)
def test_they_are_called_as_before(change: Pass) -> None:
    changed = change(CALLED)
    adjoint = Gradient("main")(changed)
    well_formed(adjoint)
    _, (dx, dy) = to_jax(adjoint, "main_adjoint")(X, Y)
    np.testing.assert_array_equal(dx, [3 + 5, 3 + 5])
    np.testing.assert_array_equal(dy, [5 + 7 + 7, 5 + 7 + 7])


def test_they_are_inlined_once_the_program_is_differentiated() -> None:
    adjoint = Gradient("main")(CALLED)
    flat = InlinePrivateFunctions(differentiated=True)(adjoint)
    assert [*flat] == ["main", "main_adjoint"]
    _, (dx, _) = to_jax(flat, "main_adjoint")(X, Y)
    np.testing.assert_array_equal(dx, [3 + 5, 3 + 5])


@pytest.mark.parametrize("changes", [[], [LegalizeOps()]], ids=["as it is", "legalised"])
def test_where_no_gradient_flows_none_does_in_lax_and_jax_either(changes: list[Pass]) -> None:
    body = "still = R.grad.no_grad(R.multiply(x, y))\nloss = R.sum(R.multiply(still, x))"
    module = Sequential(changes)(parse_flow(body, x=(2,), y=(2,)))
    expected = X * Y, np.zeros_like(Y)
    chex.assert_trees_all_equal(to_jax(Gradient("main")(module), "main_adjoint")(X, Y)[1], expected)
    chex.assert_trees_all_equal(jax.grad(to_jax(module, "main"), (0, 1))(X, Y), expected)


@pytest.mark.parametrize("changes", [[], [LegalizeOps()]], ids=["as it is", "legalised"])
def test_nothing_is_differentiated_by_what_a_rule_does_not_know(changes: list[Pass]) -> None:
    def loss(x: jax.Array, y: jax.Array) -> jax.Array:
        scaled = jax.custom_vjp(lambda x: x * y)
        scaled.defvjp(lambda x: (x, None), lambda _, g: (g * 7,))
        return jnp.sum(scaled(x))

    module = Sequential(changes)(from_jax(loss, X, Y))
    run = to_jax(module, "main")
    by_x = to_jax(Gradient("main", "x")(module), "main_adjoint")(X, Y)[1][0]
    np.testing.assert_array_equal(by_x, [7, 7])
    np.testing.assert_array_equal(jax.jit(jax.grad(run))(X, Y), [7, 7])
    with pytest.raises(GradientError, match=r"the operator relax\.grad\.closed_over"):
        Gradient("main", "y")(module)
    with pytest.raises(OpError, match="nothing can be differentiated by an array that a function"):
        jax.grad(run, 1)(X, Y)


def _gradient(mod: IRModule) -> object:
    return to_jax(Gradient("main")(mod), "main_adjoint")(np.ones(3, "float32"))[1][0]


def _slopes(mod: IRModule) -> object:
    pushed = to_jax(Jvp("main")(mod), "main_jvp")
    return [pushed(np.ones(3, "float32"), one)[1] for one in np.eye(3, dtype="float32")]


@pytest.mark.parametrize("derivative", [_gradient, _slopes])
def test_a_loop_over_one_takes_its_derivative(derivative: Callable[[IRModule], object]) -> None:
    found = derivative(parse_functions(STEP))
    np.testing.assert_array_equal(found, [1000, 100, 10])
