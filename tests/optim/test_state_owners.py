"""Which parameter each state of an optimizer is of: those are split on several devices like it."""

from typing import Any

import jax
import optax
import pytest

from relaxjax.ir import TensorType, Var
from relaxjax.optim import SGD, Adam, MomentumSGD, OptaxOptimizer, from_optax

# optax sees them by name, and so in another order.
PARAMS = [Var("w", TensorType((2, 3), "float32")), Var("b", TensorType((3,), "float32"))]


@pytest.mark.parametrize(
    ("optimizer", "owners"),
    [
        (SGD(0.1), [None]),
        (MomentumSGD(0.1, 0.9), [None, 0, 1]),
        (Adam(0.1), [None, None, None, 0, 1, 0, 1]),
        (from_optax(optax.adam(0.1)), [None, 1, 0, 1, 0]),
        (from_optax(optax.masked(optax.trace(0.9), {"w": True, "b": False})), [0]),
        (from_optax(optax.scale_by_factored_rms(min_dim_size_to_factor=2)), [*[None] * 5, 1, None]),
    ],
)
def test_states_are_of_parameters(optimizer: Any, owners: list[int | None]) -> None:
    assert optimizer.init(PARAMS).state_owners == owners


def test_nested_parameters_are_told_by_their_ways() -> None:
    tree = jax.tree.structure({"layers": [{"w": 0}, {"w": 0}]})
    params = [Var(f"layers_{n}_w", TensorType((2, 2), "float32")) for n in range(2)]
    optimizer = OptaxOptimizer(optax.adam(0.1), tree=tree)
    assert optimizer.init(params).state_owners == [None, 0, 1, 0, 1]


def test_ten_parameters_in_a_list_and_more_are_told_by_their_places() -> None:
    """By name, the eleventh would come before the third."""
    tree = jax.tree.structure([0] * 12)
    params = [Var(f"layers_{n}", TensorType((n + 1,), "float32")) for n in range(12)]
    optimizer = OptaxOptimizer(optax.trace(0.9), tree=tree)
    assert optimizer.init(params).state_owners == list(range(12))
