"""Passes on layouts, factors and parallel branches, on random networks and their adjoints.

    RELAXJAX_PROGRAMS=100 python -m pytest tests/passes/layout/test_random_networks.py

tries more networks.
"""

import random

import chex
import jax
import numpy as np
import pytest
from full import how_many
from image_networks import Network
from same_results import drawn_arguments, results

from relaxjax.ir import Function, IRModule, well_formed
from relaxjax.passes import (
    AlterOpLayout,
    CombineParallelConv2D,
    CombineParallelMatmul,
    ConvertLayout,
    FoldBatchnormToConv2D,
    FoldScaleAxis,
    Gradient,
    Pass,
)

SEEDS = range(how_many(1, 100))
STEPS = 12
PASSES: dict[str, Pass] = {
    "AlterOpLayout": AlterOpLayout(),
    "CombineParallelConv2D": CombineParallelConv2D(2),
    "CombineParallelMatmul": CombineParallelMatmul(),
    "ConvertLayout": ConvertLayout({"relax.nn.conv2d": ["NHWC", "HWIO"]}),
    "FoldBatchnormToConv2D": FoldBatchnormToConv2D(),
    "FoldScaleAxis": FoldScaleAxis(),
}


def after(module: IRModule, *passes: str) -> IRModule:
    for name in passes:
        module = PASSES[name](module)
    well_formed(module)
    return module


@pytest.mark.parametrize("seed", SEEDS)
def test_results_stay_what_they_were(seed: int) -> None:
    """After each pass, and after all of them in some order."""
    with jax.enable_x64(True):
        forward = Network(seed).module(STEPS)
        order = random.Random(seed).sample(list(PASSES), len(PASSES))
        for name, module in (("main", forward), ("main_adjoint", Gradient("main")(forward))):
            function = module[name]
            assert isinstance(function, Function)
            args = drawn_arguments(function, seed)
            expected = results(module, name, args)
            for passes in ([one] for one in PASSES):
                changed = after(module, *passes)
                if changed is not module:
                    chex.assert_trees_all_close(
                        results(changed, name, args), expected, rtol=1e-7, atol=1e-9
                    )
                again = after(changed, *passes)
                assert again is changed, f"{passes} is not idempotent"
            changed = after(module, *order)
            chex.assert_trees_all_close(
                results(changed, name, args), expected, rtol=1e-7, atol=1e-9
            )


def test_networks_are_of_use() -> None:
    """Each pass finds something to do in some network."""
    modules = [Network(seed).module(STEPS) for seed in range(12)]
    for name in PASSES:
        assert any(after(module, name) is not module for module in modules), name
    assert np.ptp([len(module["main"].params) for module in modules]) > 0
