"""Hyperparameters out of range are errors that say what they may be."""

import math
from typing import Any

import numpy as np
import optax
import pytest

from relaxjax import optim
from relaxjax.optim import SGD, Adam, AdamW, MomentumSGD

BAD = [
    (SGD, {"lr": -0.1}, "SGD: `lr` must be at least 0, but it is -0.1"),
    (SGD, {"lr": math.nan}, "SGD: `lr` must be at least 0, but it is nan"),
    (SGD, {"lr": np.float32("inf")}, "SGD: `lr` must be at least 0, but it is inf"),
    (SGD, {"lr": 1, "weight_decay": -1}, "`weight_decay` must be at least 0, but it is -1"),
    (MomentumSGD, {"lr": -1, "momentum": 0.9}, "MomentumSGD: `lr` must be at least 0"),
    (MomentumSGD, {"lr": 1, "momentum": 1.1}, "`momentum` must be from 0 to 1, but it is 1.1"),
    (MomentumSGD, {"lr": 1, "momentum": 0, "dampening": -0.5}, "`dampening` must be from 0 to 1"),
    (Adam, {"lr": -1}, "Adam: `lr` must be at least 0"),
    (Adam, {"lr": 1, "betas": (0.9, 1.0)}, "`betas` must be at least 0 and below 1, but it is 1"),
    (Adam, {"lr": 1, "betas": (-0.1, 0.9)}, "`betas` must be at least 0 and below 1"),
    (Adam, {"lr": 1, "eps": -1e-8}, "`eps` must be at least 0, but it is -1e-08"),
    (AdamW, {"lr": -1e-3}, "AdamW: `lr` must be at least 0, but it is -0.001"),
    (AdamW, {"lr": 1e-3, "b2": 1.5}, "AdamW: `b2` must be at least 0 and below 1, but it is 1.5"),
    (optim.LARS, {"lr": 1e-3, "momentum": -0.9}, "LARS: `momentum` must be from 0 to 1"),
]


@pytest.mark.parametrize(("optimizer", "options", "message"), BAD)
def test_a_number_out_of_range_is_an_error(
    optimizer: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        optimizer(**options)


@pytest.mark.parametrize("lr", ["0.1", None, 1j, True])
def test_what_is_no_number_is_an_error(lr: Any) -> None:
    with pytest.raises(TypeError, match=r"SGD: `lr` must be a number, but it is .* write lr=float"):
        SGD(lr)


@pytest.mark.parametrize("lr", ["0.1", None, [0.1], True, np.ones(2)])
def test_a_rate_of_an_optimizer_of_optax_is_a_number_or_a_schedule(lr: Any) -> None:
    match = r"AdamW: `lr` must be a number or a schedule of optax's, but it is .* of type"
    with pytest.raises(TypeError, match=match):
        AdamW(lr)


def test_a_schedule_is_for_optimizers_of_optax() -> None:
    schedule: Any = optax.constant_schedule(0.1)
    match = r"Adam: `lr` must be a number, .*: schedules are for .* AdamW or from_optax\(optax.adam"
    with pytest.raises(TypeError, match=match):
        Adam(schedule)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("betas", r"`betas`: for betas=\(0.9, 0.999\) write b1=0.9, b2=0.999; optax.adamw has b1,"),
        ("weight_decai", "`weight_decai`; did you mean `weight_decay`.*; optax.adamw has b1, b2"),
    ],
)
def test_an_option_that_optax_does_not_have_is_told_with_those_it_has(
    option: str, message: str
) -> None:
    with pytest.raises(TypeError, match=f"AdamW has no option {message}"):
        AdamW(0.1, **{option: (0.9, 0.99)})


@pytest.mark.parametrize("betas", [0.9, (0.9,), (0.9, 0.99, 0.999)])
def test_betas_are_a_pair(betas: Any) -> None:
    with pytest.raises(TypeError, match=r"Adam: `betas` must be a pair such as \(0.9, 0.999\)"):
        Adam(0.1, betas)


def test_what_stands_at_a_limit_is_none_of_the_errors() -> None:
    SGD(0, 0)
    SGD(np.array(0.1))  # type: ignore[arg-type]  # a number all the same
    MomentumSGD(1e3, 1.0, 1.0)
    Adam(np.float32(0.1), [0, 0.999], eps=0)  # type: ignore[arg-type]  # a list, and numpy's number
    AdamW(optax.constant_schedule(-1.0), weight_decay=0.0)
