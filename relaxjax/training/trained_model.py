"""A model in training: parameters and states on the device, one executable a step."""

import dataclasses
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from os import PathLike
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from relaxjax.autodiff.out_of_memory import ToldOfMemory
from relaxjax.ir.arguments import check_flags
from relaxjax.ir.module import IRModule
from relaxjax.lowering import VirtualMachine, build
from relaxjax.lowering.compiled import CompiledFunction
from relaxjax.lowering.target import place_for
from relaxjax.ops.platform import PLATFORM
from relaxjax.passes.memory.report.memory_report import MemoryReport
from relaxjax.passes.training.plan_step_memory import memory_of_step
from relaxjax.trainable.facts import Facts
from relaxjax.trainable.names import BACKBONE, EVALUATE, LOSS_SCALE, OPTIM_STATE

from .batches.admission import Admission
from .batches.feeding import Batch, Stage
from .batches.nested import Nested, check_one_argument, check_predicts
from .batches.targets import LossWeights, scores_classes
from .devices.process_settings import use_compilation_cache
from .devices.processes import are_several, on_host
from .initial_values import xavier_uniform
from .inputs import as_list, as_seed, elsewhere, first_dim, steps_of_stack
from .layout import Arrays, Group, Initializer, Layout, optimizer_state
from .number_checks import check_batches
from .numerics import NumericsError, blame
from .placement import Placement
from .saving import checkpoint
from .saving.shards import Snapshot
from .state_cell import StateCell
from .step import TrainState, step_of


class TrainedModel:
    """What a Trainer is for the loop over data, for metrics and for checkpoints.

    It holds the parameters and states on the device, and runs the programs that use them.
    """

    def __init__(
        self,
        train_mod: IRModule,
        vm: VirtualMachine,
        device: Any = None,
        zero_init_param_state: bool = True,
        *,
        nested: Nested | None = None,
    ) -> None:
        if not isinstance(vm, VirtualMachine):
            raise TypeError(
                f"a trainer runs a VirtualMachine, but `vm` is of type {type(vm).__name__}: "
                "write VirtualMachine(build(train_mod))"
            )
        check_flags(zero_init_param_state=zero_init_param_state)
        use_compilation_cache()
        self.layout = Layout.of(train_mod)
        self.facts = Facts.of(train_mod)
        self.mod = train_mod.without_attr(OPTIM_STATE)
        self.nested = nested  # how the user's trees are nested, where the loss is one of JAX
        self.vm = vm if device is None else VirtualMachine(vm.executable, device)
        self.device = place_for(vm.executable.mod, self.vm.device)
        self.placement = Placement.of(train_mod, self.layout, self.device)
        self._admission = Admission(self.layout, self.facts, self.placement, nested)
        self.loss_weights = LossWeights.of(self.facts, self.layout.targets, self.ignored_class)
        self._step = step_of(vm.executable, self.placement, train_mod.attrs.get(PLATFORM))
        # Kept from one `fit` to the next, since new memory costs more than what is copied to it.
        self.stage = Stage(reuse=True)
        self._cell = StateCell(self._first_state(optimizer_state(train_mod)))
        self._is_initialised = False
        if zero_init_param_state:
            self.zero_init_params()
            self.zero_init_states()

    def xavier_uniform_init_params(self, seed: int = 0) -> None:
        """Draw all parameters by Xavier's uniform rule; the same seed gives the same values."""
        rng = np.random.default_rng(as_seed(seed))
        self._initialise(self.layout.params, lambda shape, dtype: xavier_uniform(rng, shape, dtype))

    def xaiver_uniform_init_params(self, seed: int = 0) -> None:
        """`xavier_uniform_init_params`, as TVM spells it."""
        self.xavier_uniform_init_params(seed)

    def zero_init_params(self) -> None:
        """Set all parameters to zero."""
        self._initialise(self.layout.params, np.zeros)

    def zero_init_states(self) -> None:
        """Set all model states to zero."""
        self._initialise(self.layout.states, np.zeros)

    def seed(self, seed: int) -> None:
        """Set the random keys among the model states, such as that of dropout; they start at 0."""
        with self._step.dtypes():
            group = self.layout.states
            places = self.placement.own(group)
            self._change(group, group.seeded(as_seed(seed), self._arrays(group), places))

    @property
    def stored_params(self) -> Arrays:
        """The parameters as a step holds them, not copied: the next step takes their memory."""
        self._check_initialised()
        return self._state.params

    def each_param(self) -> Iterator[tuple[str, jax.Array]]:
        """The parameters as they are now, each with its name, one after the other."""
        group, arrays = self.layout.params, self.stored_params
        for var, place in zip(group.vars, self.layout.storage[group.name].places, strict=True):
            with self._step.dtypes():
                array = place.outside(arrays[place.array])
            yield var.name, array

    @property
    def batch_size(self) -> int | None:
        """The number of samples that the model takes at once; None where it takes any number."""
        return self.batch_sizes[0][0] if self.layout.inputs else None

    @property
    def batch_sizes(self) -> tuple[list[int | None], list[int | None]]:
        """The first dimension of each input and of each target; None where it may be any."""
        return list(map(first_dim, self.layout.inputs)), list(map(first_dim, self.layout.targets))

    @property
    def scores_classes(self) -> bool:
        """Whether the first output is scores of classes, by the first target and the loss."""
        if BACKBONE not in self.mod:
            return False
        return scores_classes(self.facts, self.mod[BACKBONE], self.layout.targets)

    @property
    def ignored_class(self) -> int | None:
        """The class id that the loss ignores in its first target; None where there is none."""
        return self._admission.ignored_class

    @property
    def argument_names(self) -> tuple[list[str], list[str]]:
        """The names of the inputs of the model, and of the targets of the loss."""
        return self.layout.argument_names

    def pairs(self, batches: Iterable[Any], are_parts: bool = False) -> Iterator[Batch]:
        """Batches as `fit` is given them, each as its inputs and its targets.

        Those to be trained on may be the parts of a process.
        """
        return self._admission.pairs(batches, are_parts)

    def predict(self, *inputs: Any) -> Any:
        """The outputs of the backbone, without its new model states.

        Of a trainer from JAX, what its forward function gives for inputs nested as that takes them.
        """
        self._check_initialised()
        if self.nested is not None:
            given = self.placement.free(inputs)
            return on_host(self._predictor(self._state.params, self._state.states, given))
        check_predicts(self.mod)
        with self._step.dtypes():
            given = self._admission.inputs(inputs)
        result = on_host(self.vm[BACKBONE](*given, *self._state.params, *self._state.states))
        if not self._state.states:
            return result
        outputs = result[: len(result) - len(self._state.states)]
        return outputs[0] if len(outputs) == 1 else outputs

    def update(self, inputs: Any, targets: Any = None) -> jax.Array:
        """Make one step on a batch, and give its loss. Several inputs or targets come as a list.

        A batch may be given whole, by one argument, as `fit` takes it from its data.
        The step may still be reading the batch: change no array in place before the loss is read.
        The first step on such a batch is waited for, and says if there is no memory for it.
        """
        with self._step.dtypes():
            batch = self._batch(inputs, targets)
            self._admission.check_counted(batch[1], False)
            (loss,) = self._run(self._step.one_or_kept, *batch)
        return loss

    def update_many(self, inputs: Any, targets: Any = None, count: int | None = None) -> jax.Array:
        """Make a step on each of several batches in one call, and give their losses.

        Inputs and targets are those of the batches, stacked along a new first dimension. With a
        `count`, only the first so many make a step; the losses of the others are 0. All counts have
        one program, so steps are the same bit for bit however they are spread over calls.
        """
        check_batches(count)
        with self._step.dtypes():
            batch = self._batch(inputs, targets, sys.maxsize if count is None else count)
            wanted = (*self.layout.inputs, *self.layout.targets)
            steps = steps_of_stack(wanted, (*batch[0], *batch[1]), count)
            self._admission.check_counted(batch[1], True, count)
            (losses,) = self._run(self._step.many, np.int32(steps), *batch)
        return losses

    def update_checked(
        self, batch: tuple[Any, Any], is_sound: Any, count: int | None = None
    ) -> tuple[jax.Array, jax.Array]:
        """Make one step, or with a `count` so many, and say whether all was finite up to each.

        Where it was not, or `is_sound` says that it was not before, the state stays as it is.
        """
        with self._step.dtypes():
            sound = jnp.asarray(is_sound)
            given = self._batch(*batch, count)
            self._admission.check_counted(given[1], count is not None, count)
            steps = () if count is None else (np.int32(count),)
            program = self._step.many_checked if steps else self._step.one_checked
            losses, flags = self._run(program, sound, *steps, *given)
        return losses, flags

    def check_numerics(self, inputs: Any, targets: Any = None) -> None:
        """Run the adjoint on a batch, binding by binding, and change nothing.

        A loss or a gradient that is NaN or infinite is a `NumericsError`, which names the first
        bad binding, with the line of the model that it comes from.
        """
        with self._step.dtypes():
            given, wanted = self._batch(inputs, targets)
            fault = blame(self.mod, self._of_adjoint(given, wanted))
        if fault is not None:
            raise NumericsError("\n".join([fault, *self._admission.notes(wanted)]))

    def adjoint_arguments(self, inputs: Any, targets: Any = None) -> list[Any]:
        """What the adjoint of the module takes for a batch, with the state as it is now."""
        with self._step.dtypes():
            return self._of_adjoint(*self._batch(inputs, targets))

    def evaluate(self, inputs: Any, targets: Any = None) -> tuple[jax.Array | None, Any]:
        """The loss of the model as it predicts, without dropout for one, and its outputs.

        A loss from JAX is computed as it is written, and what is beside it are the outputs; or the
        function `evaluation` that the trainer was made with is computed instead.
        The loss is None where the module has no function `evaluate`, such as one that TVM made.
        """
        if self.nested is not None and self.nested.evaluation is not None:
            check_one_argument([] if targets is None else targets)
            self._check_initialised()
            given = self.placement.free(inputs)
            value, beside = self._evaluator(self._state.params, self._state.states, given)
            return on_host(value), on_host(beside)
        if EVALUATE not in self.mod:
            return None, self.predict(*as_list(inputs))
        self._check_initialised()
        with self._step.dtypes():
            given, wanted = self._admission.whole(inputs, targets)
        state = self._state
        loss, *outputs = on_host(self._evaluate(*given, *state.params, *state.states, *wanted))
        if self.nested is not None:
            return loss, self.nested.auxiliary(outputs)
        return loss, outputs[0] if len(outputs) == 1 else tuple(outputs)

    @property
    def loss_scale(self) -> float | None:
        """The factor by which the loss is scaled at present; None where it is not."""
        return float(self._state.optimizer[0]) if LOSS_SCALE in self.mod.attrs else None

    def best_steps_per_call(self, batch: tuple[Any, Any]) -> int:
        """How many steps one call had better make on batches like this one.

        It goes by the program and not by the clock, so the same training repeats itself.
        """
        if are_several():
            return 1  # each of them would have to come to the same number
        self._check_initialised()
        with self._step.dtypes():
            inputs, targets = self._admission.admitted(*batch)
            if elsewhere((*inputs, *targets), self.device):
                return 1
            return self._step.best_count(inputs, targets)

    def rows_of_process(self, samples: int) -> slice:
        """The samples of a batch of so many that this process, of several, is to train on."""
        return self.placement.rows_of_process(samples)

    def memory(self) -> MemoryReport:
        """Where the bytes of a training step go: what is kept for the gradients, or computed again.

            print(trainer.memory())

        Rows have the lines of the model or of the loss. The step is looked at as it stands, planned
        for a budget or by a policy or not.
        """
        return memory_of_step(self.mod)

    def place(self, batch: tuple[Any, Any], count: int | None = None) -> tuple[Arrays, Arrays]:
        """A copy of a batch on the device, as `update` and `update_many` take it."""
        self._check_initialised()
        with self._step.dtypes():
            inputs, targets = self._admission.admitted(*batch, count, is_part=True)
            self._admission.check_counted(targets, count is not None, count)
            return self.placement.batch(inputs, targets, count is not None, True, keep=True)

    def save(self, path: str | PathLike[str], notes: Mapping[str, str] | None = None) -> None:
        """Write parameters, model states, the optimizer's state and the module to a file.

        It is a safetensors file. The file is complete or not there: an old one stays until then.
        `notes` are kept in it too.
        """
        self._check_initialised("saving")
        arrays = [self._arrays(group) for group in self.layout.groups]
        checkpoint.save(path, self.layout.groups, arrays, self.mod, notes)

    def snapshot(self, notes: Mapping[str, str] | None = None) -> Snapshot:
        """What `save` would write, as far as this process has it, copied to the host."""
        self._check_initialised("saving")
        with self._step.dtypes():
            arrays = [self._arrays(group) for group in self.layout.groups]
            return checkpoint.snapshot(self.layout.groups, arrays, self.mod, notes)

    def load(self, path: str | PathLike[str], *, optimizer: bool = True) -> None:
        """Take over what `save` wrote, or a sharded checkpoint, by the path of its folder.

        What does not fit changes nothing.
        Without the state of the `optimizer` another training begins: any optimizer may make it.
        """
        check_flags(optimizer=optimizer)
        count = len(self.layout.groups) if optimizer else 2
        taken, left_out = self.layout.groups[:count], self.layout.groups[count:]
        with self._step.dtypes():
            places = list(map(self.placement.own, taken))
            loaded = checkpoint.load(path, taken, places, left_out)
            for group, arrays in zip(taken, loaded, strict=True):
                self._change(group, arrays)

    @cached_property
    def _predictor(self) -> Callable[..., Any]:
        assert self.nested is not None
        return self.nested.predictor(self.layout.storage[self.layout.params.name])

    @cached_property
    def _evaluate(self) -> CompiledFunction:
        """The function `evaluate`, which is built as it is first asked for if it was not before."""
        is_built = EVALUATE in self.vm.executable
        return (self.vm if is_built else VirtualMachine(build(self.mod, self.vm.device)))[EVALUATE]

    @cached_property
    def _evaluator(self) -> Callable[..., Any]:
        assert self.nested is not None
        assert self.nested.evaluation is not None
        return self.nested.evaluation.program(self.layout.storage[self.layout.params.name])

    @property
    def _state(self) -> TrainState:
        return self._cell.state

    def _run(self, program: Callable[..., Any], *args: Any) -> tuple[jax.Array, ...]:
        with ToldOfMemory(self.memory):
            return self._cell.run(program, *args)

    def _batch(self, inputs: Any, targets: Any, count: int | None = None) -> tuple[Arrays, Arrays]:
        self._check_initialised()
        return self._admission.part(inputs, targets, count)

    def _of_adjoint(self, given: Sequence[Any], wanted: Sequence[Any]) -> list[Any]:
        state = self._state
        scale = state.optimizer[:1] if LOSS_SCALE in self.mod.attrs else ()
        return [*given, *state.params, *state.states, *wanted, *scale]

    def _initialise(self, group: Group, rule: Initializer) -> None:
        with self._step.dtypes():
            self._change(group, group.initial(rule, self.placement.own(group)))

    def _arrays(self, group: Group) -> Arrays:
        """The arrays of a group as the user knows them."""
        arrays: Arrays = getattr(self._state, group.name)
        storage = self.layout.storage.get(group.name)
        return arrays if storage is None else storage.outside(arrays)

    def _change(self, group: Group, arrays: Arrays) -> None:
        stored = self.placement.inside(group, arrays)
        self._cell.state = dataclasses.replace(self._state, **{group.name: stored})

    def _first_state(self, optimizer: Sequence[Any]) -> TrainState:
        """No parameters and model states, and the state that the optimizer starts with."""
        params, states, group = self.layout.groups
        own = self.layout.storage[group.name].outside(optimizer)
        with self._step.dtypes():
            loaded = group.loaded(own, group.empty(), self.placement.own(group))
            return TrainState(
                params=self.placement.inside(params, params.empty()),
                states=states.empty(),
                optimizer=self.placement.inside(group, loaded),
            )

    def _check_initialised(self, wanted: str = "training or inference") -> None:
        if not self._is_initialised and not self._state.is_whole:
            self.layout.params.check_initialised(self._arrays(self.layout.params), wanted)
            self.layout.states.check_initialised(self._state.states, wanted)
        self._is_initialised = True  # and no step changes that
