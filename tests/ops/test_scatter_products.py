"""Products that are scattered: derivatives where factors of one place are zero."""

from collections.abc import Callable
from functools import cache
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quickly_compiled_programs import QUICK

from relaxjax.ir import BlockBuilder, IRModule, TensorType
from relaxjax.ir.expr import Call, Var, const
from relaxjax.lowering import to_jax
from relaxjax.ops.emit import call
from relaxjax.passes import Gradient

PLACES = np.array([0, 0, 0, 1, 1])
SCALES = np.array([1, 2, 3], "float32")
WEIGHTS = [np.array([0.5, -1.5, 2], "float32"), np.array([1, -2, 0.5, 3, -0.25], "float32")]


def product(data: Any, updates: Any) -> Any:
    """What the program computes, without a scatter."""
    first = data[0] * updates[0] * updates[1] * updates[2]
    return first + 2 * data[1] * updates[3] * updates[4] + 3 * data[2]


def weighted(gradient: Callable[..., Any]) -> Callable[..., Any]:
    def loss(*args: Any) -> Any:
        return sum(jnp.sum(g * w) for g, w in zip(gradient(*args), WEIGHTS, strict=True))

    return loss


def with_main() -> IRModule:
    builder = BlockBuilder()
    data, updates = (Var(n, TensorType((k,), "float32")) for n, k in (("data", 3), ("updates", 5)))
    with builder.function("main", [data, updates]):
        with builder.dataflow():
            scattered = call("scatter_elements", data, const(PLACES), updates, 0, "mul")
            loss = builder.emit_output(call("sum", builder.emit(scattered * const(SCALES))))
        builder.emit_func_output(loss)
    return builder.get()


def differentiated(mod: IRModule, name: str, then: str) -> IRModule:
    """The module with `then`, a weighted sum of the gradients of `name`."""
    mod = Gradient(name)(mod)
    builder = BlockBuilder(mod)
    data, updates = (Var(n, TensorType((k,), "float32")) for n, k in (("data", 3), ("updates", 5)))
    with builder.function(then, [data, updates]):
        with builder.dataflow():
            adjoint = Call(mod.get_global_var(f"{name}_adjoint"), (data, updates))
            gradients = builder.emit(builder.emit(adjoint)[1])
            sums = [call("sum", builder.emit(gradients[i]) * const(WEIGHTS[i])) for i in (0, 1)]
            loss = builder.emit_output(builder.emit(sums[0]) + builder.emit(sums[1]))
        builder.emit_func_output(loss)
    return builder.get()


UPDATES = {
    "none": [1, 2, 3, 4, 5],
    "one in each place": [0, 2, 3, 4, 0],
    "two in one place": [0, 0, 3, 4, 5],
    "two in the other place": [1, 2, 3, 0, 0],
    "all": [0, 0, 0, 0, 0],
}


@cache
def derivatives() -> list[tuple[Callable[..., Any], Callable[..., Any]]]:
    """Of each order the gradients, by a program and by JAX."""
    mod, wanted, name = with_main(), product, "main"
    found: list[tuple[Callable[..., Any], Callable[..., Any]]] = []
    for order in range(3):
        ours = jax.jit(to_jax(Gradient(name)(mod), f"{name}_adjoint"), compiler_options=QUICK)
        found.append((ours, jax.jit(jax.grad(wanted, (0, 1)), compiler_options=QUICK)))
        wanted = weighted(jax.grad(wanted, (0, 1)))
        mod, name = differentiated(mod, name, f"of_order_{order}"), f"of_order_{order}"
    return found


@pytest.mark.parametrize("data", [[2, 3, 4], [0, 3, 4]], ids=["data", "a zero among the data"])
@pytest.mark.parametrize("updates", UPDATES.values(), ids=UPDATES)
def test_derivatives_up_to_the_third_are_exact(updates: list[int], data: list[int]) -> None:
    args = [np.array(data, "float32"), np.array(updates, "float32")]
    for ours, theirs in derivatives():
        chex.assert_trees_all_close(tuple(ours(*args)[1]), theirs(*args), rtol=1e-5, atol=1e-5)
