"""Losses, optimizers and the Trainer against those of TVM itself, where TVM is right.

TVM is asked in a process of its own, by the interpreter that `RELAXJAX_TVM_PYTHON` names.
"""

from typing import Any

import numpy as np
import pytest
from asking_tvm import asked_of_tvm
from parsing import parse_module

from relaxjax import SetupTrainer, Trainer, VirtualMachine, build, from_source, losses, optim
from relaxjax.ir import Function, TensorType, Var, assert_structural_equal

ASK_TVM = """
import json, sys
import numpy as np
import tvm
from tvm import relax
from tvm.relax.training import SetupTrainer, Trainer, loss, optimizer
from tvm.script import from_source

class Numpy:
    # TVM's Adam gives numpy a dtype of TVM's own, which numpy does not take: by its name it does.
    def __getattr__(self, name):
        return getattr(np, name)

    def ones(self, shape, dtype):
        return np.ones(shape, str(getattr(dtype, "dtype", dtype)))

optimizer.np = Numpy()
asked = json.load(open(sys.argv[1]))
answers = {}
for name, (made, types) in asked["losses"].items():
    answers[name] = eval(made, vars(loss))(*(relax.TensorType(*ty) for ty in types))
params = [relax.Var(name, relax.TensorType(*ty)) for name, ty in asked["params"].items()]
for made in asked["optimizers"]:
    answers[made] = eval(made, vars(optimizer)).init(params).get_function()
answers = {name: f.script(show_meta=True) for name, f in answers.items()}

def train(made):
    types = [relax.TensorType(*ty) for ty in asked["loss_types"]]
    setup = SetupTrainer(loss.CrossEntropyLoss(), eval(made, vars(optimizer)), types)
    mod = setup(from_source(asked["model"]))
    vm = relax.VirtualMachine(tvm.compile(mod, "llvm"), tvm.cpu())
    trainer = Trainer(mod, vm, tvm.cpu(), False)
    trainer.load_params([np.array(value, "float32") for value in asked["weights"]])
    trainer.zero_init_states()
    steps = [(np.array(x, "float32"), np.array(y, "int64")) for x, y in asked["batches"]]
    losses = [float(trainer.update(x, y).numpy()) for x, y in steps]
    params = {name: value.numpy().tolist() for name, value in trainer.export_params().items()}
    return {"losses": losses, "params": params}

answers |= {"trained by " + made: train(made) for made in asked["optimizers"]}
json.dump(answers, open(sys.argv[2], "w"))
"""

MODEL = """
@I.ir_module
class Model:
    I.module_attrs({"param_num": 4, "state_num": 0})

    @R.function
    def backbone(
        x: R.Tensor((4, 5), "float32"),
        w0: R.Tensor((5, 6), "float32"),
        b0: R.Tensor((6,), "float32"),
        w1: R.Tensor((6, 3), "float32"),
        b1: R.Tensor((3,), "float32"),
    ) -> R.Tensor((4, 3), "float32"):
        with R.dataflow():
            lv0 = R.matmul(x, w0)
            lv1 = R.add(lv0, b0)
            lv2 = R.nn.relu(lv1)
            lv3 = R.matmul(lv2, w1)
            out = R.add(lv3, b1)
            R.output(out)
        return out
"""
LOSS_TYPES = [((4, 3), "float32"), ((4,), "int64")]

rng = np.random.default_rng(0)
WEIGHTS = [rng.normal(size=shape).tolist() for shape in ((5, 6), (6,), (6, 3), (3,))]
IMAGES, TEACHER = rng.normal(size=(100, 4, 5)), rng.normal(size=(5, 3))
BATCHES = [(x.tolist(), (x @ TEACHER).argmax(1).tolist()) for x in IMAGES]

SCORES, IDS, ONE_HOT = ((3, 5), "float32"), ((3,), "int64"), ((3, 5), "int64")
CLASS_WEIGHTS = ((5,), "float32")

LOSSES: dict[str, tuple[str, list[Any]]] = {
    **{
        f"{kind} {reduction}": (f"{kind}('{reduction}')", [SCORES, SCORES])
        for kind in ("L1Loss", "MSELoss")
        for reduction in ("mean", "sum", "none")
    },
    **{
        f"class ids {reduction}": (f"CrossEntropyLoss('{reduction}', 2)", [SCORES, IDS])
        for reduction in ("mean", "sum", "none")
    },
    "weighted class ids": ("CrossEntropyLoss()", [SCORES, IDS, CLASS_WEIGHTS]),
    "one-hot": ("CategoricalCrossEntropyLoss('sum')", [SCORES, ONE_HOT]),
    "weighted one-hot": ("CategoricalCrossEntropyLoss('sum')", [SCORES, ONE_HOT, CLASS_WEIGHTS]),
}

PARAMS = {"x": ((3, 3), "float32"), "y": ((3,), "float32")}
OPTIMIZERS = [
    "SGD(0.1)",
    "SGD(0.1, 0.02)",
    "MomentumSGD(0.05, 0.9)",
    "MomentumSGD(0.05, 0.9, 0.85, 0.02)",
    "MomentumSGD(0.05, 0.9, 0.85, 0.02, nesterov=True)",
    "Adam(0.01)",
    "Adam(0.01, (0.8, 0.85), 1e-7, 0.1)",
]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    questions = {
        "losses": LOSSES,
        "params": PARAMS,
        "optimizers": OPTIMIZERS,
        "model": MODEL,
        "loss_types": LOSS_TYPES,
        "weights": WEIGHTS,
        "batches": BATCHES,
    }
    found: dict[str, Any] = asked_of_tvm(tmp_path_factory.mktemp("tvm"), ASK_TVM, lambda: questions)
    return found


def read(text: str) -> Function:
    function = from_source(text)
    assert isinstance(function, Function)
    return function


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_is_that_of_tvm(name: str, answers: dict[str, Any]) -> None:
    made, types = LOSSES[name]
    ours = eval(made, {**vars(losses)})(*(TensorType(*ty) for ty in types))
    assert_structural_equal(ours, read(answers[name]))


@pytest.mark.parametrize("made", OPTIMIZERS)
def test_an_optimizer_is_that_of_tvm(made: str, answers: dict[str, Any]) -> None:
    params = [Var(name, TensorType(*ty)) for name, ty in PARAMS.items()]
    ours = eval(made, {**vars(optim)}).init(params).get_function()
    assert_structural_equal(ours, read(answers[made]))


@pytest.mark.parametrize("made", OPTIMIZERS)
def test_a_hundred_steps_are_those_of_the_trainer_of_tvm(
    made: str, answers: dict[str, Any]
) -> None:
    model = parse_module(MODEL)
    types = [TensorType(*ty) for ty in LOSS_TYPES]
    mod = SetupTrainer(losses.CrossEntropyLoss(), eval(made, {**vars(optim)}), types)(model)
    trainer = Trainer(mod, VirtualMachine(build(mod)))
    trainer.load_params([np.array(value, "float32") for value in WEIGHTS])
    found = [
        float(trainer.update(np.array(x, "float32"), np.array(y, "int64"))) for x, y in BATCHES
    ]
    expected = answers[f"trained by {made}"]
    wanted = {**expected["params"], "losses": expected["losses"]}
    for name, value in {**trainer.export_params(), "losses": np.array(found)}.items():
        scale = np.abs(wanted[name]).max()
        np.testing.assert_allclose(
            value / scale, wanted[name] / scale, rtol=0, atol=1e-6, err_msg=name
        )
