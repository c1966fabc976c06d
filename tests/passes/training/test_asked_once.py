"""An optimizer that several passes ask does its work once for the same parameters."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import optax
from parsing import parse_functions

from relaxjax.ir import TensorType, Var
from relaxjax.optim import BoundOptimizer, OptaxOptimizer, from_optax
from relaxjax.passes.training.asked_once import AskedOnce
from relaxjax.passes.training.setup_trainer import StepOptions, step_passes

LOSS = """
    I.module_attrs({"input_num": 1, "param_num": 1, "state_num": 0})

    @R.function
    def backbone_loss(x: R.Tensor((4, 3), "float32"), w: R.Tensor((4, 3), "float32")):
        with R.dataflow():
            loss = R.mean(R.square(R.subtract(x, w)))
            R.output(loss)
        return loss
"""


@dataclass(frozen=True)
class Counted:
    """An optimizer that notes for which parameters it is asked."""

    optimizer: OptaxOptimizer
    asked: list[list[str]] = field(default_factory=list)
    is_elementwise: bool = False

    def init(self, params: Sequence[Var]) -> BoundOptimizer:
        self.asked.append([f"{param.name}: {param.ty}" for param in params])
        return self.optimizer.init(params)


def test_the_passes_of_a_step_ask_an_optimizer_once() -> None:
    counted, mod = Counted(from_optax(optax.adam(0.1))), parse_functions(LOSS)
    for one in step_passes(mod, StepOptions(optimizer=counted, legalize=False)):
        mod = one(mod)
    assert counted.asked == [['w: R.Tensor((4, 3), dtype="float32")']]


def test_an_optimizer_is_traced_once_for_all_that_is_asked() -> None:
    traced = []
    adam = optax.adam(0.1)

    def update(updates: Any, state: Any, params: Any = None) -> Any:
        traced.append(params)
        return adam.update(updates, state, params)

    once = AskedOnce(from_optax(optax.GradientTransformation(adam.init, update)))
    w = Var("w", TensorType((2,), "float32"))
    ready = once.init([w])
    assert ready.by_number is not None
    assert ready.get_function() is once.init([Var("w", w.ty)]).get_function()
    assert len(traced) == 1
    other = once.init([Var("w", TensorType((3,), "float32"))])
    assert other.get_function() is not ready.get_function()
    assert len(traced) == 2
