"""What the functions of a trainable module take, by what it stands for."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from relaxjax.ir.expr import Constant, Var
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule, check_module
from relaxjax.ir.types import TupleType

from .group import Group
from .storage import Storage, params_of, states_of

BACKBONE = "backbone"
ADJOINT = "backbone_loss_adjoint"
OPTIMIZER = "optimizer"
TRAIN_STEP = "train_step"
EVALUATE = "evaluate"
LOSS_SCALE = "loss_scale"  # the attribute of a module whose adjoint takes the scale of the loss
OPTIM_STATE_NAMES = "optim_state_names"  # the attribute that says what the optimizer's states are

_MEND = "apply SetupTrainer(loss, optimizer, loss_args) to the model first"


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
        check_module(mod, "a trainer", _MEND)
        for name in (BACKBONE, ADJOINT, OPTIMIZER):
            if name not in mod:
                raise ValueError(f"the module has no function `{name}`: {_MEND}")
        if TRAIN_STEP not in mod:
            raise ValueError(
                f"the module has no function `{TRAIN_STEP}`: apply FuseTrainStep() to it first"
            )
        adjoint, optimizer = mod[ADJOINT], mod[OPTIMIZER]
        assert isinstance(adjoint, Function)
        assert isinstance(optimizer, Function)
        params, states = _count(mod, "param_num"), _count(mod, "state_num")
        first = _count(mod, "input_num")
        last = first + params + states
        targets = adjoint.params[last : -1 if mod.attrs.get(LOSS_SCALE) is not None else None]
        own, places = params_of(mod, adjoint.params[first : first + params])
        own_states, state_places = states_of(mod, _fields(optimizer.params[-1]))
        marks = mod.attrs.get(OPTIM_STATE_NAMES, ())
        return Layout(
            inputs=adjoint.params[:first],
            params=Group("params", "parameter", own),
            states=Group("states", "model state", adjoint.params[first + params : last]),
            targets=targets,
            optimizer=Group("optimizer", "optimizer state", own_states, tuple(marks)),
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


def _count(mod: IRModule, name: str) -> int:
    count = mod.attrs.get(name)
    if isinstance(count, int):
        return count
    raise ValueError(f"the module's attribute `{name}` is {count!r} and no integer: {_MEND}")


def optimizer_state(train_mod: IRModule) -> list[Any]:
    """The initial state of the optimizer, as `SetupTrainer` leaves it in the module."""
    state = train_mod.attrs.get("optim_state")
    if state is None:
        raise ValueError(f"the module has no attribute `optim_state`: {_MEND}")
    return [array.data if isinstance(array, Constant) else array for array in state]
