"""Hooks on gradients are not in an exported program, and their models are warned of."""

import warnings
from types import SimpleNamespace
from typing import Any

import pytest

from relaxjax.torch.hooks import warn_of_hooks


def holding(**hooks: Any) -> SimpleNamespace:
    return SimpleNamespace(_backward_hooks={}, _forward_hooks={1: print}, **hooks)


def model(modules: dict[str, Any], parameters: dict[str, Any]) -> Any:
    return SimpleNamespace(named_modules=modules.items, named_parameters=parameters.items)


def test_hooks_of_modules_and_parameters_are_named() -> None:
    watched = SimpleNamespace(_backward_hooks={3: print})
    before = holding(_backward_pre_hooks={4: print})
    after = holding(_post_accumulate_grad_hooks={5: print})
    given = model({"": watched, "layer": before}, {"weight": after, "bias": holding()})
    with pytest.warns(UserWarning, match="of the model itself, `layer`, `weight`, are not in what"):
        warn_of_hooks(given)
    many = model({}, dict.fromkeys("abcde", watched))
    with pytest.warns(UserWarning, match="of `a`, `b`, `c`, and 2 more, are not in what PyTorch"):
        warn_of_hooks(many)


def test_a_model_without_them_and_a_path_are_not_warned_of() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_hooks(model({"": holding()}, {"weight": holding()}))
        warn_of_hooks("net.pt2")
