"""What a trainer holds for a trainable module: the groups of arrays that a step changes."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax

from relaxjax.ir.expr import Constant, Var
from relaxjax.ir.module import IRModule, check_module
from relaxjax.trainable.arguments import MEND, Arguments, required_function
from relaxjax.trainable.names import ADJOINT, OPTIM_STATE, OPTIM_STATE_NAMES, OPTIMIZER, TRAIN_STEP
from relaxjax.trainable.storage import Storage, params_of, states_of

from .inputs import admit, device_dtype, static_shape, to_device
from .random_state import is_key, key_of_seed

Arrays: TypeAlias = tuple[Any, ...]  # jax arrays; None for what has no value yet
Initializer: TypeAlias = Callable[[Sequence[int], Any], Any]  # values from a shape and a dtype
Values: TypeAlias = Sequence[Any] | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Group:
    """The variables of a group; `name` is its field in `TrainState`, `kind` what one of them is.

    `marks` tell them from others that have the same names and types.
    """

    name: str
    kind: str
    vars: tuple[Var, ...]
    marks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, count in Counter(var.name for var in self.vars).items():
            if count > 1:
                raise ValueError(f"more than one {self.kind} is called `{name}`: rename them")

    def empty(self) -> Arrays:
        """No value for any of them."""
        return (None,) * len(self.vars)

    def initial(self, rule: Initializer, places: Sequence[Any]) -> Arrays:
        """Values made by a rule from shape and dtype; random keys are those of seed 0.

        `places` are where each of them goes.
        """
        return tuple(
            to_device(
                key_of_seed(var, static_shape(self.kind, var), 0, index)
                if is_key(var)
                else rule(static_shape(self.kind, var), device_dtype(var)),
                place,
            )
            for index, (var, place) in enumerate(zip(self.vars, places, strict=True))
        )

    def seeded(self, seed: int, old: Arrays, places: Sequence[Any]) -> Arrays:
        """The random keys made of a seed, everything else as it was."""
        return tuple(
            to_device(key_of_seed(var, static_shape(self.kind, var), seed, index), place)
            if is_key(var)
            else array
            for index, (var, array, place) in enumerate(zip(self.vars, old, places, strict=True))
        )

    def loaded(self, values: Values, old: Arrays, places: Sequence[Any]) -> Arrays:
        """Given values: a list of all of them, or a mapping by name that leaves the rest alone."""
        named = self._by_name(values)
        return tuple(
            admit(self.kind, var, named[var.name], place) if var.name in named else array
            for var, array, place in zip(self.vars, old, places, strict=True)
        )

    def _by_name(self, values: Values) -> dict[str, Any]:
        if isinstance(values, Mapping):
            known = {var.name for var in self.vars}
            for name in values:
                if name not in known:
                    raise ValueError(
                        f"{self.kind.capitalize()} {name} is not found in the model: "
                        f"it has {', '.join(f'`{n}`' for n in sorted(known)) or 'none'}"
                    )
            return dict(values)
        if not isinstance(values, list | tuple):
            raise ValueError(
                f"The type of extern_{self.name} should be either list or dict, "
                f"but it is {type(values).__name__}"
            )
        if len(values) != len(self.vars):
            raise ValueError(
                f"The length of extern {self.kind}s is {len(values)}, which does not match "
                f"the number of {self.kind}s {len(self.vars)}"
            )
        return dict(zip((var.name for var in self.vars), values, strict=True))

    def exported(self, arrays: Arrays) -> dict[str, jax.Array]:
        """Copies by name, which later steps leave alone."""
        self.check_initialised(arrays, "exporting")
        return {
            var.name: to_device(array, array.sharding)
            for var, array in zip(self.vars, arrays, strict=True)
        }

    def check_initialised(self, arrays: Arrays, wanted: str) -> None:
        for index, (var, array) in enumerate(zip(self.vars, arrays, strict=True)):
            if array is None:
                raise RuntimeError(
                    f"The {index}-th {self.kind} is not initialized before {wanted}: give "
                    f"`{var.name}` a value by zero_init_{self.name}() or load_{self.name}()"
                )


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
        arguments = Arguments.of(mod, ADJOINT)
        required_function(mod, OPTIMIZER)
        if TRAIN_STEP not in mod:
            raise ValueError(
                f"the module has no function `{TRAIN_STEP}`: apply FuseTrainStep() to it first"
            )
        params, places = params_of(mod, arguments.params)
        states, state_places = states_of(mod)
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

    @property
    def variables(self) -> dict[str, Sequence[Var]]:
        """All that a step takes: a batch, and the groups, by their names."""
        groups = {group.name: group.vars for group in self.groups}
        return {"inputs": self.inputs, "targets": self.targets, **groups}

    @property
    def argument_names(self) -> tuple[list[str], list[str]]:
        """The names of the inputs of the model, and of the targets of the loss."""
        return [var.name for var in self.inputs], [var.name for var in self.targets]


def optimizer_state(train_mod: IRModule) -> list[Any]:
    """The initial state of the optimizer, as `SetupTrainer` leaves it in the module."""
    state = train_mod.attrs.get(OPTIM_STATE)
    if state is None:
        raise ValueError(f"the module has no attribute `{OPTIM_STATE}`: {MEND}")
    return [array.data if isinstance(array, Constant) else array for array in state]
