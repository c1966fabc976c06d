"""The trainer of two generations of TVM."""

from collections.abc import Callable
from typing import Any

from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.lowering import build
from relaxjax.lowering.target import formulating_for
from relaxjax.trainable.names import BACKBONE
from relaxjax.training import Trainer as RelaxjaxTrainer
from relaxjax.tvm.nd import NDArray, unwrapped, wrapped
from relaxjax.tvm.relax.vm import VirtualMachine

PREDICT = "predict"


class Trainer(RelaxjaxTrainer):
    """The `Trainer` of relaxjax, made and stepped as TVM does it; results have `.numpy()`.

        trainer = Trainer(train_mod, vm, device)                   # TVM of today
        loss = trainer.update(inputs, targets)

        trainer = Trainer(backbone, param_num, setup_trainer)      # TVM of 2023
        trainer.build(target="llvm", device=tvm.cpu(0))
        loss = trainer.update_params(*inputs, *targets)

    The older form also takes a backbone that is called `predict` and whose first parameters are the
    trained ones.
    """

    def __init__(
        self,
        backbone: IRModule,
        vm_or_param_num: Any,
        device_or_setup_trainer: Any = None,
        zero_init_param_state: bool = True,
    ) -> None:
        self._unbuilt: tuple[IRModule, Callable[[IRModule], Any]] | None = None
        if isinstance(vm_or_param_num, int):
            if not callable(device_or_setup_trainer):
                raise TypeError(
                    "Trainer(backbone, param_num, setup_trainer): `setup_trainer` must be a "
                    f"SetupTrainer, but it is of type {type(device_or_setup_trainer).__name__}"
                )
            self._unbuilt = (_backbone(backbone, vm_or_param_num), device_or_setup_trainer)
            return
        super().__init__(backbone, vm_or_param_num, device_or_setup_trainer, zero_init_param_state)

    def build(self, target: Any = "llvm", device: Any = None, memory_cfg: Any = None) -> None:
        """Set the backbone up for training, and build it; `memory_cfg` has no meaning here."""
        if self._unbuilt is None:
            raise RuntimeError(
                "a trainer that was given a VirtualMachine is built already: build() belongs to "
                "Trainer(backbone, param_num, setup_trainer)"
            )
        backbone, setup_trainer = self._unbuilt
        with formulating_for(backbone, target):
            train_mod = setup_trainer(backbone)
        super().__init__(train_mod, VirtualMachine(build(train_mod, target), device), device)

    def update(self, inputs: Any, targets: Any = None) -> Any:
        return wrapped(super().update(unwrapped(inputs), unwrapped(targets)))

    def predict(self, *inputs: Any) -> Any:
        return wrapped(super().predict(*map(unwrapped, inputs)))

    def update_params(self, *inputs: Any) -> Any:
        """Make one step on the model's inputs and then the targets, and give its loss."""
        count = len(self.layout.inputs)
        return self.update(inputs[:count], inputs[count:])

    def load_params(self, params: Any) -> None:
        super().load_params(_unnamed(params))

    def load_states(self, states: Any) -> None:
        super().load_states(_unnamed(states))

    def export_params(self) -> Any:
        return {name: NDArray(array) for name, array in super().export_params().items()}

    def export_states(self) -> Any:
        return {name: NDArray(array) for name, array in super().export_states().items()}

    def __getattr__(self, name: str) -> Any:
        """What is not there yet: everything that building makes."""
        if name.startswith("__") or not self._waits():
            return super().__getattr__(name)
        raise RuntimeError("Please build the trainer first. Use `trainer.build(...)`.")

    def __repr__(self) -> str:
        return "<Trainer that is to be built by build()>" if self._waits() else super().__repr__()

    def _waits(self) -> bool:
        """Whether it is to be built yet."""
        return self.__dict__.get("_unbuilt") is not None and "layout" not in self.__dict__


def _unnamed(values: Any) -> Any:
    """Given values without the wrapping of TVM's arrays."""
    if isinstance(values, dict):
        return {name: unwrapped(value) for name, value in values.items()}
    return unwrapped(values)


def _backbone(mod: IRModule, param_num: int) -> IRModule:
    """The module as SetupTrainer takes it: with its counts, and inputs before parameters."""
    if BACKBONE not in mod:
        if PREDICT not in mod:
            raise ValueError(
                f"the module has neither a function `{BACKBONE}`, which takes inputs and then "
                f"parameters, nor `{PREDICT}`, which takes parameters and then inputs"
            )
        predict: Function = mod[PREDICT]
        order = (*predict.params[param_num:], *predict.params[:param_num])
        renamed = predict.with_attr("global_symbol", BACKBONE)
        mod = mod.without_functions(PREDICT).with_function(BACKBONE, replace(renamed, params=order))
    stated = mod.attrs.get("param_num", param_num)
    if stated != param_num:
        raise ValueError(
            f"the trainer was told of {param_num} parameters, but the module's attribute "
            f"`param_num` says {stated}"
        )
    return mod.with_attrs({"param_num": param_num, "state_num": mod.attrs.get("state_num", 0)})
