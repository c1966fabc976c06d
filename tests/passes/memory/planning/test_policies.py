"""Policies against each other: each is predicted to need no more memory than those before it."""

from collections.abc import Mapping
from itertools import pairwise

import jax
import pytest
from differentiable_programs import LARGE, programs
from differentiable_programs import Program as RandomProgram
from exact_plans import random_program
from full import how_many
from hypothesis import Phase, given, reject, settings
from legal_adjoints import prepared
from pass_samples import Case, sample
from whole_image_models import unet

from relaxjax.ir.module import IRModule
from relaxjax.passes import Gradient, MemoryPlanError
from relaxjax.passes.memory.planning.planner import POLICIES, Planner
from relaxjax.passes.memory.rematerialize import decided

ADJOINT = "main_adjoint"


def assert_none_needs_more_than_the_one_before(peaks: Mapping[str, int]) -> None:
    assert all(peaks[one] >= peaks[other] for one, other in pairwise(POLICIES)), peaks


def peaks_of(adjoint: IRModule) -> dict[str, int]:
    return {policy: decided(adjoint, ADJOINT, policy=policy).plan.peak for policy in POLICIES}


@pytest.mark.parametrize(("seed", "length"), [(8, 10), (13, 10), (0, 40)])
def test_of_chains_with_skips(seed: int, length: int) -> None:
    """The first two have a balanced plan that no candidate for the minimal one comes up to."""
    planner = Planner(random_program(seed, length, length))
    peaks = {policy: planner.by_policy(policy).peak for policy in POLICIES}
    assert peaks["minimal"] < peaks["none"]
    assert_none_needs_more_than_the_one_before(peaks)


def test_of_a_model() -> None:
    model = unet("float32", batch=2, size=16, few=4)
    wanted = [param.name for param in model.module["main"].params[: len(model.params)]]
    mod = prepared(Gradient("main", require_grads=wanted, lazy=True)(model.module))
    assert_none_needs_more_than_the_one_before(peaks_of(mod))


def test_of_random_programs() -> None:
    @settings(
        phases=[Phase.explicit, Phase.generate],
        max_examples=how_many(6),
        suppress_health_check=LARGE,
    )
    @given(programs(["float64"]))
    def one(program: RandomProgram) -> None:
        if program.cotangent:
            return
        with jax.enable_x64(True):
            fixed = sample("BindSymbolicVars", Case(program.module, "main", program.args))[0]
            adjoint = Gradient("main", target_index=program.target_index)(fixed(program.module))
            try:
                assert_none_needs_more_than_the_one_before(peaks_of(adjoint))
            except MemoryPlanError:
                reject()  # a value's shape depends on what a match_cast finds

    one()
