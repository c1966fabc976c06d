"""A trainer made of a file alone."""

from os import PathLike
from typing import Any

import numpy as np

from relaxjax.ir.expr import Constant, Var, np_dtype
from relaxjax.ir.module import IRModule
from relaxjax.ir.types import TupleType
from relaxjax.lowering import VirtualMachine, build

from . import checkpoint
from .door import static_shape, tensor_type
from .layout import OPTIMIZER
from .trainer import Trainer


def load_trainer(path: str | PathLike[str], device: Any = None) -> Trainer:
    """The trainer that wrote a file by `save`, in the state that it had then.

        trainer = load_trainer("run/model.safetensors")
        scores = trainer.predict(images)

    A file from anywhere is safe to load: its script is read and never executed.
    """
    mod = _with_optimizer_state(checkpoint.module(path))
    trainer = Trainer(mod, VirtualMachine(build(mod)), device)
    trainer.load(path)
    return trainer


def _with_optimizer_state(mod: IRModule) -> IRModule:
    """The module as `SetupTrainer` leaves it, with zeros where the values are in the file."""
    states = mod[OPTIMIZER].params[-1].ty
    assert isinstance(states, TupleType)
    vars_ = (Var(str(index), ty) for index, ty in enumerate(states.fields))
    return mod.with_attrs({"optim_state": [_zeros(var) for var in vars_]})


def _zeros(var: Var) -> Constant:
    shape = static_shape("state of the optimizer", var)
    return Constant(np.zeros(shape, np_dtype(tensor_type(var).dtype)))
