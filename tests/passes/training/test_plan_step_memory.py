"""Training within a memory budget: XLA's count of the whole step keeps it, and it learns alike."""

from typing import Any

import chex
import numpy as np
import pytest

from relaxjax import Trainer, VirtualMachine, build, from_source
from relaxjax.ir import BlockBuilder, IRModule, TensorType, Var, assert_structural_equal
from relaxjax.ir.dims import Dim, SymbolicVar
from relaxjax.losses import MSELoss
from relaxjax.ops.platform import lowering_for
from relaxjax.optim import MomentumSGD
from relaxjax.passes import MemoryPlanError, SetupTrainer
from relaxjax.passes.memory.planning.estimate import is_worth_a_plan
from relaxjax.script import relax as R

LAYERS, ROWS, WIDTH = 6, 256, 32


def trainable(rows: Dim = ROWS, **options: Any) -> IRModule:
    builder = BlockBuilder()
    values = TensorType((rows, WIDTH), "float32")
    x = Var("x", values)
    weights = [Var(f"w{i}", TensorType((WIDTH, WIDTH), "float32")) for i in range(LAYERS)]
    with builder.function("backbone", [x, *weights]):
        with builder.dataflow():
            y = x
            for weight in weights:
                y = builder.emit(R.nn.gelu(R.matmul(y, weight)))
            out = builder.emit_output(y)
        builder.emit_func_output(out)
    backbone = builder.get().with_attrs({"param_num": LAYERS, "state_num": 0})
    setup = SetupTrainer(MSELoss(), MomentumSGD(0.1, 0.9), [values, values], **options)
    return setup(backbone)


def trained(mod: IRModule) -> tuple[int, dict[str, Any]]:
    """The bytes of a step, and the weights after three of them."""
    random = np.random.default_rng(0)
    batch = random.normal(size=(2, ROWS, WIDTH)).astype("float32")
    trainer = Trainer(mod, VirtualMachine(build(mod)))
    trainer.xavier_uniform_init_params(seed=1)
    for _ in range(3):
        trainer.update(*batch)
    taken = trainer.temporary_bytes(*batch)
    assert taken is not None
    return taken, trainer.export_params()


@pytest.fixture(scope="module")
def everything_kept() -> tuple[int, dict[str, Any]]:
    return trained(trainable())


@pytest.mark.parametrize(
    ("options", "share"), [({"memory_budget": "55%"}, 0.55), ({"memory_policy": "free"}, 0.65)]
)
def test_a_step_keeps_its_budget_and_its_weights(
    everything_kept: tuple[int, dict[str, Any]], options: dict[str, Any], share: float
) -> None:
    whole, expected = everything_kept
    taken, weights = trained(trainable(**options))
    assert taken <= share * whole
    # A product and a sum are rounded once or twice, as XLA sees fit where they meet others.
    chex.assert_trees_all_close(weights, expected, rtol=1e-5, atol=1e-7)


def test_bytes_are_those_of_the_step(everything_kept: tuple[int, dict[str, Any]]) -> None:
    """What fits as it is stays as it is."""
    mod = trainable(memory_budget=everything_kept[0])
    assert "_again" not in mod.script()
    with pytest.raises(
        ValueError, match=r"within 1,000 bytes: the least .* the batch in parts; give"
    ):
        trainable(memory_budget=1000)


def test_batches_of_any_size_keep_everything_or_are_given_one() -> None:
    kept = trained(trainable(SymbolicVar("n"), memory_policy="none"))[1]
    chex.assert_trees_all_close(kept, trained(trainable(memory_policy="none"))[1], rtol=1e-5)
    message = r'takes `x` of type R.Tensor\(\(n, 32\).*by BindSymbolicVars\({"n": 32}\)'
    with pytest.raises(MemoryPlanError, match=message):
        trainable(SymbolicVar("n"), memory_budget="50%")
    with pytest.raises(MemoryPlanError, match=message):
        trainable(SymbolicVar("n"), memory_policy="balanced")


def test_one_wish_at_a_time() -> None:
    with pytest.raises(ValueError, match="leave the budget or the policy out"):
        trainable(memory_budget=0.5, memory_policy="free")


def test_on_the_host_a_budget_is_for_one_device() -> None:
    with pytest.raises(MemoryPlanError, match="are predicted for one device, but the training is"):
        trainable(memory_budget=0.5, memory_policy="offload", devices=2, target="cuda")


def test_loops_stack_no_more_than_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rolled layers stack their products, not also what each got from the one before."""
    # A GELU is more beside such small products than beside usual ones, and so are six layers less.
    monkeypatch.setattr("relaxjax.passes.memory.planning.forms.FREE", 0.1)
    monkeypatch.setattr("relaxjax.passes.memory.planning.decisions._FASTER", 0.75)
    kept = trained(trainable(roll_blocks=True, memory_policy="none"))
    lean = trained(trainable(roll_blocks=True))
    assert lean[0] <= 0.65 * kept[0]
    chex.assert_trees_all_close(lean[1], kept[1], rtol=1e-5, atol=1e-7)


def test_large_steps_are_planned_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing is compiled for it. This model's step is large once little counts as much."""
    monkeypatch.setattr("relaxjax.passes.memory.rematerialize.temporary_bytes", None)
    assert "_again" not in trainable().script()
    monkeypatch.setattr("relaxjax.passes.memory.planning.estimate.SMALL", 1024)
    for limit in ("SMALL", "LARGE"):
        monkeypatch.setattr(f"relaxjax.passes.memory.planning.decisions.{limit}", 1024)
    assert_structural_equal(trainable(), trainable(memory_policy="auto"))
    again, by_free = (trainable(memory_policy=p).script().count("_again") for p in (None, "free"))
    assert 0 < again <= by_free
    assert "_again" not in trainable(memory_policy="none").script()
    assert "_again" not in trainable(legalize=False).script()
    with lowering_for("cuda"):
        assert "_again" not in trainable().script()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("R.scan(both, R.const(0.0), (x,))", True),
        ("L.reduce(both, x, x, R.const(0.0), R.const(0.0), dimensions=(0,))", False),
    ],
)
def test_loops_are_worth_a_plan_and_other_functions_inside_are_not(
    text: str, expected: bool
) -> None:
    params = "a: R.Tensor((), 'float32'), b: R.Tuple(R.Tensor((), 'float32'))"
    result = "(R.add(a, b[0]), ())"
    if not expected:
        params = ", ".join(f"{name}: R.Tensor((), 'float32')" for name in "abcd")
        result = "(L.add(a, c), L.add(b, d))"
    mod: Any = from_source(f"""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        @R.function
        def both({params}):
            return {result}
        sums = {text}
        return sums
""")
    assert is_worth_a_plan(mod["main"]) is expected
