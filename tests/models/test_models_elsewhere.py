"""Whole models with their gradients, and a training step, lowered for a GPU and a TPU.

That takes no such device, and runs nothing: what is compared is the text of the programs.
"""

import re
from collections import Counter
from typing import Any

import jax
import pytest
from full import FULL
from jax import export
from small_models import BATCH, CLASSES, Classifier
from whole_models import MODELS

from relaxjax.ir.types import TensorType
from relaxjax.losses import CrossEntropyLoss
from relaxjax.lowering import LoweringError, exported_function
from relaxjax.optim import Adam
from relaxjax.passes import Gradient, SetupTrainer, SimplifyGradient

ELSEWHERE = ("cuda", "tpu")
HEAVY = ("convolution", "dot_general", "select_and_scatter", "while")


def operations(text: str) -> Counter[str]:
    """How often a program has each operation that is worth counting."""
    found = Counter(re.findall(r"stablehlo\.(\w+)", text))
    return Counter({name: found[name] for name in HEAVY})


def by_jax(name: str, platform: str) -> Counter[str]:
    """What plain JAX makes of the model's gradient there."""
    model = MODELS[name]("float32")

    def loss(*args: Any) -> Any:
        result = model.plain(*args)
        return result[0] if isinstance(result, tuple) else result

    gradient = jax.value_and_grad(loss, tuple(range(len(model.params))))
    with jax.numpy_rank_promotion("allow"):
        exported = export.export(jax.jit(gradient), platforms=[platform])
        return operations(exported(*model.params, *model.inputs).mlir_module())


@pytest.mark.parametrize("platform", ELSEWHERE)
@pytest.mark.parametrize("name", [name for name in MODELS if FULL or name != "ResNet-50"])
def test_a_model_has_no_more_of_what_is_dear_than_jax_writes(name: str, platform: str) -> None:
    """But for attention, whose scores are computed again rather than kept."""
    model = MODELS[name]("float32")
    params = model.module["main"].params[: len(model.params)]
    mod = SimplifyGradient()(Gradient("main", params, lazy=True)(model.module))
    found = operations(exported_function(mod, "main_adjoint", [platform]).mlir_module())
    expected = by_jax(name, platform)
    expected["dot_general"] += str(mod["main_adjoint"].script()).count("R.grad.attention_backward")
    assert found["convolution"] == expected["convolution"]
    assert all(found[kind] <= expected[kind] for kind in HEAVY), (found, expected)


@pytest.mark.parametrize("target", ELSEWHERE)
def test_a_training_step_is_set_up_for_a_target_that_is_not_here(target: str) -> None:
    scores, targets = TensorType((BATCH, CLASSES), "float32"), TensorType((BATCH,), "int32")
    setup = SetupTrainer(CrossEntropyLoss(), Adam(0.1), [scores, targets], target=target)
    mod = setup(Classifier)  # type: ignore[arg-type]  # mypy takes it for a class
    assert mod.attrs["platform"] == target
    exported = exported_function(mod, "train_step")
    assert exported.platforms == (target,)
    assert operations(exported.mlir_module())["dot_general"] == 5
    with pytest.raises(LoweringError, match=f"is made for {target}, but it is to run on cpu"):
        exported_function(mod, "train_step", ["cpu"])
