"""What passes for trainable modules say of a module that SetupTrainer has not made."""

from typing import Any

import pytest

from relaxjax import IRModule
from relaxjax.optim import SGD
from relaxjax.passes import (
    AppendAdjoint,
    AppendOptimizer,
    CheckTrains,
    DescribeLoss,
    FuseTrainStep,
    LossChannelsLast,
    PlanStepMemory,
    ShardTraining,
    SimplifyAdjoint,
    StackLayers,
    StoreKernels,
    UpdateRows,
    UseTrainingForms,
)

OF_THE_LOSS = [
    AppendAdjoint(),
    AppendOptimizer(SGD(0.1)),
    CheckTrains(),
    DescribeLoss(),
    LossChannelsLast(),
    ShardTraining(),
    StackLayers(),
    StoreKernels(),
    UseTrainingForms(),
]
OF_ITS_ADJOINT = [
    FuseTrainStep(),
    PlanStepMemory(),
    PlanStepMemory(memory_policy="free"),
    SimplifyAdjoint(),
    UpdateRows(),
]


@pytest.mark.parametrize("a_pass", OF_THE_LOSS, ids=lambda a_pass: a_pass.info.name)
def test_a_module_without_a_loss_is_an_error(a_pass: Any) -> None:
    match = r"the module has no function `backbone_loss`: apply SetupTrainer\(loss, optimizer"
    with pytest.raises(ValueError, match=match):
        a_pass(IRModule())


@pytest.mark.parametrize("a_pass", OF_ITS_ADJOINT, ids=lambda a_pass: a_pass.info.name)
def test_a_module_without_the_adjoint_of_a_loss_is_an_error(a_pass: Any) -> None:
    match = r"the module has no function `backbone_loss_adjoint`: apply SetupTrainer\(loss, opti"
    with pytest.raises(ValueError, match=match):
        a_pass(IRModule())
