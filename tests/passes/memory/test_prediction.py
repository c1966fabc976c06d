"""Predicted peaks against XLA's own figure, on small whole models."""

from collections.abc import Callable

import pytest
from parsing import parse_functions
from whole_image_models import unet
from whole_model import WholeModel
from whole_models import mlp
from whole_sequence_models import lstm

from relaxjax.lowering.memory import temporary_bytes
from relaxjax.passes import (
    CanonicalizeBindings,
    ChannelsLast,
    EliminateCommonSubexpr,
    Gradient,
    LegalizeOps,
    SimplifyGradient,
)
from relaxjax.passes.differentiation.gradient import function_of
from relaxjax.passes.memory.planning import Planner
from relaxjax.passes.memory.program import Program
from relaxjax.passes.memory.rematerialize import rematerialized

ADJOINT = "main_adjoint"


@pytest.mark.parametrize(
    "make",
    [
        lambda: mlp("float32", batch=64, features=784, hidden=128),
        lambda: unet("float32", batch=4, size=32, few=8, classes=4),
        lambda: lstm("float32", steps=32, batch=16, features=32, hidden=32),
    ],
    ids=["MLP", "U-Net", "LSTM"],
)
def test_peaks_are_predicted_within_10_percent(make: Callable[[], WholeModel]) -> None:
    model = make()
    wanted = [param.name for param in model.module["main"].params[: len(model.params)]]
    mod = Gradient("main", require_grads=wanted, lazy=True)(ChannelsLast()(model.module))
    for one in (SimplifyGradient(), LegalizeOps(), EliminateCommonSubexpr()):
        mod = one(mod)
    mod = CanonicalizeBindings()(mod)
    planner = Planner(Program.of(mod[ADJOINT], mod, ADJOINT))
    for plan in (planner.none, planner.balanced):
        taken = temporary_bytes(rematerialized(mod, ADJOINT, plan), ADJOINT)
        assert 0.9 * taken <= plan.size <= 1.1 * taken


def test_moving_axes_of_length_1_takes_no_memory() -> None:
    mod = LegalizeOps()(
        parse_functions(
            f"""
            @R.function
            def {ADJOINT}(x: R.Tensor((256, 256), "float32")):
                with R.dataflow():
                    a = R.reshape(R.matmul(x, x), (1, 256, 1, 256))
                    b = R.reshape(R.permute_dims(a, (1, 0, 3, 2)), (256, 256))
                    c = R.matmul(b, x)
                    loss = R.max(c)
                    R.output(loss, c)
                return (loss, (c,))
            """
        )
    )
    plan = Planner(Program.of(function_of(mod, ADJOINT), mod, ADJOINT)).none
    taken = temporary_bytes(mod, ADJOINT)
    assert 0.9 * taken <= plan.size <= 1.1 * taken
