"""The loss of a training step as a program of arrays: those of a batch, parameters and states."""

import inspect
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from relaxjax.frontends import JaxProgram, leaf_names, named_as, traced
from relaxjax.trainable.names import BACKBONE_LOSS

from .auxiliary_output import AuxiliaryOutput
from .loss_result import check_result
from .step_module import Counts
from .step_parts import in_parts, new_states
from .step_trees import Arrays, Nesting, apart


@dataclass(frozen=True)
class Nestings:
    """How the user nests what a loss takes.

    `frozen` are the numbers of those parameters that never move: they are the first states of a
    step, and a random key is the last one. Where it `takes_key_data`, the loss is given the numbers
    of that.
    """

    params: Nesting
    states: Nesting
    batch: Nesting
    has_states: bool
    has_key: bool
    frozen: tuple[int, ...] = ()
    takes_key_data: bool = False

    @property
    def moving(self) -> Nesting:
        """How those parameters are nested that move, as an optimizer sees them."""
        return self.params.without(self.frozen)

    def apart(self, params: Sequence[Any]) -> tuple[Arrays, Arrays]:
        """The parameters that move, and those that do not."""
        moving = tuple(array for n, array in enumerate(params) if n not in self.frozen)
        return moving, tuple(params[n] for n in self.frozen)

    def nested(self, params: Sequence[Any], states: Sequence[Any]) -> tuple[Any, Any, Any]:
        """All parameters and the model state as the user nests them, and the key or None."""
        first, last = len(self.frozen), len(states) - self.has_key
        given, kept = iter(params), dict(zip(self.frozen, states[:first], strict=True))
        count = len(self.params.places)
        whole = [kept[n] if n in kept else next(given) for n in range(count)]
        key = states[-1] if self.has_key else None
        return self.params.nested(whole), self.states.nested(states[first:last]), key


@dataclass(frozen=True)
class LossArguments:
    """The arrays that a loss takes, by what they are for a step, and how they are nested."""

    inputs: Arrays
    params: Arrays
    states: Arrays
    nestings: Nestings

    @staticmethod
    def of(
        batch: Any, params: Any, model_state: Any, key: Any, frozen: tuple[int, ...] = ()
    ) -> "LossArguments":
        inputs, of_batch = apart(batch)
        arrays, of_params = apart(params, numbers=False)
        states, of_states = apart(model_state)
        has_key = key is not None
        nestings = Nestings(
            of_params, of_states, of_batch, model_state is not None, has_key, frozen
        )
        moving, kept = nestings.apart(arrays)
        return LossArguments(
            inputs, moving, (*kept, *states, *([key] if has_key else [])), nestings
        )

    @property
    def arrays(self) -> Arrays:
        return *self.inputs, *self.params, *self.states

    @property
    def ways(self) -> list[str]:
        """The ways to all parameters, first those that are trained, then those that are not."""
        nesting = self.nestings.params
        leaves = jax.tree_util.tree_leaves_with_path(nesting.nested([0] * len(nesting.places)))
        ways = [jax.tree_util.keystr(path, simple=True, separator="/") for path, _ in leaves]
        moving, frozen = self.nestings.apart([ways[place] for place in nesting.places])
        return [*moving, *frozen]

    @property
    def counts(self) -> Counts:
        return Counts(len(self.inputs), len(self.params), len(self.states))

    @property
    def kind(self) -> Hashable:
        """What a step is made for: nestings, and types of arrays."""
        return self.nestings, tuple(map(jax.typeof, self.arrays))

    def names(self, loss: Callable[..., Any]) -> list[str]:
        """What the arrays are called in the program."""
        nestings = self.nestings
        params, model_state, key = nestings.nested(self.params, self.states)
        given = [(params, nestings.params)]
        given += [(model_state, nestings.states)] if nestings.has_states else []
        given.append((nestings.batch.nested(self.inputs), nestings.batch))
        parts = [part for part, _ in given]
        found = iter(leaf_names(loss, [*parts, *([key] if nestings.has_key else [])]))
        each = [[next(found) for _ in jax.tree.leaves(part)] for part in parts]
        of_params, *of_states, inputs = (
            [names[place] for place in nesting.places]
            for names, (_, nesting) in zip(each, given, strict=True)
        )
        moving, frozen = nestings.apart(of_params)
        return [*inputs, *moving, *frozen, *(name for one in of_states for name in one), *found]


def program_of(
    loss: Callable[..., Any], given: LossArguments, has_aux: bool, parts: int = 1
) -> tuple[JaxProgram, AuxiliaryOutput]:
    """The program of a loss, which gives what is beside the loss, too, and then the new states.

    It takes the batch in so many parts.
    """
    aux, nestings = AuxiliaryOutput(), given.nestings
    _check_takes(loss, nestings)
    whole = _given_key_data(loss) if nestings.takes_key_data else loss
    if parts > 1:
        whole = in_parts(whole, parts, nestings.has_states, nestings.has_key, has_aux)
    first, second = len(given.inputs), len(given.inputs) + len(given.params)

    def on_arrays(*arrays: Any) -> Any:
        states = arrays[second:]
        params, model_state, key = nestings.nested(arrays[first:second], states)
        following, own = (None, None) if key is None else jax.random.split(key)
        args = [params, *([model_state] if nestings.has_states else [])]
        args.append(nestings.batch.nested(arrays[:first]))
        result = whole(*args, *([] if own is None else [own]))
        check_result(result, has_aux or nestings.has_states)
        value, beside = result if has_aux or nestings.has_states else (result, None)
        new = list(states)
        if nestings.has_key:
            new[-1] = following
        if nestings.has_states:
            own_states = slice(len(nestings.frozen), len(states) - nestings.has_key)
            new[own_states], beside = new_states(beside, nestings.states, states[own_states])
        return value, aux.flatten(beside, {}) if has_aux else [], new

    names = given.names(loss)
    named_as(loss, on_arrays, names)
    moving = range(first, second)
    return traced(on_arrays, given.arrays, names, name=BACKBONE_LOSS, moving=moving), aux


def _check_takes(loss: Callable[..., Any], nestings: Nestings) -> None:
    """Raise where a loss does not take what it is given, as where one forgets its random key."""
    names = ["params", *["model_state"] * nestings.has_states, "batch", *["key"] * nestings.has_key]
    try:
        signature = inspect.signature(loss)
    except (TypeError, ValueError):  # as of a function in C
        return
    try:
        signature.bind(*names)
    except TypeError as error:
        raise TypeError(
            f"the loss is called as loss({', '.join(names)}), with a model state or a random key "
            f"where the training has one, but it takes other arguments: {error}"
        ) from None


def _given_key_data(loss: Callable[..., Any]) -> Callable[..., Any]:
    """A loss whose key is one of a dtype of its own, of one that takes the numbers of a key."""
    return lambda *args: loss(*args[:-1], jax.random.key_data(args[-1]))
