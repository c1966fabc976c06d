"""Whole models compiled as users do: each in a way of its own.

The largest ones take minutes, and are tried if `RELAXJAX_FULL` is set.
"""

import pytest
from full import FULL
from whole_models import MODELS

from relaxjax.testing import Way, compare_compilations

pytestmark = pytest.mark.as_users

WAYS = {
    "MLP": Way("build"),
    "LeNet": Way("standard_pipeline_3"),
    "ResNet-18": Way("value_and_grad", "free"),
    "ResNet-50": Way("simplified", "balanced"),
    "U-Net": Way("value_and_grad", "balanced"),
    "transformer": Way("simplified", "free"),
    "LSTM": Way("value_and_grad", "none", "bfloat16"),
}
LONG = set() if FULL else {"ResNet-18", "ResNet-50", "U-Net"}


@pytest.mark.parametrize("name", [name for name in MODELS if name not in LONG])
def test_the_gradients_of_a_model_compiled(name: str) -> None:
    model = MODELS[name]("float32")
    compare_compilations(model.module, "main", (*model.params, *model.inputs), ways=[WAYS[name]])
