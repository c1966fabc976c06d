"""The trainer: a model in training, the loop that trains it, and the files it is kept in."""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, Unpack

import jax
import numpy as np

from relaxjax.autodiff.frames import in_the_users_frames
from relaxjax.ir.arguments import check_flags
from relaxjax.ir.explorable import Explorable
from relaxjax.ir.expr import Constant, Var, np_dtype
from relaxjax.ir.module import IRModule
from relaxjax.ir.tables import html_lines
from relaxjax.ir.wording import counted
from relaxjax.lowering import VirtualMachine, build
from relaxjax.lowering.target import Target, agree, placement, platform_of
from relaxjax.ops.cost_rules import elements
from relaxjax.ops.platform import PLATFORM
from relaxjax.passes.memory.planning.budget import Budget, check_memory_options
from relaxjax.passes.training.loss_scale import LossScale
from relaxjax.passes.training.setup_trainer import StepOptions, spread_over
from relaxjax.passes.training.stack_layers import RollOption
from relaxjax.trainable.names import EVALUATE, OPTIM_STATE
from relaxjax.trainable.sharding import Distribution, MeshLike
from relaxjax.trainable.sharding_rules import ShardingLike
from relaxjax.trainable.storage import stored_states

from .batches.data import Data
from .devices.communication import CommunicationReport
from .fit_options import FitOptions
from .from_jax import arguments_of, training_of
from .inputs import static_shape, tensor_type
from .layout import Group, Values
from .loop import fit
from .reports.history import History
from .reports.progress import Reporter
from .saving.checkpoint import module
from .saving.export import export
from .summary import ModelSummary, forward_function, summary_of
from .trained_model import TrainedModel

# What TVM's trainer, optimizers and other libraries call what is here.
_ELSEWHERE = {
    "update_params": "update(inputs, targets)",
    "train": "fit(data, epochs)",
    "train_step": "update(inputs, targets)",
    "forward": "predict(inputs)",
    "parameters": "export_params()",
    "params": "export_params()",
    "state_dict": "export_params(), or trainer.save(path)",
    "load_state_dict": "load_params(params), or trainer.load(path)",
}


class Trainer(Explorable, TrainedModel):
    """Trains a module that `SetupTrainer` made.

        train_mod = SetupTrainer(loss, optimizer, loss_args)(backbone)
        trainer = Trainer(train_mod, VirtualMachine(build(train_mod)))
        trainer.xavier_uniform_init_params(seed=0)
        loss = trainer.update(inputs, targets)
        scores = trainer.predict(inputs)

    Parameters, model states and the optimizer's state live on the device. `update` hands them to
    one executable, which reuses their memory for their new values; it returns before the device is
    done, and only whoever reads the loss waits. Results are jax arrays: `float(loss)`,
    `np.asarray(scores)`. Programs that take long to compile are kept for the next run of the
    process, unless the variable RELAXJAX_COMPILATION_CACHE is "off".
    """

    @staticmethod
    @in_the_users_frames
    def from_jax(
        loss: Callable[..., Any],
        params: Any,
        optimizer: Any,
        example_batch: Any,
        *,
        model_state: Any = None,
        key: Any = None,
        has_aux: bool = False,
        forward: Callable[..., Any] | None = None,
        evaluation: Callable[..., Any] | None = None,
        trainable: Any = None,
        accumulate: int = 1,
        loss_scale: LossScale | None = None,
        master_weights: bool = True,
        memory_budget: Budget | None = None,
        memory_policy: str | None = None,
        roll_blocks: RollOption = "auto",
        channels_last: bool = True,
        device: Target | None = None,
        mesh: MeshLike | None = None,
        sharding: ShardingLike | None = None,
        devices: int | None = None,
    ) -> "Trainer":
        """A trainer of a loss written in JAX, of its parameters and an optimizer.

            trainer = Trainer.from_jax(loss, params, optax.adamw(1e-3), batches[0])
            trainer.fit(batches, epochs=3)
            params = trainer.params

        `loss(params, batch)` gives a number, or with `has_aux` a pair of that and anything else.
        With a `model_state`, such as running means, it is `loss(params, model_state, batch)`, and
        gives `(value, (new_model_state, aux or None))`. With a `key` it takes a random key behind
        the batch, another one at each step. All of these are pytrees of any kind, whose leaves
        that are no arrays stay as they are; batches are nested as `example_batch`, with arrays of
        its shapes. What is given here is copied, and left alone.

        The optimizer is a gradient transformation of optax, which sees the parameters as they are
        nested, or one of `relaxjax.optim`. `forward(params, *inputs)`, with a model state
        `forward(params, model_state, *inputs)`, is what `predict` runs.

        `trainable` says which parameters are trained: a pytree of True and False, or a list of
        patterns for names such as `layers/0/w`. The others have no gradient and no state of the
        optimizer. `accumulate` takes a batch in so many equal parts, one after the other, so that
        what is kept for the gradients is that of one part; the loss is the mean over the parts.

        `evaluate` computes `evaluation(params, batch)`, with a model state
        `evaluation(params, model_state, batch)`, on batches of any shapes: a loss, or a pair of
        that and anything else. Without it, that is the loss as it is written, and what is beside
        it. Single numbers there that have names are measured on the evaluation data of `fit`. What
        a loss prints in training is left out. The other options are those of `SetupTrainer`;
        patterns of `sharding` go by names such as `layers/0/w`, too.
        """
        check_flags(has_aux=has_aux, master_weights=master_weights, channels_last=channels_last)
        check_memory_options(memory_budget, memory_policy)
        options = StepOptions(
            optimizer=optimizer,
            loss_scale=loss_scale,
            master_weights=master_weights,
            memory_budget=memory_budget,
            memory_policy=memory_policy,
            roll_blocks=roll_blocks,
            channels_last=channels_last,
            spread=spread_over(mesh, sharding, devices),
        )
        given = arguments_of(example_batch, params, model_state, key, trainable, accumulate)
        training = training_of(
            loss, given, has_aux, forward, evaluation, accumulate, options, device
        )
        # The passes have legalised the step; what evaluates is legalised when it is asked for.
        step = training.module.without_functions(EVALUATE)
        built = build(step, device, legalized=False)
        built.known_as = training.known_as
        vm = VirtualMachine(built)
        trainer = Trainer(training.module, vm, zero_init_param_state=False, nested=training.nested)
        trainer.load_params(training.params)
        trainer.load_states(training.states)
        return trainer

    def load_params(self, params: Values) -> None:
        """Take copies of parameters: all of them as a list, or some of them by name."""
        self._load(self.layout.params, params)

    def load_states(self, states: Values) -> None:
        """Take copies of model states: all of them as a list, or some of them by name."""
        self._load(self.layout.states, states)

    def export_params(self) -> dict[str, jax.Array]:
        """Copies of the parameters by name."""
        return self._export(self.layout.params)

    def export_states(self) -> dict[str, jax.Array]:
        """Copies of the model states by name."""
        return self._export(self.layout.states)

    @property
    def params(self) -> Any:
        """Copies of the parameters, nested as the user of `from_jax` gave them."""
        return self._outside("params")[0]

    @property
    def model_state(self) -> Any:
        """Copies of the model state, nested as the user of `from_jax` gave it."""
        return self._outside("model_state")[1]

    def _load(self, group: Group, values: Values) -> None:
        with self._step.dtypes():
            places = self.placement.own(group)
            self._change(group, group.loaded(values, self._arrays(group), places))

    def _export(self, group: Group) -> dict[str, jax.Array]:
        with self._step.dtypes():
            return group.exported(self._arrays(group))

    def _outside(self, name: str) -> tuple[Any, Any, Any]:
        """Parameters, model state and key as the user nests them."""
        if self.nested is None:
            raise AttributeError(name)
        params, states = self.export_params(), self.export_states()
        return self.nested.nestings.nested([*params.values()], [*states.values()])

    def fit(
        self,
        data: Data,
        epochs: int = 1,
        eval_data: Data | None = None,
        reporter: Reporter | None = None,
        **options: Unpack[FitOptions],
    ) -> History:
        """Train until `epochs` epochs are made.

        `relaxjax.training.fit` explains the arguments, `relaxjax.training.FitOptions` the options.
        """
        return fit(self, data, epochs, eval_data, reporter, **options)

    def export(self, folder: str | PathLike[str], platforms: Sequence[str] | None = None) -> None:
        """Write the model and its training step as artifacts that run without this package.

        The folder holds `predict.jax_export`, `train_step.jax_export`, the state of the trainer in
        `state.safetensors`, which `load` reads too, and `model.py`, which runs them by JAX alone.
        They run on the `platforms`: where the module is made for one, there alone. Of a trainer
        from JAX there is no `predict.jax_export`: `jax.export` writes its forward function.
        """
        self._check_initialised("exporting")
        export(self.mod, self.layout, folder, self.save, platforms)

    def __repr__(self) -> str:
        inputs = ", ".join(f"{var.name}: {var.ty}" for var in self.layout.inputs)
        params = self.layout.params.vars
        numbers = sum(elements(var.ty) for var in params)
        return (
            f"<Trainer of {forward_function(self.mod)}({inputs}): "
            f"{counted(len(params), 'parameter')} of {numbers:,} numbers, "
            f"{counted(len(self.layout.states.vars), 'state')}, on {self.device}>"
        )

    def summary(self) -> ModelSummary:
        """The layers of the model with their shapes, parameters, FLOPs and bytes, and the sums."""
        return summary_of(self.mod, self.layout)

    def temporary_bytes(self, inputs: Any, targets: Any = None) -> int | None:
        """What a step on such a batch needs beside its arguments and results, as XLA counts it.

        None where the platform does not tell. `SetupTrainer(..., memory_budget=...)` bounds it.
        """
        with self._step.dtypes():
            return self._step.temporary_bytes(self._state, *self._batch(inputs, targets))

    def communication(self, inputs: Any = None, targets: Any = None) -> CommunicationReport:
        """What the devices of the training exchange in a step, as XLA put it in.

        A batch is needed, as `update` takes it, where the program leaves its sizes open.
        """
        with self._step.dtypes():
            self._check_initialised()
            batch = self.placement.shapes()
            if inputs is not None:
                batch = self._batch(inputs, targets)
            return self._step.communication(self._state, *batch)

    def _repr_html_(self) -> str:
        return f"<div>{html_lines([repr(self)])}{self.summary()._repr_html_()}</div>"

    def __getattr__(self, name: str) -> Any:
        """What other trainers have under another name; only asked for what is not there."""
        here = _ELSEWHERE.get(name)
        hint = "" if here is None else f": write trainer.{here}"
        raise AttributeError(
            f"a {type(self).__name__} has no attribute `{name}`{hint}", name=name, obj=self
        )

    def __getstate__(self) -> Any:
        """What `copy` and `pickle` ask for: a copy would share what the next step overwrites."""
        raise TypeError(
            "a trainer is neither copied nor pickled, because each step overwrites its state on "
            "the device: make another one of the same module, and take the state there by `save` "
            "and `load`, or keep what `export_params` gives"
        )


def load_trainer(path: str | PathLike[str], device: Any = None) -> Trainer:
    """The trainer that wrote a file by `save`, in the state that it had then.

        trainer = load_trainer("run/model.safetensors")
        scores = trainer.predict(images)

    A file from anywhere is safe to load: its script is read and never executed. The trainer is on
    `device`, JAX's default unless that is given. Where the program in the file is made for another
    platform, it predicts there and is evaluated, up to rounding as it would be at home; to train it
    is an error. To train such a model, set it up for that platform, and `load` the file.

    Where the training was on several devices, it is on so many here, if there are as many and no
    `device` is given; else on one. For another mesh, set the model up for it, and `load` the file.
    """
    mod = _with_optimizer_state(module(path))
    place, spread = placement(device), Distribution.of(mod)
    here = jax.devices(platform_of(place))
    if spread is not None and device is None and spread.is_among(here):
        place = spread.mesh(here)
    made_for = mod.attrs.get(PLATFORM)
    at_home = made_for is None or agree(made_for, platform_of(place))
    built = build(mod if at_home else mod.without_attr(PLATFORM), place)
    trainer = Trainer(mod, VirtualMachine(built))
    trainer.load(path)
    return trainer


def _with_optimizer_state(mod: IRModule) -> IRModule:
    """The module as `SetupTrainer` leaves it, with zeros where the values are in the file."""
    return mod.with_attrs({OPTIM_STATE: list(map(_zeros, stored_states(mod)))})


def _zeros(var: Var) -> Constant:
    shape = static_shape("state of the optimizer", var)
    return Constant(np.zeros(shape, np_dtype(tensor_type(var).dtype)))
