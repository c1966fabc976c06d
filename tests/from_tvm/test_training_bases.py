"""Losses and optimizers that are written as TVM's own are: on TVM's base classes."""

from typing import Any

import numpy as np
import pytest
from small_models import BATCH, CLASSES, Classifier, batch

from relaxjax import tvm
from relaxjax.losses import MSELoss
from relaxjax.optim import SGD
from relaxjax.tvm import relax
from relaxjax.tvm.relax.training import SetupTrainer, Trainer
from relaxjax.tvm.relax.training.loss import Loss, _create_param_var
from relaxjax.tvm.relax.training.optimizer import Optimizer

CLASSIFIER: Any = Classifier  # mypy takes it for a class
SCORES = relax.TensorStructInfo((BATCH, CLASSES), "float32")


class Squares(Loss):
    def __init__(self, reduction: Any = "mean") -> None:
        super().__init__("squares", 1, reduction)

    def __call__(self, *args: Any, **named: Any) -> Any:
        builder = relax.BlockBuilder()
        predictions = _create_param_var(args[0], "predictions")
        targets = _create_param_var(args[1], "targets")
        with builder.function(self._loss_name, [predictions, targets]):
            with builder.dataflow():
                apart = builder.emit(relax.op.subtract(predictions, targets))
                squares = relax.op.multiply(apart, apart)
                loss = builder.emit_output(self._with_reduction(squares))
            builder.emit_func_output(loss)
        return builder.get()[self._loss_name]


class Descent(Optimizer):
    def __init__(self, lr: float) -> None:
        super().__init__("Descent")
        self.lr = lr

    def init(self, params: Any) -> "Descent":
        super().init(params)
        self.state = tvm.runtime.tuple_object([tvm.nd.array(np.zeros((), "int64"))])
        return self

    def get_function(self) -> Any:
        self._check_init()
        assert self.param_list is not None
        fields: Any = [param.struct_info for param in self.param_list]
        types = relax.TupleStructInfo(tuple(fields))
        params, gradients = relax.Var("params", types), relax.Var("gradients", types)
        count = relax.TupleStructInfo((relax.TensorStructInfo((), "int64"),))
        states = relax.Var("optim_states", count)
        builder = relax.BlockBuilder()
        with builder.function(self.name, [params, gradients, states]):
            with builder.dataflow():
                lr = relax.const(self.lr, self.dtype)
                moved = [
                    relax.op.subtract(params[i], relax.op.multiply(lr, gradients[i]))
                    for i in range(len(self.param_list))
                ]
                counted = relax.op.add(states[0], relax.const(1, "int64"))
                results = (
                    builder.emit_output(relax.Tuple(tuple(moved))),
                    builder.emit_output(relax.Tuple((counted,))),
                )
            builder.emit_func_output(results)
        return builder.get()[self.name]


def test_they_train_as_those_of_relaxjax() -> None:
    x, labels = batch(0)
    targets = np.eye(CLASSES, dtype="float32")[labels]
    losses = []
    pairs: list[tuple[Any, Any]] = [(Squares(), Descent(0.1)), (MSELoss(), SGD(0.1))]
    for loss, optimizer in pairs:
        trainer = Trainer(CLASSIFIER, 4, SetupTrainer(loss, optimizer, [SCORES, SCORES]))
        trainer.build(target="llvm", device=tvm.cpu(0))
        trainer.xaiver_uniform_init_params()
        losses.append([float(trainer.update_params(x, targets)) for _ in range(3)])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-6)


def test_what_a_loss_finds() -> None:
    loss = Squares("sum")
    assert (loss._reduction, loss._num_backbone_outputs) == ("sum", 1)
    named = _create_param_var(relax.Var("scores", SCORES), "predictions")
    assert (named.name, named.ty) == ("scores", SCORES)
    with pytest.raises(TypeError, match="`targets` must be a Var or a Type"):
        _create_param_var("scores", "targets")  # type: ignore[arg-type]  # that is the test


def test_what_an_optimizer_lacks() -> None:
    with pytest.raises(RuntimeError, match=r"Please call init\(\)"):
        Descent(0.1).get_function()
    param = relax.Var("w", relax.TensorStructInfo((2,), "float32"))
    half = Optimizer("half").init(param)
    with pytest.raises(RuntimeError, match="it sets `param_list` and `state`"):
        half.get_function()
    half.state = ()
    with pytest.raises(NotImplementedError, match=r"Optimizer must define `get_function\(\)`"):
        half.get_function()
    with pytest.raises(ValueError, match="w appears more than once"):
        Descent(0.1).init([param, param])
