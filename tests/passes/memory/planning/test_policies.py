"""Policies against each other: each is predicted to need no more memory than those before it."""

from collections.abc import Mapping
from itertools import pairwise

import jax
import jax.numpy as jnp
import pytest
from differentiable_programs import LARGE, programs
from differentiable_programs import Program as RandomProgram
from exact_plans import random_program
from full import how_many
from hypothesis import Phase, given, reject, settings
from legal_adjoints import prepared
from pass_samples import Case, sample
from whole_image_models import unet

import relaxjax
from relaxjax.ir.module import IRModule
from relaxjax.ops.platform import chosen_platform
from relaxjax.passes import Gradient, MemoryPlanError, PassContext, PassInfo
from relaxjax.passes.memory.planning.planner import POLICIES, Planner
from relaxjax.passes.memory.rematerialize import AUTO, decided

ADJOINT = "main_adjoint"


def assert_none_needs_more_than_the_one_before(peaks: Mapping[str, int]) -> None:
    assert all(peaks[one] >= peaks[other] for one, other in pairwise(POLICIES)), peaks


def peaks_of(adjoint: IRModule) -> dict[str, int]:
    """Those of "minimal" are told only where XLA does not say that keeping all takes less."""
    plans = {policy: decided(adjoint, ADJOINT, policy=policy).plan for policy in POLICIES}
    kept = not plans["minimal"].changes
    return {p: plans["balanced" if kept and p == "minimal" else p].peak for p in POLICIES}


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


def states_of_a_scan(params: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    def after(one: tuple[jax.Array, ...], other: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        return one[0] * other[0], other[0] * one[1] + other[1]

    x = x @ params["in"]
    pace = jax.nn.softplus(x @ params["pace"])[..., None]
    decay = jnp.exp(-pace * jnp.exp(params["decay"])[None, None])
    written = pace * x[..., None] * (x @ params["write"])[:, :, None]
    _, states = jax.lax.associative_scan(after, (decay, written), axis=1)
    read: jax.Array = (states * (x @ params["read"])[:, :, None]).sum(-1)
    return jnp.mean(read**2)


class WithoutLevels:
    """Lets all passes run but StoreLevels."""

    def should_run(self, mod: IRModule, info: PassInfo) -> bool:
        return info.name != "StoreLevels"


@pytest.mark.skipif(chosen_platform() != "cpu", reason="elsewhere nothing is planned by default")
def test_where_free_computes_nothing_again_what_waits_by_default_does() -> None:
    """A scan by halves: what "free" would compute again saves too little to be followed.

    Its levels are not stored here: there would be more that has to be kept.
    """
    width, states = 64, 16
    shapes = {"in": (8, width), "pace": (width, width), "decay": (width, states)}
    params = {
        name: jnp.ones(shape)
        for name, shape in {**shapes, "write": (width, states), "read": (width, states)}.items()
    }
    everything = relaxjax.value_and_grad(states_of_a_scan, memory_policy="none")
    with PassContext(instruments=[WithoutLevels()]):
        mod = everything.module(params, jnp.ones((4, 128, 8)))
    (name,) = (name for name in mod.relax_functions() if name.endswith("_adjoint"))
    default, free, none = (
        decided(mod, name, policy=policy).plan.peak for policy in (AUTO, "free", "none")
    )
    assert free <= default < 0.9 * none
