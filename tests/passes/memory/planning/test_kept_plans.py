"""Plans are kept on disk: the next process that plans a program finds its plan there."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import optax
import pytest
from parsing import parse_backbone

import relaxjax
from relaxjax.ir import IRModule, TensorType, assert_structural_equal
from relaxjax.losses import MSELoss
from relaxjax.lowering.cache_folder import VARIABLE
from relaxjax.optim import SGD
from relaxjax.passes import Rematerialize, SetupTrainer
from relaxjax.passes.memory import rematerialize
from relaxjax.passes.memory.planning import kept_plans
from relaxjax.passes.memory.planning.planner import Planner
from relaxjax.passes.memory.planning.plans_by_count import Chooser
from relaxjax.passes.memory.program.schedule import Order

ADJOINT = "loss_adjoint"


@pytest.fixture(autouse=True)
def folder(kept_on_disk: Path) -> Path:
    return kept_on_disk / "plans"


def adjoint(factor: float = 1.0) -> IRModule:
    def loss(weights: Any, x: Any) -> Any:
        for weight in weights:
            x = jax.nn.gelu(x @ weight)
        return factor * (x * x).sum()

    step = relaxjax.value_and_grad(loss, memory_policy="none")
    return step.module([jnp.ones((16, 16))] * 4, jnp.ones((128, 16)))


def in_a_loop() -> IRModule:
    """A loop, whose steps save less in the plans of "balanced"."""

    def loss(weights: Any, x: Any) -> Any:
        def layer(x: Any, weight: Any) -> Any:
            return jax.nn.gelu(x @ weight), None

        return (jax.lax.scan(layer, x, weights)[0] ** 2).sum()

    step = relaxjax.value_and_grad(loss, memory_policy="none")
    return step.module(jnp.ones((4, 16, 16)), jnp.ones((128, 16)))


def plans(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.plan"))


def test_a_plan_is_not_one_of_other_code(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes by forms of the program, which others may make otherwise."""
    Rematerialize(ADJOINT, policy="balanced")(adjoint())
    monkeypatch.setattr(kept_plans, "code", lambda: "other")
    Rematerialize(ADJOINT, policy="balanced")(adjoint(factor=1.0))
    assert len(plans(folder)) == 2


OPTIONS: dict[str, tuple[Any, dict[str, Any]]] = {
    "a budget": (adjoint, {"budget_bytes": "70%"}),
    "balanced": (adjoint, {"policy": "balanced"}),
    "minimal, with orders": (adjoint, {"policy": "minimal"}),
    "a loop": (in_a_loop, {"policy": "balanced"}),
    "decisions": (adjoint, {"policy": "balanced", "must_keep": ["lv"]}),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_the_second_process_searches_no_plan(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, options = OPTIONS[name]
    first = Rematerialize(ADJOINT, **options)(make())
    assert len(plans(folder)) == 1
    monkeypatch.setattr(Planner, "candidates", property(lambda _: pytest.fail("it searches")))
    monkeypatch.setattr(Chooser, "within", lambda *_: pytest.fail("it searches"))
    second = Rematerialize(ADJOINT, **options)(make())
    assert_structural_equal(second, first)
    assert second[ADJOINT] != make()[ADJOINT]


def step_of_training(**options: Any) -> IRModule:
    values = TensorType((256, 16), "float32")
    body = "out = R.nn.gelu(R.matmul(R.nn.gelu(R.matmul(x, w0)), w1))"
    mod = parse_backbone(body, param_num=2, x=(256, 16), w0=(16, 16), w1=(16, 16))
    return SetupTrainer(MSELoss(), SGD(0.1), [values, values], **options)(mod)


@pytest.mark.parametrize("options", [{"memory_budget": "70%"}, {"memory_policy": "balanced"}])
def test_the_plan_of_a_training_step_is_kept(
    options: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = step_of_training(**options)
    assert len(plans(folder)) == 1
    monkeypatch.setattr(Planner, "candidates", property(lambda _: pytest.fail("it searches")))
    monkeypatch.setattr(Chooser, "within", lambda *_: pytest.fail("it searches"))
    assert_structural_equal(step_of_training(**options), first)


def test_other_programs_and_options_have_their_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mods = [adjoint(), adjoint(2.0)]
    for mod in mods:
        Rematerialize(ADJOINT, policy="balanced")(mod)
    Rematerialize(ADJOINT, "70%")(mods[0])
    Rematerialize(ADJOINT, policy="balanced", must_keep=["lv"])(mods[0])
    assert len(plans(folder)) == 4
    monkeypatch.setattr(kept_plans, "versions", lambda: "another one")
    Rematerialize(ADJOINT, policy="balanced")(mods[0])
    assert len(plans(folder)) == 5


@pytest.mark.parametrize(
    "content",
    [b"{", b"[]", b"{}", b'{"form": 99, "budget": null}', b'{"form": 0, "budget": 1, "steps": 3}'],
)
def test_a_file_that_is_no_plan_is_told_and_written_anew(folder: Path, content: bytes) -> None:
    mod = adjoint()
    first = Rematerialize(ADJOINT, policy="balanced")(mod)
    (path,) = plans(folder)
    good = path.read_bytes()
    path.write_bytes(content)
    with pytest.warns(UserWarning, match="holds no plan of memory that can be read, so that it is"):
        second = Rematerialize(ADJOINT, policy="balanced")(mod)
    assert_structural_equal(second, first)
    assert path.read_bytes() == good


def test_what_is_cheap_to_plan_is_not_kept(folder: Path) -> None:
    for policy in ("none", "free", "auto"):
        Rematerialize(ADJOINT, policy=policy)(adjoint())
    assert not plans(folder)


def test_nothing_is_kept_where_nothing_may_be(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "off")
    Rematerialize(ADJOINT, policy="balanced")(adjoint())
    assert not folder.exists()


def test_many_may_write_at_once(folder: Path) -> None:
    """Each writes the whole file, under another name first."""
    mod = adjoint()
    found = rematerialize.decided(mod, ADJOINT, policy="balanced")
    (path,) = plans(folder)
    good = path.read_bytes()
    kept = kept_plans.KeptPlans(mod, (ADJOINT,))
    with ThreadPoolExecutor(4) as pool:
        for _ in range(20):
            pool.submit(kept.write, found.plan, 0, None)
    assert kept.path is not None
    assert kept.path.read_bytes() == good
    assert sorted(os.listdir(folder)) == sorted([path.name, kept.path.name])


def test_an_argument_that_waits_is_kept_as_well() -> None:
    mod = adjoint()
    planner = rematerialize.planner_of(mod, ADJOINT)
    program = planner.program
    (x,) = {v for step in program.steps for v in step.inputs if v.name == "x"}
    moment = program.backward[0].var
    plan = replace(planner.none, orders=(Order((x, False), moment, moment),))
    kept = kept_plans.KeptPlans(mod, (ADJOINT,))
    kept.write(plan, 0, None)
    assert kept.read(lambda _: planner) == (planner, plan, None, None)


def test_a_plan_of_a_step_whose_caller_keeps_its_state_is_kept(folder: Path) -> None:
    def loss(params: Any, x: Any) -> Any:
        return jnp.mean(jnp.tanh(x @ params["w"]) ** 2)

    init, step = relaxjax.train_step(loss, optax.adam(0.1), memory_policy="balanced")
    state = init({"w": jnp.ones((16, 16))})
    first = step.module(state, jnp.ones((64, 16)))
    assert plans(folder)
    _, again = relaxjax.train_step(loss, optax.adam(0.1), memory_policy="balanced")
    assert_structural_equal(again.module(state, jnp.ones((64, 16))), first)
