"""A whole training step of a loss written in JAX, for those who write the loop themselves."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property, partial, update_wrapper
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer

from relaxjax.frontends import JaxProgram
from relaxjax.ir.arguments import check_flags
from relaxjax.ir.module import IRModule
from relaxjax.ops.lax import matmul_precision, x64_enabled
from relaxjax.ops.platform import chosen_platform, known_platform, lowering_for
from relaxjax.passes.memory.planning.budget import Budget, check_memory_options
from relaxjax.passes.memory.report.memory_report import MemoryReport
from relaxjax.passes.training.plan_step_memory import memory_of_step
from relaxjax.passes.training.setup_trainer import StepOptions
from relaxjax.trainable.names import OPTIM_STATE
from relaxjax.trainable.sharding import MeshLike
from relaxjax.trainable.sharding_rules import ShardingLike

from .auxiliary_output import AuxiliaryOutput
from .frames import in_the_users_frames
from .out_of_memory import ToldOfMemory
from .placing import Placing, check_placeable, placed
from .step_again import Again, call_again, has_keys, is_watched, kind_of
from .step_compiled import check_unmapped, compiled, compiled_for
from .step_loss import LossArguments, program_of
from .step_module import results_of, with_step
from .step_optimizer import StepOptimizer, optimizer_of
from .step_placing import FirstPlaces, StepPlaces, spread_by_name
from .step_trees import (
    StateArrays,
    apart,
    check_alive,
    check_count,
    check_distinct,
    check_key,
    check_numbers,
    check_opt_state,
    check_there,
    check_trainable,
    copied,
    copied_params,
)


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
    run: Any  # compiled, and takes the memory of the state
    inside: Any  # the same where JAX traces any of what it takes
    aux: AuxiliaryOutput
    opt_state: Any  # the shapes of the optimizer's state
    places: StepPlaces | None  # on a mesh

    @cached_property
    def told_of_memory(self) -> ToldOfMemory:
        return ToldOfMemory(partial(memory_of_step, self.module))


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
        placing: Placing | None,
    ) -> None:
        self.loss = loss
        self.has_aux = has_aux
        self._optimizer = optimizer
        self._budget, self._policy = memory_budget, memory_policy
        self._placing = placing
        self._steps: dict[Hashable, _Step] = {}
        self._awaited: set[Any] = set()  # programs that have run
        self._again: list[tuple[_Step, Again]] = []  # the latest first
        update_wrapper(self, loss, updated=())

    def __repr__(self) -> str:
        return f"<training step of {getattr(self.loss, '__name__', 'a loss')}>"

    @in_the_users_frames
    def __call__(self, state: TrainState, batch: Any) -> tuple[TrainState, Any]:
        """The state after a step on a batch, and the loss before it, with what is beside it."""
        kind = kind_of(batch)
        for step, again in self._again:
            if again.kind == kind:
                with step.told_of_memory:
                    new = again(state, batch)
                if new is not None:
                    return new
        return self._first(state, batch, kind)

    def _first(self, state: TrainState, batch: Any, kind: Hashable) -> tuple[TrainState, Any]:
        """A step on a state that nothing is known of; if it is alright, that is known then."""
        check_alive(state)
        check_there("batch", batch)
        check_numbers(state=state, batch=batch)
        given = _given(state, batch)
        step = self._step(state, given)
        check_opt_state(state.opt_state, step.opt_state)
        check_distinct(
            state, {"batch": batch, "what the loss takes from around": step.program.captured}
        )
        check_count(state.step)
        taken = *jax.tree.leaves((state, batch)), *step.program.captured
        is_traced = any(isinstance(leaf, Tracer) for leaf in taken)
        arguments = self._arguments(step, state, given)
        with step.told_of_memory:
            run = step.inside if is_traced else step.run
            if not is_traced and self._is_kept(step, state):
                run = compiled_for(step.run, arguments)
                again = Again(kind, state, self._call(step, run, state, batch))
                self._again.insert(0, (step, again))
            found = run(*arguments)
            if not is_traced and step.run not in self._awaited:
                # A CPU takes its memory as it runs. The first step shows whether it is there.
                jax.block_until_ready(found)
                self._awaited.add(step.run)
        return self._after(given, found, state.opt_state), self._value(step, found)

    def _is_kept(self, step: _Step, state: TrainState) -> bool:
        """Whether the next step of this kind is called as this one is, at once."""
        is_plain = self._placing is None and not step.program.reports
        is_one = any(step is one for one in self._steps.values())
        has_room = len(self._again) < Again.most
        return is_plain and is_one and has_room and not (is_watched() or has_keys(state.opt_state))

    def _call(self, step: _Step, program: Any, state: TrainState, batch: Any) -> Any:
        """How a step is called again."""

        def arguments(state: TrainState, batch: Any) -> Any:
            return self._arguments(step, state, _given(state, batch))[:2]

        def results(found: Any) -> tuple[TrainState, Any]:
            given = _given(state, batch)
            return self._after(given, found, state.opt_state), self._value(step, found)

        return call_again(program, (state, batch), step.program.captured, arguments, results)

    def _after(self, given: LossArguments, found: Any, opt_state: Any) -> TrainState:
        """The state after a step, nested as the one before."""
        new, _ = found
        params, model_state, key = given.nestings.nested(new.params, new.states)
        opt_state = self._optimizer.nested(new.opt_state, opt_state)
        return TrainState(params, model_state, opt_state, key, new.step)

    def _value(self, step: _Step, found: Any) -> Any:
        """The loss, with what is beside it."""
        new, (loss, others) = found
        results = results_of(step.program, loss, others, new.states)
        if not self.has_aux:
            return results[0]
        return results[0], step.aux.unflatten(results[1 : len(results) - len(new.states)])

    @in_the_users_frames
    def module(self, state: TrainState, batch: Any) -> IRModule:
        """The module with the function `train_step` for such arguments, as it is run."""
        return self._step(state, _given(state, batch)).module

    @in_the_users_frames
    def memory(self, state: TrainState, batch: Any) -> MemoryReport:
        """Where the bytes of such a step go."""
        return memory_of_step(self._step(state, _given(state, batch)).module)

    def temporary_bytes(self, state: TrainState, batch: Any) -> int | None:
        """What such a step needs beside its arguments and results, as XLA counts it.

        None where the platform does not tell.
        """
        given = _given(state, batch)
        step = self._step(state, given)
        compiled = step.run.lower(*self._arguments(step, state, given)).compile()
        found = compiled.memory_analysis()
        return None if found is None else int(found.temp_size_in_bytes)

    def _arguments(self, step: _Step, state: TrainState, given: LossArguments) -> tuple[Any, ...]:
        """What the compiled program takes."""
        arrays = self._arrays(step.module, state, given)
        arguments = arrays, given.inputs, tuple(step.program.captured)
        return arguments if step.places is None else placed(arguments, step.places.taken)

    def _arrays(self, module: IRModule, state: TrainState, given: LossArguments) -> StateArrays:
        opt = self._optimizer.flat(state.opt_state, len(module.attrs[OPTIM_STATE]))
        first = len(given.states) - given.nestings.has_key
        model, key = given.states[:first], given.states[first:]
        return StateArrays(given.params, model, tuple(opt), key, state.step)

    def _step(self, state: TrainState, given: LossArguments) -> _Step:
        """The step for such arguments, written at the first of them."""
        placing = self._placing
        own = known_platform(given.arrays) if placing is None else placing.platform
        platform = own or chosen_platform()
        key = given.kind, platform, x64_enabled(), matmul_precision()
        if key not in self._steps:
            check_unmapped(given.arrays)
            if placing is not None:
                check_placeable(given.arrays)
            with lowering_for(platform):
                program, aux = program_of(self.loss, given, self.has_aux)
                module, known_as = with_step(program, given.counts, self._options(program, given))
            places = None
            if placing is not None:
                arrays, captured = self._arrays(module, state, given), len(program.captured)
                places = StepPlaces.of(module, placing.mesh, arrays, captured)
            run, inside = compiled(module, known_as, program, given.counts, places)
            wanted = self._optimizer.wanted(given.params, given.nestings.moving)
            step = _Step(module, program, run, inside, aux, wanted, places)
            if any(isinstance(array, Tracer) for array in program.captured):
                return step  # they are of one call of whoever traces it
            self._steps[key] = step
        return self._steps[key]

    def _options(self, program: JaxProgram, given: LossArguments) -> StepOptions:
        placing = self._placing
        spread = None if placing is None else (placing.given, placing.sharding)
        return StepOptions(
            optimizer=self._optimizer.for_params(given.nestings.moving),
            master_weights=False,
            memory_budget=self._budget,
            memory_policy=self._policy,
            keeps_params=True,
            gives_outputs=True,
            spread=spread_by_name(spread, program, given),
            captured=len(program.captured),
        )


def train_step(
    loss: Callable[..., Any],
    optimizer: Any,
    *,
    has_aux: bool = False,
    memory_budget: Budget | None = None,
    memory_policy: str | None = None,
    mesh: MeshLike | None = None,
    sharding: ShardingLike | None = None,
    devices: int | None = None,
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

    With a `mesh`, such as {"data": 4, "model": 2}, or so many `devices`, `init` places the state on
    them, and `step` the samples of a batch. `sharding` is that of `SetupTrainer`, too: "data",
    which is the default, "fsdp", or a mapping from patterns for names of parameters such as
    `layers/0/w` to specs. A budget is for each device then.
    """
    check_flags(has_aux=has_aux)
    check_memory_options(memory_budget, memory_policy)
    if not callable(loss):
        raise TypeError(f"the loss must be a function of arrays, found {loss!r}")
    used = optimizer_of(optimizer)
    placing = Placing.of(mesh, sharding, devices)
    places = None if placing is None else FirstPlaces(loss, placing, used)

    @in_the_users_frames
    def init(params: Any, model_state: Any = None, key: Any = None) -> TrainState:
        """The state before the first step; arrays are copied, because steps use them up."""
        for name, tree in {"params": params, "model_state": model_state, "key": key}.items():
            check_there(name, tree)
        check_numbers(params=params, model_state=model_state, key=key)
        check_key(key)
        own, states = copied_params(params), jax.tree.map(copied, model_state)
        check_trainable(own, "params")
        key, count = copied(key), jnp.int32(0)
        if places is not None:
            own, states, key = places.of_params(own, states, key)
            count = placed(count, places.placing.whole)
        arrays, nesting = apart(own, numbers=False)
        opt_state = jax.tree.map(copied, used.start(arrays, nesting))
        if places is not None:
            opt_state = places.of_optimizer(own, opt_state)
        return TrainState(own, states, opt_state, key, count)

    return init, TrainStep(loss, used, has_aux, memory_budget, memory_policy, placing)


def _given(state: TrainState, batch: Any) -> LossArguments:
    if not isinstance(state, TrainState):
        raise TypeError(
            f"a step takes the state that `init(params)` gives, found {type(state).__name__}"
        )
    return LossArguments.of(batch, state.params, state.model_state, state.key)
