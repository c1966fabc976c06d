"""A whole training step of a loss written in JAX, for those who write the loop themselves."""

import functools
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer

from relaxjax.frontends import JaxProgram, leaf_names, named_as, traced
from relaxjax.ir.flags import check_flags
from relaxjax.ir.module import IRModule
from relaxjax.ops.lax import matmul_precision, x64_enabled
from relaxjax.ops.platform import chosen_platform, known_platform, lowering_for
from relaxjax.passes.memory.budget import Budget
from relaxjax.passes.memory.report import MemoryReport
from relaxjax.passes.training.setup_trainer import StepOptions
from relaxjax.trainable.names import BACKBONE_LOSS, OPTIM_STATE

from .auxiliary_output import AuxiliaryOutput
from .frames import in_the_users_frames
from .step_compiled import check_unmapped, compiled
from .step_module import Counts, memory_of_step, results_of, with_step
from .step_optimizer import StepOptimizer, optimizer_of
from .step_trees import (
    Arrays,
    Nesting,
    apart,
    check_alike,
    check_alive,
    check_distinct,
    check_numbers,
    check_trainable,
)
from .value_and_grad import check_result


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class TrainState:
    """All that a training step changes: a pytree whose parts are nested as the user has them.

    `opt_state` is that of optax where the optimizer is one of its own. `step` counts the steps.
    """

    params: Any
    model_state: Any
    opt_state: Any
    key: Any
    step: Any


@dataclass(frozen=True)
class _Step:
    """A step for arguments of one nesting and of one set of types."""

    module: IRModule
    program: JaxProgram
    opt_count: int  # arrays of the optimizer's state
    run: Any  # compiled, and takes the memory of the state
    inside: Any  # the same where JAX traces the state
    aux: AuxiliaryOutput


class TrainStep:
    """A step of a loss and an optimizer: `state, value = step(state, batch)`.

    The state that goes in is used up: its memory becomes that of the state that comes out.
    `module(state, batch)` shows the program, and `memory(state, batch)` where its bytes go. Both
    take shapes alone, too: `step.memory(jax.eval_shape(init, params), batch)`.
    """

    def __init__(
        self,
        loss: Callable[..., Any],
        optimizer: StepOptimizer,
        has_aux: bool,
        memory_budget: Budget | None,
        memory_policy: str | None,
    ) -> None:
        self.loss = loss
        self.has_aux = has_aux
        self._optimizer = optimizer
        self._budget, self._policy = memory_budget, memory_policy
        self._steps: dict[Hashable, _Step] = {}
        functools.update_wrapper(self, loss, updated=())

    def __repr__(self) -> str:
        return f"<training step of {getattr(self.loss, '__name__', 'a loss')}>"

    @in_the_users_frames
    def __call__(self, state: TrainState, batch: Any) -> tuple[TrainState, Any]:
        """The state after a step on a batch, and the loss before it, with what is beside it."""
        check_alive(state)
        check_numbers(state=state, batch=batch)
        given = _Given.of(state, batch)
        step = self._step(given)
        check_distinct(
            state, {"batch": batch, "what the loss takes from around": step.program.captured}
        )
        is_traced = any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(state))
        run = step.inside if is_traced else step.run
        found = run(*self._arguments(step, state, given))
        loss, params, states, new_opt, count, others = found
        results = results_of(step.program, loss, others, states)
        beside = results[1 : len(results) - len(states)]
        key = states[-1] if given.has_key else None
        model_state = given.nestings.states.nested(states[: len(states) - given.has_key])
        new = TrainState(
            params=given.nestings.params.nested(params),
            model_state=model_state,
            opt_state=self._optimizer.nested(new_opt, state.opt_state),
            key=key,
            step=count,
        )
        return new, (results[0], step.aux.unflatten(beside)) if self.has_aux else results[0]

    @in_the_users_frames
    def module(self, state: TrainState, batch: Any) -> IRModule:
        """The module with the function `train_step` for such arguments, as it is run."""
        return self._step(_Given.of(state, batch)).module

    @in_the_users_frames
    def memory(self, state: TrainState, batch: Any) -> MemoryReport:
        """Where the bytes of such a step go."""
        given = _Given.of(state, batch)
        program, _ = self._traced(given)
        return memory_of_step(program, given.counts, self._options(given))

    def temporary_bytes(self, state: TrainState, batch: Any) -> int | None:
        """What such a step needs beside its arguments and results, as XLA counts it.

        None where the platform does not tell.
        """
        given = _Given.of(state, batch)
        step = self._step(given)
        compiled = step.run.lower(*self._arguments(step, state, given)).compile()
        found = compiled.memory_analysis()
        return None if found is None else int(found.temp_size_in_bytes)

    def _arguments(self, step: _Step, state: TrainState, given: "_Given") -> tuple[Any, ...]:
        """What the compiled program takes."""
        opt = self._optimizer.flat(state.opt_state, step.opt_count)
        inputs = (*step.program.captured, *given.inputs)
        return given.params, given.states, tuple(opt), state.step, *inputs

    def _step(self, given: "_Given") -> _Step:
        """The step for such arguments, written at the first of them."""
        platform = known_platform(given.arrays) or chosen_platform()
        key = given.kind, platform, x64_enabled(), matmul_precision()
        if key not in self._steps:
            check_unmapped(given.arrays)
            with lowering_for(platform):
                program, aux = self._traced(given)
                module = with_step(program, given.counts, self._options(given))
            opt_count = len(module.attrs[OPTIM_STATE])
            run, inside = compiled(module, program, given.counts)
            step = _Step(module, program, opt_count, run, inside, aux)
            if any(isinstance(array, Tracer) for array in program.captured):
                return step  # they are of one call of whoever traces it
            self._steps[key] = step
        return self._steps[key]

    def _options(self, given: "_Given") -> StepOptions:
        return StepOptions(
            optimizer=self._optimizer.for_params(given.nestings.params),
            master_weights=False,
            memory_budget=self._budget,
            memory_policy=self._policy,
            keeps_params=True,
            gives_outputs=True,
        )

    def _traced(self, given: "_Given") -> tuple[JaxProgram, AuxiliaryOutput]:
        """The program of the arrays of the batch, the parameters and the states."""
        loss, has_aux, aux, nestings = self.loss, self.has_aux, AuxiliaryOutput(), given.nestings
        has_states, has_key = given.has_states, given.has_key
        first, second = len(given.inputs), len(given.inputs) + len(given.params)

        def on_arrays(*arrays: Any) -> Any:
            states = list(arrays[second:])
            following, own = jax.random.split(states.pop()) if has_key else (None, None)
            args = [nestings.params.nested(arrays[first:second])]
            args += [nestings.states.nested(states)] if has_states else []
            result = loss(*args, nestings.batch.nested(arrays[:first]), *([own] if has_key else []))
            check_result(result, has_aux or has_states)
            value, beside = result if has_aux or has_states else (result, None)
            new: Sequence[Any] = ()
            if has_states:
                new, beside = _new_states(beside, nestings.states, states)
            left = aux.flatten(beside, {}) if has_aux else []
            return value, left, [*new, *([following] if has_key else [])]

        names = given.names(loss)
        named_as(loss, on_arrays, names)
        moving = range(first, second)
        return traced(on_arrays, given.arrays, names, name=BACKBONE_LOSS, moving=moving), aux


@dataclass(frozen=True)
class _Nestings:
    params: Nesting
    states: Nesting
    batch: Nesting


@dataclass(frozen=True)
class _Given:
    """The arrays of a state and a batch, and how they are nested. A key is the last state."""

    inputs: Arrays
    params: Arrays
    states: Arrays
    nestings: _Nestings
    has_states: bool
    has_key: bool

    @staticmethod
    def of(state: TrainState, batch: Any) -> "_Given":
        if not isinstance(state, TrainState):
            raise TypeError(
                f"a step takes the state that `init(params)` gives, found {type(state).__name__}"
            )
        inputs, of_batch = apart(batch)
        params, of_params = apart(state.params)
        states, of_states = apart(state.model_state)
        has_key = state.key is not None
        return _Given(
            inputs,
            params,
            (*states, state.key) if has_key else states,
            _Nestings(of_params, of_states, of_batch),
            state.model_state is not None,
            has_key,
        )

    @property
    def arrays(self) -> Arrays:
        return *self.inputs, *self.params, *self.states

    @property
    def counts(self) -> Counts:
        return Counts(len(self.inputs), len(self.params), len(self.states))

    @property
    def kind(self) -> Hashable:
        """What a step is made for: nestings, and types of arrays."""
        types = tuple(map(jax.typeof, self.arrays))
        return self.nestings, self.has_states, self.has_key, types

    def names(self, loss: Callable[..., Any]) -> list[str]:
        """What the arrays are called in the program."""
        nestings = self.nestings
        parts = [nestings.params.nested(self.params)]
        if self.has_states:
            parts.append(nestings.states.nested(self.states[: len(self.states) - self.has_key]))
        parts.append(nestings.batch.nested(self.inputs))
        counts = [len(jax.tree.leaves(part)) for part in parts]
        found = iter(leaf_names(loss, [*parts, *([self.states[-1]] if self.has_key else [])]))
        each = [[next(found) for _ in range(count)] for count in counts]
        of = [nestings.params, *([nestings.states] if self.has_states else []), nestings.batch]
        params, *states, inputs = (
            [names[place] for place in nesting.places]
            for names, nesting in zip(each, of, strict=True)
        )
        return [*inputs, *params, *(name for one in states for name in one), *found]


def train_step(
    loss: Callable[..., Any],
    optimizer: Any,
    *,
    has_aux: bool = False,
    memory_budget: Budget | None = None,
    memory_policy: str | None = None,
) -> tuple[Callable[..., TrainState], TrainStep]:
    """A training step as one program: forward, backward and update, compiled and planned together.

        init, step = relaxjax.train_step(loss, optax.adamw(1e-3))
        state = init(params)
        state, value = step(state, batch)

    `loss(params, batch)` gives a number, or with `has_aux` a pair of that and anything else:
    `step` gives `state, (value, aux)` then. A model state, such as running means, is given to
    `init(params, model_state)`; the loss is `loss(params, model_state, batch)` then, and gives
    `(value, (new_model_state, aux or None))`. With `init(params, key=key)` the loss takes a random
    key behind the batch, another one at each step.

    The optimizer is a gradient transformation of optax, which sees the parameters as they are
    nested, or one of `relaxjax.optim`. Leaves of parameters that are no arrays, such as the
    activations of an equinox module, stay as they are. `memory_budget` and `memory_policy` are
    those of `SetupTrainer`, for the whole step.
    """
    check_flags(has_aux=has_aux)
    if not callable(loss):
        raise TypeError(f"the loss must be a function of arrays, found {loss!r}")
    used = optimizer_of(optimizer)

    @in_the_users_frames
    def init(params: Any, model_state: Any = None, key: Any = None) -> TrainState:
        """The state before the first step; arrays are copied, because steps use them up."""
        check_trainable(params, "params")
        own, states = jax.tree.map(_copied, (params, model_state))
        arrays, nesting = apart(own)
        opt_state = jax.tree.map(_copied, used.start(arrays, nesting))
        return TrainState(own, states, opt_state, _copied(key), jnp.int32(0))

    return init, TrainStep(loss, used, has_aux, memory_budget, memory_policy)


def _copied(leaf: Any) -> Any:
    is_number = isinstance(leaf, int | float | complex)
    if is_number or hasattr(leaf, "dtype"):
        return jnp.array(leaf, copy=True)
    return leaf


def _new_states(beside: Any, nesting: Nesting, old: Sequence[Any]) -> tuple[Sequence[Any], Any]:
    """The new model states, of what a loss gives beside its value, and what else that is."""
    if not isinstance(beside, tuple | list) or len(beside) != 2:
        raise TypeError(
            "a loss with a model state must return `(value, (model_state, aux))`, with None for "
            f"no aux, but beside the value it returned {type(beside).__name__}"
        )
    new, aux = beside
    return check_alike(new, nesting, old), aux
