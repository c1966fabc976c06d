"""The optimizer of a training step, and its state as the user sees it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from relaxjax.optim import Lazy, Narrow, OptaxOptimizer, Optimizer, from_optax
from relaxjax.optim.base import States

from .placing import var_of
from .step_trees import Arrays, Nesting


class StepOptimizer(Protocol):
    """What a training step asks of its optimizer, whose state is a pytree."""

    def for_params(self, nesting: Nesting) -> Optimizer:
        """The optimizer of parameters that are nested so."""
        ...

    def start(self, params: Arrays, nesting: Nesting) -> Any:
        """The state before the first step."""
        ...

    def wanted(self, params: Arrays, nesting: Nesting) -> Any:
        """The shapes of that."""
        ...

    def flat(self, state: Any, count: int) -> list[Any]:
        """The state as the so many arrays that a step takes, or but for the last of them.

        That is the flag of one of optax that it has begun.
        """
        ...

    def nested(self, arrays: Sequence[Any], before: Any) -> Any:
        """The state that a step gives, nested as the one before it."""
        ...


@dataclass(frozen=True)
class _OfParameters:
    """An optimizer that sees parameters one after the other; its state is a tuple of arrays.

    One of optax inside of it sees them as the user nests them.
    """

    optimizer: Optimizer

    def for_params(self, nesting: Nesting) -> Optimizer:
        return _nested(self.optimizer, nesting)

    def start(self, params: Arrays, nesting: Nesting) -> Any:
        return tuple(map(jnp.asarray, self._begun(params, nesting)))

    def wanted(self, params: Arrays, nesting: Nesting) -> Any:
        return tuple(
            jax.ShapeDtypeStruct(array.shape, array.dtype) for array in self._begun(params, nesting)
        )

    def _begun(self, params: Arrays, nesting: Nesting) -> States:
        named = [var_of(f"p{index}", array) for index, array in enumerate(params)]
        state: States = self.for_params(nesting).init(named).state
        return state

    def flat(self, state: Any, count: int) -> list[Any]:
        return _counted(list(state), count, count)

    def nested(self, arrays: Sequence[Any], before: Any) -> Any:
        return tuple(arrays)


@dataclass(frozen=True)
class _OfPytrees:
    """A transformation of optax, which sees parameters as the user nests them."""

    transformation: Any

    def for_params(self, nesting: Nesting) -> Optimizer:
        return replace(from_optax(self.transformation), tree=nesting.of_arrays)

    def start(self, params: Arrays, nesting: Nesting) -> Any:
        nested = jax.tree.unflatten(nesting.of_arrays, params)
        paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(nested)]
        names = [jax.tree_util.keystr(path, simple=True, separator="/") for path in paths]
        return from_optax(self.transformation).begun_with(nested, names)

    def wanted(self, params: Arrays, nesting: Nesting) -> Any:
        return jax.eval_shape(lambda arrays: self.start(arrays, nesting), params)

    def flat(self, state: Any, count: int) -> list[Any]:
        return _counted(OptaxOptimizer.flat_state(state), count - 1, count)

    def nested(self, arrays: Sequence[Any], before: Any) -> Any:
        return OptaxOptimizer.nested_state(arrays, before)


def _nested(optimizer: Optimizer, nesting: Nesting) -> Optimizer:
    """An optimizer for parameters that are nested so."""
    if isinstance(optimizer, OptaxOptimizer):
        return replace(optimizer, tree=nesting.of_arrays)
    if isinstance(optimizer, Lazy | Narrow):
        return replace(optimizer, optimizer=_nested(optimizer.optimizer, nesting))
    return optimizer


def _counted(arrays: list[Any], least: int, most: int) -> list[Any]:
    if not least <= len(arrays) <= most:
        raise ValueError(
            f"the state of the optimizer has {len(arrays)} arrays, but this optimizer has another "
            "number of them for such parameters: give a step the state that its own `init` began"
        )
    return arrays


def optimizer_of(optimizer: Any) -> StepOptimizer:
    """One of `relaxjax.optim` or of optax, as a step asks it."""
    if isinstance(optimizer, Optimizer):
        return _OfParameters(optimizer)
    if hasattr(optimizer, "init") and hasattr(optimizer, "update"):
        return _OfPytrees(optimizer)
    raise TypeError(
        "the optimizer must be a gradient transformation such as optax.adamw(1e-3), or one of "
        f"relaxjax.optim such as Adam(1e-3), but it is {optimizer!r}"
    )
