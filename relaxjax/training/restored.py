"""A trainer made of a file alone."""

from os import PathLike
from typing import Any

import numpy as np

from relaxjax.ir.expr import Constant, Var, np_dtype
from relaxjax.ir.module import IRModule
from relaxjax.ir.types import TupleType
from relaxjax.lowering import VirtualMachine, build
from relaxjax.lowering.target import agree, placement, platform_of
from relaxjax.ops.platform import PLATFORM
from relaxjax.trainable.names import OPTIM_STATE, OPTIMIZER

from . import checkpoint
from .door import static_shape, tensor_type
from .trainer import Trainer


def load_trainer(path: str | PathLike[str], device: Any = None) -> Trainer:
    """The trainer that wrote a file by `save`, in the state that it had then.

        trainer = load_trainer("run/model.safetensors")
        scores = trainer.predict(images)

    A file from anywhere is safe to load: its script is read and never executed. The trainer is on
    `device`, JAX's default unless that is given. Where the program in the file is made for another
    platform, it predicts there and is evaluated, up to rounding as it would be at home; to train it
    is an error. To train such a model, set it up for that platform, and `load` the file.
    """
    mod = _with_optimizer_state(checkpoint.module(path))
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
