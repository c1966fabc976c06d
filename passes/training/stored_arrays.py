"""How a module stores its parameters, and what the optimizer keeps of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from relaxjax.ir.expr import Var

from .stacked_params import Stacking
from .stored_kernels import Moves
from .update import tensor_type

STORED_PARAMS = "stored_params"
STORED_OPTIM_STATES = "stored_optim_states"


@dataclass(frozen=True)
class Stored:
    """The user's parameters, those whose axes moved, those that are rows, and the arrays then."""

    params: Sequence[Var]
    moves: Moves
    stacking: Stacking
    arrays: Sequence[Var]

    @property
    def is_apart(self) -> bool:
        """Whether each is an array of its own, as it is."""
        return not self.moves and not self.stacking.groups

    def of_params(self) -> list[list[Any]]:
        """Name, array, row and order of axes of every parameter.

        The row is -1 where the array is its own, and the order is empty where no axis moved.
        """
        pairs = zip(self.params, self._places(), strict=True)
        return [[param.name, *place] for param, place in pairs]

    def of_states(self, own: Sequence[Any], stored: Sequence[Any]) -> list[list[Any]]:
        """Array, row and order of axes of each of an optimizer's states.

        `own` are those for the parameters, which `are_by_param`, and `stored` those for the arrays.
        """
        places: list[list[Any]] = []
        start = 0
        while len(places) < len(own):
            here = own[len(places) :]
            if _is_run(here, self.params) and _is_run(stored[start:], self.arrays):
                places += [[start + array, *rest] for array, *rest in self._places()]
                start += len(self.arrays)
            elif start < len(stored) and np.shape(here[0]) == np.shape(stored[start]) == ():
                places.append([start, -1, []])
                start += 1
            else:
                break
        if len(places) < len(own) or start < len(stored):
            raise ValueError(
                "SetupTrainer: the optimizer says `is_elementwise`, but its states for stacked or "
                "rearranged parameters are not stacked or rearranged like them: set "
                "`is_elementwise` to False"
            )
        return places

    def _places(self) -> list[list[Any]]:
        return [
            [array, -1 if row is None else row, list(self.moves.get(number, ()))]
            for number, (array, row) in enumerate(self.stacking.places)
        ]


def are_by_param(states: Sequence[Any], params: Sequence[Var]) -> bool:
    """Whether an optimizer's states are numbers, and runs of one array for each parameter."""
    start = 0
    while start < len(states):
        if _is_run(states[start:], params):
            start += len(params)
        elif np.shape(states[start]) == ():
            start += 1
        else:
            return False
    return True


def _is_run(states: Sequence[Any], params: Sequence[Var]) -> bool:
    """Whether states begin with one array for each parameter, of its shape."""
    dims = [tuple(tensor_type(param).dims or ()) for param in params]
    return bool(dims) and [np.shape(state) for state in states[: len(dims)]] == dims
