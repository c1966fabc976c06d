"""The trainer: a model in training, the loop that trains it, and the files it is kept in."""

from collections.abc import Sequence
from os import PathLike
from typing import Any, Unpack

import numpy as np

from relaxjax.ir.expr import Constant, Var, np_dtype
from relaxjax.ir.module import IRModule
from relaxjax.ir.types import TupleType
from relaxjax.lowering import VirtualMachine, build
from relaxjax.lowering.target import agree, placement, platform_of
from relaxjax.ops.cost_rules import elements
from relaxjax.ops.platform import PLATFORM
from relaxjax.trainable.names import OPTIM_STATE, OPTIMIZER

from .checkpoint import module
from .data import Data
from .export import export
from .inputs import static_shape, tensor_type
from .loop import FitOptions, fit
from .progress import EpochReport, Reporter
from .summary import summary
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


class Trainer(TrainedModel):
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

    def fit(
        self,
        data: Data,
        epochs: int = 1,
        eval_data: Data | None = None,
        reporter: Reporter | None = None,
        **options: Unpack[FitOptions],
    ) -> list[EpochReport]:
        """Train until `epochs` epochs are made.

        `relaxjax.training.fit` explains the arguments, `relaxjax.training.FitOptions` the options.
        """
        return fit(self, data, epochs, eval_data, reporter, **options)

    def export(self, folder: str | PathLike[str], platforms: Sequence[str] | None = None) -> None:
        """Write the model and its training step as artifacts that run without this package.

        The folder holds `predict.jax_export`, `train_step.jax_export`, the state of the trainer in
        `state.safetensors`, which `load` reads too, and `model.py`, which runs them by JAX alone.
        They run on the `platforms`: where the module is made for one, there alone.
        """
        self._check_initialised("exporting")
        export(self.mod, self.layout, folder, self.save, platforms)

    def summary(self) -> str:
        """A table of the parameters, with the bytes of these, the states and the optimizer."""
        return summary(self.layout)

    def __repr__(self) -> str:
        inputs = ", ".join(f"{var.name}: {var.ty}" for var in self.layout.inputs)
        params = self.layout.params.vars
        return (
            f"<Trainer of backbone({inputs}): {_counted(len(params), 'parameter')} of "
            f"{sum(elements(var.ty) for var in params):,} numbers, "
            f"{_counted(len(self.layout.states.vars), 'state')}, on {self.device}>"
        )

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
    """
    mod = _with_optimizer_state(module(path))
    place = placement(device)
    made_for = mod.attrs.get(PLATFORM)
    at_home = made_for is None or agree(made_for, platform_of(place))
    built = build(mod if at_home else mod.without_attr(PLATFORM), place)
    trainer = Trainer(mod, VirtualMachine(built))
    trainer.load(path)
    return trainer


def _with_optimizer_state(mod: IRModule) -> IRModule:
    """The module as `SetupTrainer` leaves it, with zeros where the values are in the file."""
    states = mod[OPTIMIZER].params[-1].ty
    assert isinstance(states, TupleType)
    vars_ = (Var(str(index), ty) for index, ty in enumerate(states.fields))
    return mod.with_attrs({OPTIM_STATE: [_zeros(var) for var in vars_]})


def _zeros(var: Var) -> Constant:
    shape = static_shape("state of the optimizer", var)
    return Constant(np.zeros(shape, np_dtype(tensor_type(var).dtype)))


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
