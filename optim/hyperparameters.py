"""What numbers a hyperparameter may be: others are an error before anything is trained."""

import inspect
import math
from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any, TypeAlias

import numpy as np

from relaxjax.ir.registry import did_you_mean

Range: TypeAlias = tuple[Callable[[float], bool], str]

_NOT_NEGATIVE: Range = (lambda value: value >= 0, "at least 0")
_PART: Range = (lambda value: 0 <= value < 1, "at least 0 and below 1")
_SHARE: Range = (lambda value: 0 <= value <= 1, "from 0 to 1")

RANGES: dict[str, Range] = {
    **dict.fromkeys(("lr", "eps", "weight_decay"), _NOT_NEGATIVE),
    **dict.fromkeys(("betas", "b1", "b2"), _PART),
    **dict.fromkeys(("momentum", "dampening"), _SHARE),
}


def check_numbers(optimizer: str, **values: Any) -> None:
    """Raise where one of these hyperparameters is no number, or none that trains anything."""
    for name, value in values.items():
        if not is_number(value):
            raise TypeError(
                f"{optimizer}: `{name}` must be a number, but it is {value!r} of type "
                f"{type(value).__name__}: {_mend(name, value)}"
            )
        holds, words = RANGES[name]
        if not (math.isfinite(value) and holds(value)):
            raise ValueError(f"{optimizer}: `{name}` must be {words}, but it is {value}")


def _mend(name: str, value: Any) -> str:
    if callable(value):
        return "schedules are for optimizers of optax, such as AdamW or from_optax(optax.adam(...))"
    return f"write {name}=float(value)"


def check_betas(optimizer: str, betas: Any) -> None:
    """Raise where these are not the two parts of Adam's means that are kept in a step."""
    if not isinstance(betas, tuple | list) or len(betas) != 2:
        raise TypeError(
            f"{optimizer}: `betas` must be a pair such as (0.9, 0.999), but it is {betas!r}"
        )
    for beta in betas:
        check_numbers(optimizer, betas=beta)


def check_known(optimizer: str, options: Mapping[str, Any]) -> None:
    """Raise where one of the options of optax's that go by known names is a number out of range.

    Where it is something else, such as a schedule, optax knows what to do.
    """
    numbers = {n: value for n, value in options.items() if n in RANGES and is_number(value)}
    check_numbers(optimizer, **numbers)


def check_names(
    optimizer: str, path: str, make: Callable[..., Any], options: Mapping[str, Any]
) -> None:
    """Raise where optax has no such option, which PyTorch may have under this name."""
    known = list(inspect.signature(make).parameters)[1:]  # behind the learning rate
    for name in options:
        if name not in known:
            pair = ": for betas=(0.9, 0.999) write b1=0.9, b2=0.999" if name == "betas" else ""
            raise TypeError(
                f"{optimizer} has no option `{name}`{pair or did_you_mean(name, known)}; "
                f"{path} has {', '.join(known)}"
            )


def check_rate(optimizer: str, lr: Any) -> None:
    """Raise where optax would take what is no learning rate: by None it goes up the gradient."""
    one = hasattr(lr, "__float__") and np.ndim(lr) == 0 and not isinstance(lr, bool)
    if not (callable(lr) or one):
        raise TypeError(
            f"{optimizer}: `lr` must be a number or a schedule of optax's, but it is {lr!r} of "
            f"type {type(lr).__name__}"
        )


def is_number(value: Any) -> bool:
    """Whether it is one number; True is none, though Python counts it 1."""
    if isinstance(value, bool):
        return False
    return isinstance(value, Real) or (isinstance(value, np.ndarray) and value.ndim == 0)
