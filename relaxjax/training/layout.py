"""What a trainer holds for a trainable module: the groups of arrays that a step changes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from relaxjax.ir.expr import Constant, Var
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule, check_module
from relaxjax.ir.types import TupleType
from relaxjax.trainable.arguments import MEND, Arguments
from relaxjax.trainable.names import (
    ADJOINT,
    BACKBONE,
    OPTIM_STATE,
    OPTIM_STATE_NAMES,
    OPTIMIZER,
    TRAIN_STEP,
)
from relaxjax.trainable.storage import Storage, params_of, states_of

from .group import Group


@dataclass(frozen=True, slots=True)
class Layout:
    """The arguments of the adjoint function in their order, and the optimizer's state.

    Parameters and optimizer states are the user's own; `storage` says, by the name of the group,
    where the functions have them.
    """

    inputs: tuple[Var, ...]
    params: Group
    states: Group
    targets: tuple[Var, ...]
    optimizer: Group
    storage: Mapping[str, Storage]

    @staticmethod
    def of(mod: IRModule) -> "Layout":
        """The layout of a module made by `SetupTrainer`."""
        check_module(mod, "a trainer", MEND)
        for name in (BACKBONE, ADJOINT, OPTIMIZER):
            if name not in mod:
                raise ValueError(f"the module has no function `{name}`: {MEND}")
        if TRAIN_STEP not in mod:
            raise ValueError(
                f"the module has no function `{TRAIN_STEP}`: apply FuseTrainStep() to it first"
            )
        optimizer, arguments = mod[OPTIMIZER], Arguments.of(mod, ADJOINT)
        assert isinstance(optimizer, Function)
        params, places = params_of(mod, arguments.params)
        states, state_places = states_of(mod, _fields(optimizer.params[-1]))
        marks = tuple(mod.attrs.get(OPTIM_STATE_NAMES, ()))
        return Layout(
            inputs=arguments.inputs,
            params=Group("params", "parameter", params),
            states=Group("states", "model state", arguments.states),
            targets=arguments.targets,
            optimizer=Group("optimizer", "optimizer state", states, marks),
            storage={"params": places, "optimizer": state_places},
        )

    @property
    def groups(self) -> tuple[Group, Group, Group]:
        """Everything that a step changes."""
        return self.params, self.states, self.optimizer


def _fields(states: Var) -> tuple[Var, ...]:
    """The fields of the optimizer's state, as variables named by their index."""
    assert isinstance(states.ty, TupleType)
    return tuple(Var(str(index), ty) for index, ty in enumerate(states.ty.fields))


def optimizer_state(train_mod: IRModule) -> list[Any]:
    """The initial state of the optimizer, as `SetupTrainer` leaves it in the module."""
    state = train_mod.attrs.get(OPTIM_STATE)
    if state is None:
        raise ValueError(f"the module has no attribute `{OPTIM_STATE}`: {MEND}")
    return [array.data if isinstance(array, Constant) else array for array in state]
