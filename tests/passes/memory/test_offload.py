"""Residuals that wait on the host: what goes there, when, and what that leaves on the device."""

import re
from typing import Any

import chex
import jax
import numpy as np
import pytest

import relaxjax
from relaxjax.ir.module import IRModule
from relaxjax.ir.structural import assert_structural_equal
from relaxjax.ir.types import TensorType
from relaxjax.losses import MSELoss
from relaxjax.lowering import to_jax
from relaxjax.ops.platform import PLATFORM, lowering_for
from relaxjax.optim import MomentumSGD
from relaxjax.passes import (
    EliminateCommonSubexpr,
    Gradient,
    LegalizeOps,
    OffloadResiduals,
    Rematerialize,
    SetupTrainer,
)
from relaxjax.passes.memory.offload import peak_as_written
from relaxjax.passes.memory.program.step import MemoryPlanError
from relaxjax.passes.training.plan_step_memory import memory_of_step
from relaxjax.script import from_source

ADJOINT = "main_adjoint"
ROW = 4 * 512 * 64
LAYERS = "\n".join(
    f"            {y} = R.exp(R.sin(R.matmul({x}, w)))"
    for x, y in zip("xabcdef", "abcdefg", strict=True)
)
DEEP = f"""
@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor((512, 64), "float32"), w: R.Tensor((64, 64), "float32")):
        with R.dataflow():
{LAYERS}
            loss = R.sum(R.multiply(g, g))
            R.output(loss)
        return loss
"""
# A step stacks what it gets, and what it gives.
LOOP = """
@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor((512, 64), "float32"), w: R.Tensor((64, 64), "float32")):
        with R.dataflow():
            @R.function
            def step(carry: R.Tuple(R.Tensor((512, 64), "float32")), x: R.Tuple()):
                with R.dataflow():
                    h = R.tanh(R.matmul(carry[0], w))
                    R.output(h)
                return ((h,), ())
            ys = R.scan(step, (x,), (), length=6)
            loss = R.sum(ys[0][0])
            R.output(loss)
        return loss
"""
SCRIPTS = {"layers": DEEP, "loop": LOOP}


def adjoint_for(platform: str, source: str) -> IRModule:
    module: Any = from_source(source)
    made = EliminateCommonSubexpr()(LegalizeOps()(Gradient("main")(module)))
    return made.with_attr(PLATFORM, platform)


def offloaded(source: str, platform: str = "cuda", **options: Any) -> IRModule:
    adjoint = adjoint_for(platform, source)
    return Rematerialize(ADJOINT, policy="offload", **options)(adjoint)


def peak(mod: IRModule) -> int:
    with lowering_for(mod.attrs[PLATFORM]):
        return peak_as_written(mod, ADJOINT)


def arguments() -> list[Any]:
    random = np.random.default_rng(0)
    shapes = ((512, 64), (64, 64))
    return [(random.normal(size=shape) / 8).astype("float32") for shape in shapes]


def lowered(mod: IRModule, name: str, platform: str, *args: Any) -> str:
    made = jax.jit(to_jax(mod, name)).trace(*args)
    return str(made.lower(lowering_platforms=(platform,)).as_text())


def moved_to(text: str, memory: str) -> list[str]:
    """The names of what a lowered program moves to some memory."""
    call = rf'@annotate_device_placement\((%[\w#]+)\).*"{memory}"'
    return re.findall(call, text)


@pytest.mark.parametrize("platform", ["cuda", "tpu"])
def test_products_go_to_the_host_and_come_back(platform: str) -> None:
    mod = offloaded(DEEP, platform)
    script = mod.script()
    count = script.count("R.memory.to_host")
    assert count == script.count("R.memory.to_device") >= 4
    text = lowered(mod, ADJOINT, platform, *arguments())
    sent = moved_to(text, "pinned_host")
    assert len(sent) == len(moved_to(text, "device")) == count
    for name in sent:
        assert f"{name} = stablehlo.dot_general" in text


@pytest.mark.parametrize("name", SCRIPTS)
def test_what_is_written_is_read_back(name: str) -> None:
    mod = offloaded(SCRIPTS[name])
    again: Any = from_source(mod.script())
    assert_structural_equal(again, mod)


@pytest.mark.parametrize("name", SCRIPTS)
def test_gradients_stay_the_same(name: str) -> None:
    before, after = adjoint_for("cuda", SCRIPTS[name]), offloaded(SCRIPTS[name])
    found = [
        jax.jit(to_jax(mod.without_attr(PLATFORM), ADJOINT))(*arguments())
        for mod in (before, after)
    ]
    chex.assert_trees_all_close(*found, rtol=1e-5, atol=1e-6)


def test_steps_send_what_they_stack_and_steps_back_fetch_it() -> None:
    mod = offloaded(LOOP)
    sent = re.findall(r"(\w+_host): .* = R.memory.to_host", mod.script())
    assert f"return ((h,), (R.tuple(), ({sent[0]}, {sent[1]})))" in mod.script()
    text = lowered(mod, ADJOINT, "cuda", *arguments())
    assert len(moved_to(text, "pinned_host")) == len(moved_to(text, "device")) == 2
    assert peak(mod) <= peak(adjoint_for("cuda", LOOP)) - 10 * ROW


def test_a_report_shows_what_is_on_the_host() -> None:
    adjoint = adjoint_for("cuda", DEEP)
    report = relaxjax.memory(adjoint, ADJOINT, policy="offload")
    away = report.on_host
    assert len(away) >= 4
    assert {row.bytes for row in away} == {ROW}
    assert all(row.on_host and not row.is_choice for row in away)
    assert {row.name for row in away}.isdisjoint(row.name for row in report.kept)
    assert report.recomputed
    assert "kept in the memory of the host" in str(report)
    assert f"on the host: {len(away) * 128}.0 KiB in {len(away)} values" in str(report)
    assert [value["on_host"] for value in report.to_json()["values"]].count(True) == len(away)
    free = relaxjax.memory(adjoint, ADJOINT, policy="free")
    assert abs(report.peak_of_all_kept - free.peak_of_all_kept) < 64
    assert report.peak <= free.peak - 2 * ROW
    assert str(relaxjax.memory(offloaded(DEEP), ADJOINT)) == str(report)


def test_a_report_shows_what_loops_stack_on_the_host() -> None:
    report = relaxjax.memory(offloaded(LOOP), ADJOINT)
    (row,) = report.on_host
    assert row.bytes == 12 * ROW
    assert report.peak_of_all_kept >= report.peak + 10 * ROW


def test_a_smaller_budget_sends_no_less() -> None:
    adjoint = adjoint_for("cuda", DEEP)
    counts = []
    for share in (1.0, 0.6, 0.45, 0.4):
        limit = int(share * peak(adjoint))
        mod = Rematerialize(ADJOINT, f"{share:.0%}", policy="offload")(adjoint)
        assert peak(mod) <= limit
        assert relaxjax.memory(mod, ADJOINT).budget == limit
        counts.append(mod.script().count("R.memory.to_host"))
    assert counts == sorted(counts)
    assert counts[0] == 0 < counts[-1]


def test_values_that_wait_longest_go_first() -> None:
    adjoint = adjoint_for("cuda", DEEP)
    limit = peak(Rematerialize(ADJOINT, policy="free")(adjoint)) - 1
    script = Rematerialize(ADJOINT, limit, policy="offload")(adjoint).script()
    sent = re.findall(r"R.memory.to_host\((\w+)\)", script)
    first = re.search(r"(\w+): .* = L.dot_general\(x, w", script)
    assert first is not None
    assert sent == [first[1]]


def test_a_budget_that_is_too_small_is_told_the_least() -> None:
    least = peak(offloaded(DEEP))
    message = rf"cannot be computed within 1,000 bytes with its residuals .* least is {least:,} b"
    with pytest.raises(MemoryPlanError, match=message):
        offloaded(DEEP, budget_bytes=1000)


def test_a_cpu_has_no_other_memory() -> None:
    adjoint = adjoint_for("cpu", DEEP)
    assert OffloadResiduals(ADJOINT)(adjoint) is adjoint
    with pytest.raises(MemoryPlanError, match="a CPU has no memory but the host's, to which"):
        OffloadResiduals(ADJOINT, 1000)(adjoint)
    with pytest.warns(UserWarning, match=r"`offload` moves nothing on a CPU.*: `free` is taken"):
        planned = Rematerialize(ADJOINT, policy="offload")(adjoint)
    assert_structural_equal(planned, Rematerialize(ADJOINT, policy="free")(adjoint))
    with pytest.warns(UserWarning, match="the budget is kept without it"):
        within = Rematerialize(ADJOINT, "80%", policy="offload")(adjoint)
    assert_structural_equal(within, Rematerialize(ADJOINT, "80%")(adjoint))


def test_values_that_others_return_or_read_at_once_stay() -> None:
    source: Any = from_source("""
@I.ir_module
class Module:
    I.module_attrs({"platform": "cuda"})

    @R.function
    def main_adjoint(x: R.Tensor((512, 512), "float32")):
        with R.dataflow():
            a = R.matmul(x, x)
            b = R.matmul(a, x)
            soon = R.matmul(b, x)
            loss = R.sum(soon)
            c = R.matmul(soon, soon)
            d = R.matmul(c, b)
            e = R.matmul(d, x)
            f = R.matmul(e, x)
            x_adjoint = R.matmul(a, f)
            R.output(loss, a, x_adjoint)
        return ((loss, a), (x_adjoint,))
""")
    assert OffloadResiduals(ADJOINT)(source) is source


def test_a_whole_training_step_for_a_gpu() -> None:
    source: Any = from_source("""
@I.ir_module
class Model:
    I.module_attrs({"param_num": 2, "state_num": 0})

    @R.function
    def backbone(
        x: R.Tensor((512, 64), "float32"),
        w: R.Tensor((64, 64), "float32"),
        v: R.Tensor((64, 64), "float32"),
    ):
        with R.dataflow():
            a = R.tanh(R.matmul(x, w))
            b = R.tanh(R.matmul(a, v))
            c = R.tanh(R.matmul(b, w))
            d = R.tanh(R.matmul(c, v))
            y = R.tanh(R.matmul(d, w))
            R.output(y)
        return y
""")
    values = TensorType((512, 64), "float32")
    setup = SetupTrainer(
        MSELoss(), MomentumSGD(0.1, 0.9), [values, values], memory_policy="offload", target="cuda"
    )
    mod = setup(source)
    report = memory_of_step(mod)
    assert report.on_host
    assert report.peak < report.peak_of_all_kept
    types = [param.ty for param in mod["train_step"].params]

    def abstract(ty: Any) -> Any:
        fields = getattr(ty, "fields", None)
        if fields is not None:
            return tuple(map(abstract, fields))
        return jax.ShapeDtypeStruct(ty.dims, ty.dtype)

    text = lowered(mod, "train_step", "cuda", *map(abstract, types))
    assert len(moved_to(text, "pinned_host")) == len(report.on_host)
