"""One training step as one executable."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import jax

from relaxjax.ir.module import IRModule
from relaxjax.lowering import Executable, to_jax
from relaxjax.lowering.traits import needs_x64

from .group import Arrays
from .layout import ADJOINT, OPTIMIZER

_STEPS: WeakKeyDictionary[Executable, "TrainStep"] = WeakKeyDictionary()


@jax.tree_util.register_dataclass
@dataclass(frozen=True, slots=True)
class TrainState:
    """Everything that a step changes."""

    params: Arrays
    states: Arrays
    optimizer: Arrays


def step_of(executable: Executable) -> "TrainStep":
    """The step of a built module; all its trainers share one, which is compiled once."""
    if executable not in _STEPS:
        _STEPS[executable] = TrainStep(executable.mod)
    return _STEPS[executable]


class TrainStep:
    """`step(state, inputs, targets) -> (loss, state)`: forward, backward and update.

    It is one executable. The state that goes in is donated: its memory is used for the state that
    comes out. Whoever calls it, or makes arrays for it, does so inside of `dtypes()`.
    """

    def __init__(self, mod: IRModule) -> None:
        self._adjoint = to_jax(mod, ADJOINT)
        self._optimizer = to_jax(mod, OPTIMIZER)
        self._needs_x64 = any(needs_x64(mod, name) for name in (ADJOINT, OPTIMIZER))
        self._jitted = jax.jit(self._run, donate_argnums=0)
        self._jitted_many = jax.jit(self._run_many, donate_argnums=0)

    def __call__(
        self, state: TrainState, inputs: Arrays, targets: Arrays
    ) -> tuple[jax.Array, TrainState]:
        loss, new_state = self._jitted(state, inputs, targets)
        return loss, new_state

    def many(
        self, state: TrainState, inputs: Arrays, targets: Arrays
    ) -> tuple[jax.Array, TrainState]:
        """A step for each item of the leading dimension of inputs and targets, in one call."""
        losses, new_state = self._jitted_many(state, inputs, targets)
        return losses, new_state

    def dtypes(self) -> AbstractContextManager[Any]:
        """The context in which JAX knows the dtypes of the program."""
        return jax.enable_x64(True) if self._needs_x64 else nullcontext()

    def _run(self, state: TrainState, inputs: Arrays, targets: Arrays) -> tuple[Any, TrainState]:
        result, gradients = self._adjoint(*inputs, *state.params, *state.states, *targets)
        outputs = result if isinstance(result, tuple) else (result,)
        new_states = outputs[len(outputs) - len(state.states) :]
        new_params, new_optimizer = self._optimizer(state.params, gradients, state.optimizer)
        return outputs[0], TrainState(new_params, new_states, new_optimizer)

    def _run_many(
        self, state: TrainState, inputs: Arrays, targets: Arrays
    ) -> tuple[Any, TrainState]:
        def body(state: TrainState, batch: tuple[Arrays, Arrays]) -> tuple[TrainState, Any]:
            loss, new_state = self._run(state, *batch)
            return new_state, loss

        new_state, losses = jax.lax.scan(body, state, (inputs, targets))
        return losses, new_state
