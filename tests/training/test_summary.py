"""`Trainer.summary`: the parameters, and what is held beside them."""

import pytest

from relaxjax import IRModule, Trainer, VirtualMachine, build, from_source
from relaxjax.ir.types import TensorType
from relaxjax.losses import MSELoss
from relaxjax.optim import SGD, Adam, Optimizer
from relaxjax.passes import SetupTrainer

MODEL = """
@I.ir_module
class Model:
    I.module_attrs({"param_num": 2, "state_num": 0})

    @R.function
    def backbone(
        x: R.Tensor((4, 64), "float32"),
        w0: R.Tensor((64, 48), "float32"),
        bias: R.Tensor((48,), "float32"),
    ):
        with R.dataflow():
            out = R.add(R.matmul(x, w0), bias)
            R.output(out)
        return out
"""


def trainer(optimizer: Optimizer, text: str = MODEL) -> Trainer:
    found = from_source(text)
    assert isinstance(found, IRModule)
    types = [TensorType((4, 48), "float32")] * 2
    module = SetupTrainer(MSELoss(), optimizer, types)(found)
    return Trainer(module, VirtualMachine(build(module)))


def test_it_lists_the_parameters_before_they_have_values() -> None:
    assert trainer(SGD(0.1)).summary().splitlines()[:5] == [
        "parameter  shape     dtype    numbers   bytes",
        "w0         (64, 48)  float32    3,072  12,288",
        "bias       (48)      float32       48     192",
        "",
        "2 parameters, 12,480 bytes",
    ]


@pytest.mark.parametrize(
    ("optimizer", "least"), [(SGD(0.1), 4), (Adam(0.1), 2 * 12_480)], ids=["sgd", "adam"]
)
def test_it_counts_what_the_optimizer_holds(optimizer: Optimizer, least: int) -> None:
    (*_, last) = trainer(optimizer).summary().splitlines()
    held = int(last.split(", ", 1)[1].removesuffix(" bytes").replace(",", ""))
    assert least <= held <= least + 16


def test_a_random_key_is_a_state() -> None:
    dropped = MODEL.replace("R.matmul(x, w0)", "R.nn.dropout(R.matmul(x, w0), rate=0.1)[0]")
    assert "\n1 model state, 0 bytes\n" in trainer(SGD(0.1), dropped).summary()
