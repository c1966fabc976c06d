"""The numbers that a program is run with: those that are given, and random ones for the rest."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from relaxjax.ir.expr import Var, np_dtype
from relaxjax.ir.function import Function
from relaxjax.ir.registry import did_you_mean
from relaxjax.ir.types import TensorType, is_float
from relaxjax.ir.wording import quoted
from relaxjax.lowering.trial import random_arguments
from relaxjax.training import Trainer
from relaxjax.training.initial_values import xavier_uniform

_SEED = 0


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """An argument for each parameter of a function; `origin` says in words where they are from."""

    arrays: tuple[Any, ...]
    origin: str


def inputs_of(function: Function, given: Sequence[Any]) -> Inputs:
    """Arguments of a function: those given, and random ones where a shape is given, or None."""
    drawn = _drawn(function.params)
    arrays = tuple(new if _is_open(old) else old for old, new in zip(given, drawn, strict=True))
    random = sum(map(_is_open, given))
    if not random:
        return Inputs(arrays, "the numbers given")
    if random == len(given):
        return Inputs(arrays, "random numbers")
    return Inputs(arrays, f"random numbers for {random} of {len(given)} arguments")


def by_name(function: Function, data: Any) -> list[Any]:
    """What is given for each parameter: by its name, or in the order of the first ones."""
    names = [param.name for param in function.params]
    if not isinstance(data, Mapping):
        listed = list(data) if isinstance(data, list | tuple) else [data]
        if len(listed) > len(names):
            raise ValueError(
                f"`data` has {len(listed)} arrays, but the function takes {len(names)}: "
                f"{_listed(names)}"
            )
        return [*listed, *[None] * (len(names) - len(listed))]
    for name in data:
        if name not in names:
            raise ValueError(
                f"`data` has an array for `{name}`, but the function takes {_listed(names)}"
                f"{did_you_mean(name, names)}"
            )
    return [data.get(name) for name in names]


def inputs_of_trainer(trainer: Trainer, data: Any) -> Inputs:
    """The arguments of a trainer's adjoint, of its state as it is, on a batch of `data`."""
    if data is not None:
        (batch,) = trainer.pairs([data])
        return Inputs(tuple(trainer.adjoint_arguments(*batch)), "the batch given")
    layout = trainer.layout
    drawn = _drawn((*layout.inputs, *layout.targets))
    inputs, targets = drawn[: len(layout.inputs)], drawn[len(layout.inputs) :]
    return Inputs(tuple(trainer.adjoint_arguments(inputs, targets)), "a batch of random numbers")


def _drawn(params: Sequence[Var]) -> list[Any]:
    """Random arguments as a model may meet them: what comes first is normal, and matrices keep the
    size of what they are multiplied with."""
    random = np.random.default_rng(_SEED)
    pairs = zip(params, random_arguments(params, _SEED), strict=True)
    return [_spread(random, place, param, array) for place, (param, array) in enumerate(pairs)]


def _spread(random: np.random.Generator, place: int, param: Var, array: Any) -> Any:
    ty = param.ty
    if not isinstance(ty, TensorType) or not is_float(ty.dtype) or array.ndim < 2:
        return array
    if place == 0:
        return random.standard_normal(array.shape).astype(array.dtype)
    return xavier_uniform(random, array.shape, np_dtype(str(ty.dtype)))


def _is_open(given: Any) -> bool:
    return given is None or isinstance(given, jax.ShapeDtypeStruct)


def _listed(names: Sequence[str]) -> str:
    return quoted(names) or "nothing"
