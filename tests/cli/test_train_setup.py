"""Optimizers as the options of `relaxjax train` put them together."""

import argparse
from typing import Any

import optax
import pytest

from relaxjax.cli.train_setup import OPTIMIZERS, optimizer
from relaxjax.ir import TensorType, Var, assert_structural_equal
from relaxjax.optim import from_optax


def options(**changed: Any) -> Any:
    given = {
        "optim": "adamw", "lr": 0.1, "weight_decay": None, "schedule": "constant", "warmup": 0,
        "clip": None, "accumulate": 1,
    }  # fmt: skip
    return argparse.Namespace(**{**given, **changed})


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_makes_its_function(name: str) -> None:
    made = optimizer(options(optim=name, weight_decay=0.1), 100)
    weight = Var("w", TensorType((3, 2), "float32"))
    assert made.init([weight]).get_function().params[0].name == "params"


def test_what_stands_around_an_optimizer() -> None:
    """Each leaves its mark in the state or in the program."""
    weight = Var("w", TensorType((3, 2), "float32"))
    plain = optimizer(options(optim="sgd"), 100).init([weight])
    assert len(plain.state) == 0
    clipped = optimizer(options(optim="sgd", clip=1.0), 100).init([weight])
    assert "sqrt" in clipped.get_function().script()
    scheduled = optimizer(options(optim="sgd", schedule="cosine", warmup=3), 100).init([weight])
    assert len(scheduled.state) == 1
    assert "cos" in scheduled.get_function().script()
    gathered = optimizer(options(optim="sgd", schedule="linear", accumulate=4), 100).init([weight])
    assert len(gathered.state) > 2


def test_the_last_of_accumulated_updates_ends_the_schedule() -> None:
    """Ten steps make two updates by four, at the whole rate and at half of it."""
    given = options(optim="sgd", schedule="linear", accumulate=4)
    by_hand = from_optax(optax.MultiSteps(optax.sgd(optax.linear_schedule(0.1, 0.0, 2)), 4), "sgd")
    weight = Var("w", TensorType((3, 2), "float32"))
    made = optimizer(given, 10).init([weight]).get_function()
    assert_structural_equal(made, by_hand.init([weight]).get_function())
