"""What an optimizer is made of is told in values, or not at all."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import optax
import pytest

from relaxjax.optim import Adam, Lazy, from_optax
from relaxjax.passes.infrastructure import described
from relaxjax.passes.infrastructure.described import IndescribableError, description

KNOWN: dict[str, Callable[[float], Any]] = {
    "own": Adam,
    "lazy": lambda rate: Lazy(Adam(rate)),
    "optax": lambda rate: from_optax(optax.adamw(rate)),
    "a chain": lambda rate: from_optax(
        optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(rate, momentum=0.9))
    ),
    "a schedule": lambda rate: from_optax(optax.lion(optax.cosine_decay_schedule(rate, 100))),
    "a mask": lambda rate: from_optax(optax.masked(optax.sgd(rate), {"w": True, "b": False})),
    "a number of NumPy": lambda rate: from_optax(optax.sgd(np.float32(rate))),  # pyright: ignore[reportArgumentType]  # optax takes any number
    "another function": lambda rate: from_optax(
        optax.sgd(optax.linear_schedule(rate, 0.0, 9) if rate < 0.15 else rate)
    ),
}


@pytest.mark.parametrize("name", KNOWN)
def test_the_same_optimizer_is_told_alike_and_another_number_is_not(name: str) -> None:
    make = KNOWN[name]
    assert repr(description(make(0.1))) == repr(description(make(0.1)))
    assert repr(description(make(0.1))) != repr(description(make(0.2)))
    assert " at 0x" not in repr(description(make(0.1)))


def test_masks_and_the_nesting_of_parameters_count() -> None:
    masks = [from_optax(optax.masked(optax.sgd(0.1), {"w": flag})) for flag in (True, False)]
    nested = [jax.tree.structure(tree) for tree in ({"w": 1}, {"v": 1}, [1], None)]
    told = {repr(description(one)) for one in (*masks, *nested)}
    assert len(told) == 6


@functools.wraps(optax.constant_schedule(0.1))
def _disguised(count: Any) -> float:
    return 0.1


def _holding_itself() -> Any:
    held: list[Any] = []
    held.append(held)
    return held


@pytest.mark.parametrize(
    "value",
    [
        from_optax(optax.sgd(lambda count: 0.1)),
        from_optax(optax.sgd(_disguised)),
        from_optax(optax.masked(optax.sgd(0.1), lambda params: params)),
        functools.partial(_disguised, 1),
        _holding_itself(),
        np.zeros(3),
        object(),
    ],
    ids=["lambda", "wrapped", "mask", "partial", "cycle", "array", "object"],
)
def test_what_is_not_known_is_not_told(value: Any) -> None:
    with pytest.raises(IndescribableError):
        description(value)


def test_a_class_that_only_bears_a_name_of_optax_is_not_told() -> None:
    false = type("GradientTransformation", (tuple,), {"__module__": "optax._src.base"})
    with pytest.raises(IndescribableError):
        description(false((1, 2)))


def test_the_sources_of_optax_count(monkeypatch: pytest.MonkeyPatch) -> None:
    before = description(from_optax(optax.sgd(0.1)))
    monkeypatch.setattr(described, "code", lambda _: "another release")
    assert description(from_optax(optax.sgd(0.1))) != before
