"""One training step as one executable."""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import jax
import jax.numpy as jnp

from relaxjax.ir.dim_variables import substitute_dim
from relaxjax.ir.expr import Var
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import operator_name
from relaxjax.ir.types import TupleType
from relaxjax.ir.walk import post_order
from relaxjax.lowering import Executable
from relaxjax.lowering.arguments import Symbols, bind
from relaxjax.lowering.traits import has_symbols, needs_x64, reachable
from relaxjax.ops.cost import function_cost
from relaxjax.ops.platform import PLATFORM
from relaxjax.passes.infrastructure.kept_executables import KeptExecutable
from relaxjax.passes.training.fuse_train_step import with_calls
from relaxjax.trainable.gathering import with_gathered_params
from relaxjax.trainable.names import LOSS_SCALE, OPTIM_STATE, TRAIN_STEP

from .batches.ids import is_on_host
from .devices.communication import CommunicationReport, report_of
from .inputs import device_dtype
from .layout import Arrays
from .numerics import all_finite, with_gradients
from .placement import Placement

# Measured on CPUs: what a call costs is a good part of smaller steps, and little of larger ones.
_SMALL_STEP = 1e8  # floating-point operations
_STEPS_PER_CALL = 16
_MOST_BYTES = 2**24  # of the batches of a call; the trainer holds memory for two of them

_STEPS: WeakKeyDictionary[Executable, dict[Any, "TrainStep"]] = WeakKeyDictionary()


@jax.tree_util.register_dataclass
@dataclass(frozen=True, slots=True)
class TrainState:
    """Everything that a step changes."""

    params: Arrays
    states: Arrays
    optimizer: Arrays

    @property
    def is_whole(self) -> bool:
        """Whether there is a value for each parameter and model state."""
        return all(isinstance(array, jax.Array) for array in (*self.params, *self.states))


def step_of(
    executable: Executable, placement: Placement, made_for: str | None = None
) -> "TrainStep":
    """The step of a built module; all its trainers share one, which is compiled once.

    One that is made for one platform runs on that alone, wherever the module predicts. On a mesh
    there is one for each.
    """
    steps = _STEPS.setdefault(executable, {})
    if placement.mesh not in steps:
        mod = executable.mod
        made = mod.with_attr(PLATFORM, made_for) if made_for else mod
        steps[placement.mesh] = TrainStep(made, placement, executable.known_as)
    return steps[placement.mesh]


class TrainStep:
    """Forward, backward and update, as four programs: one step or many, checked or not.

        one(state, inputs, targets) -> (loss, state)
        many(state, count, inputs, targets) -> (losses, state)
        one_checked(state, is_sound, inputs, targets) -> (loss, flag, state)
        many_checked(state, is_sound, count, inputs, targets) -> (losses, flags, state)

    Each is one executable: the function `train_step` of the module. The state that goes in is
    donated: its memory is used for the state that comes out. Whoever calls them, or makes arrays
    for them, does so inside of `dtypes()`.

    Many make a step for each of the first `count` items of inputs and targets. There is one program
    for any count, and so the steps are the same bit for bit however they are spread over calls. The
    losses are 0 from `count` on.

    What is checked looks at its loss and gradients. A flag says whether all was finite so far,
    `is_sound` whether it was before. Where it was not, the state stays as it is: that of before the
    first bad step. Of many, there is a flag for each item, and from `count` on it is that of the
    last step.
    """

    def __init__(self, mod: IRModule, placement: Placement, known_as: str = "") -> None:
        mod = with_gathered_params(mod, placement.mesh)
        self._mod, self._placement = mod, placement
        self._train_step = with_gradients(mod, TRAIN_STEP)
        self._is_dynamic = mod.attrs.get(LOSS_SCALE) == "dynamic"
        self._needs_x64 = needs_x64(mod, TRAIN_STEP)
        result = mod[TRAIN_STEP].ret_ty
        assert isinstance(result, TupleType)
        self._loss = Var("loss", result.fields[0])
        self._counts: dict[tuple[Any, ...], int] = {}
        self.one = self._jitted(self._run, 1, placement)
        self._kept = self._of_the_disk(known_as) if placement.mesh is None else None
        self.many = self._jitted(self._run_many, 1, placement)
        self.one_checked = self._jitted(self._run_checked, 2, placement)
        self.many_checked = self._jitted(self._run_many_checked, 2, placement)

    def _jitted(self, run: Any, numbers: int, placement: Placement) -> Any:
        """A program whose new state takes the memory of the old, and is split as that is.

        Before the state it gives some numbers.
        """
        if placement.state is None:
            return jax.jit(run, donate_argnums=0)
        results = (*[placement.whole] * numbers, TrainState(*placement.state))
        return jax.jit(run, donate_argnums=0, out_shardings=results)

    def _of_the_disk(self, known_as: str) -> KeptExecutable | None:
        """`one` as an earlier process may have compiled it, where there is one program of it."""
        if has_symbols(self._mod, TRAIN_STEP):
            return None

        def made_of() -> IRModule:
            attrs = self._mod.without_attr(OPTIM_STATE).attrs
            return IRModule(dict(reachable(self._mod, TRAIN_STEP)), attrs)

        return KeptExecutable(self.one, made_of, known_as)

    @cached_property
    def _step_with_gradients(self) -> Any:
        """What is checked is given the gradients.

        Its old state lives beside the new one in any case, so that updates in loops would save it
        nothing.
        """
        return with_gradients(with_calls(self._mod), TRAIN_STEP)

    @property
    def one_or_kept(self) -> Callable[..., Any]:
        """`one`, or what is kept of it on disk, or to be kept."""
        return self.one if self._kept is None or self._kept.is_plain else self._kept

    def best_count(self, inputs: Arrays, targets: Arrays) -> int:
        """How many steps one call had better make, by what a step computes.

        One with convolutions takes so long that several a call gain nothing.
        """
        arrays = (*inputs, *targets)
        most = _MOST_BYTES // max(1, sum(array.size * array.dtype.itemsize for array in arrays))
        shapes = tuple(array.shape for array in arrays)
        if not arrays or most <= 1 or not all(map(is_on_host, arrays)):
            return 1
        if shapes not in self._counts:
            is_small = not self._has_convolutions and self._flops(arrays) < _SMALL_STEP
            self._counts[shapes] = min(most, _STEPS_PER_CALL) if is_small else 1
        return self._counts[shapes]

    def _flops(self, batch: Arrays) -> float:
        """The floating-point operations of a step on such a batch; many where they are unknown."""
        function = self._mod.relax_functions()[TRAIN_STEP]
        cost, symbols = function_cost(function, self._mod), Symbols()
        bind(function.params[-len(batch) :], batch, symbols, TRAIN_STEP)
        count = None if cost is None else substitute_dim(cost.flops, symbols.values)
        return count if isinstance(count, int) else math.inf

    @cached_property
    def _has_convolutions(self) -> bool:
        reached = (function for _, function in reachable(self._mod, TRAIN_STEP))
        names = (operator_name(expr) or "" for function in reached for expr in post_order(function))
        return any(name.startswith("relax.nn.conv") or "conv_general" in name for name in names)

    def temporary_bytes(self, state: TrainState, inputs: Arrays, targets: Arrays) -> int | None:
        """What one step needs beside its arguments and results."""
        found = self.one.lower(state, inputs, targets).compile().memory_analysis()
        return None if found is None else int(found.temp_size_in_bytes)

    def communication(
        self, state: TrainState, inputs: Arrays, targets: Arrays
    ) -> CommunicationReport:
        """What devices exchange in one step."""
        if self._placement.mesh is None:
            return report_of(self._mod, None, "")
        compiled = self.one.lower(state, inputs, targets).compile()
        return report_of(self._mod, self._placement.mesh, compiled.as_text() or "")

    def dtypes(self) -> AbstractContextManager[Any]:
        """The context in which JAX knows the dtypes of the program."""
        return jax.enable_x64(True) if self._needs_x64 else nullcontext()

    def _run(self, state: TrainState, inputs: Arrays, targets: Arrays) -> tuple[Any, TrainState]:
        loss, new_state, _ = self._stepped(self._train_step, state, inputs, targets)
        return loss, new_state

    def _run_many(
        self, state: TrainState, count: Any, inputs: Arrays, targets: Arrays
    ) -> tuple[Any, TrainState]:
        def body(index: Any, carry: tuple[Any, TrainState]) -> tuple[Any, TrainState]:
            losses, state = carry
            loss, new_state = self.one(state, *_items(index, inputs, targets))
            return _with_item(losses, index, loss), new_state

        start = (self._no_losses(len((*inputs, *targets)[0])), state)
        losses, new_state = jax.lax.fori_loop(0, count, body, start)
        return losses, new_state

    def _run_checked(
        self, state: TrainState, is_sound: Any, inputs: Arrays, targets: Arrays
    ) -> tuple[Any, Any, TrainState]:
        step = self._step_with_gradients
        loss, new, gradients = self._stepped(step, state, inputs, targets)
        finite = all_finite(gradients or jax.tree.leaves(new))
        if self._is_dynamic:  # such a step is left out, and the scale becomes smaller as far as 1
            finite |= state.optimizer[0] > 1
        flag = is_sound & jnp.isfinite(loss) & finite
        return loss, flag, jax.tree.map(lambda a, b: jax.lax.select(flag, a, b), new, state)

    def _run_many_checked(
        self, state: TrainState, is_sound: Any, count: Any, inputs: Arrays, targets: Arrays
    ) -> tuple[Any, Any, TrainState]:
        items = len((*inputs, *targets)[0])
        places = jnp.arange(items, dtype="int32")

        def body(index: Any, carry: tuple[Any, Any, TrainState]) -> Any:
            losses, flags, state = carry
            batch = _items(index, inputs, targets)
            loss, flag, new_state = self.one_checked(state, flags[index], *batch)
            return _with_item(losses, index, loss), flags & (flag | (places < index)), new_state

        start = (self._no_losses(items), jnp.full(items, is_sound), state)
        losses, flags, new_state = jax.lax.fori_loop(0, count, body, start)
        return losses, flags, new_state

    def _no_losses(self, items: int) -> jax.Array:
        return jnp.zeros(items, device_dtype(self._loss))

    @staticmethod
    def _stepped(
        step: Any, state: TrainState, inputs: Arrays, targets: Arrays
    ) -> tuple[Any, TrainState, list[Any]]:
        groups = (state.params, state.states, state.optimizer)
        (loss, *new), gradients = step(*groups, *inputs, *targets)
        return loss, TrainState(*new), gradients


def _items(index: Any, inputs: Arrays, targets: Arrays) -> tuple[Arrays, Arrays]:
    """The batch at a place among several."""
    item = jax.lax.dynamic_index_in_dim
    taken = (tuple(item(a, index, keepdims=False) for a in arrays) for arrays in (inputs, targets))
    one, other = taken
    return one, other


def _with_item(losses: Any, index: Any, loss: Any) -> Any:
    return jax.lax.dynamic_update_index_in_dim(losses, loss, index, 0)
