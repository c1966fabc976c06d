"""A plan is read back from the program that it was written into."""

import pytest
from legal_adjoints import legal_adjoint

import relaxjax
from relaxjax.ir import IRModule, assert_structural_equal
from relaxjax.passes import Gradient, LegalizeOps, MemoryPlanError, Rematerialize
from relaxjax.passes.differentiation.gradient import function_of
from relaxjax.passes.memory.planning.recompute import rematerialized
from relaxjax.passes.memory.rematerialize import decided
from relaxjax.passes.memory.report.written_plan import read_plan

SCRIPT = """
@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor((512, 64), "float32"), w: R.Tensor((64, 64), "float32")):
        with R.dataflow():
            a = R.nn.gelu(R.matmul(x, w))
            b = R.nn.gelu(R.matmul(a, w))
            c = R.nn.gelu(R.matmul(b, w))
            loss = R.sum(R.multiply(c, c))
            R.output(loss)
        return loss
"""
ADJOINT = "main_adjoint"


@pytest.fixture(scope="module")
def adjoint() -> IRModule:
    module = relaxjax.from_source(SCRIPT, file="model.py")
    assert isinstance(module, IRModule)
    return legal_adjoint(module)


def names_of(mod: IRModule) -> list[str]:
    return sorted(binding.var.name for binding in function_of(mod, ADJOINT).body.bindings())


@pytest.mark.parametrize("policy", ["free", "balanced", "minimal"])
def test_what_is_read_is_what_was_written(adjoint: IRModule, policy: str) -> None:
    planned = Rematerialize(ADJOINT, policy=policy)(adjoint)
    wanted, found = decided(adjoint, ADJOINT, policy=policy), read_plan(planned, ADJOINT)
    plan = found.decided.plan
    assert plan.changes
    assert (plan.extra, plan.peak, plan.size) == (
        wanted.plan.extra,
        wanted.plan.peak,
        wanted.plan.size,
    )
    assert found.decided.planner.none.peak == wanted.planner.none.peak
    assert found.decided.limit is None
    assert names_of(found.mod) == names_of(adjoint)
    assert_structural_equal(rematerialized(found.mod, ADJOINT, plan)[ADJOINT], planned[ADJOINT])


def test_the_report_of_a_planned_program_is_that_of_its_plan(adjoint: IRModule) -> None:
    planned = Rematerialize(ADJOINT, must_recompute=["a"], must_keep=["b"])(adjoint)
    report = relaxjax.memory(planned, ADJOINT)
    wanted = relaxjax.memory(adjoint, ADJOINT, policy="free", must_recompute=["a"], must_keep=["b"])
    assert "a" in {row.name for row in report.recomputed}
    assert "b" in {row.name for row in report.kept}
    assert {row.span.line for row in report.rows if row.span} == {7, 8, 9}
    assert {row.name for row in report.recomputed} <= {row.name for row in wanted.recomputed}
    assert (report.peak, report.extra_flops) == (wanted.peak, wanted.extra_flops)
    assert (report.peak_at, report.at_peak) == (wanted.peak_at, wanted.at_peak)
    assert report.bytes_by_xla == wanted.bytes_by_xla


def test_a_program_without_a_plan_keeps_all(adjoint: IRModule) -> None:
    found = read_plan(adjoint, ADJOINT)
    assert found.mod is adjoint
    assert not found.decided.plan.changes
    assert found.decided.plan.peak == found.decided.planner.none.peak


def test_a_budget_is_told_in_bytes(adjoint: IRModule) -> None:
    planned = Rematerialize(ADJOINT, "60%")(adjoint)
    report = relaxjax.memory(planned, ADJOINT)
    assert report.budget is not None
    assert report.budget == planned[ADJOINT].attrs["memory_budget"]
    assert report.bytes_by_xla <= report.budget == int(0.6 * report.bytes_by_xla_of_all_kept)


def test_arguments_have_one_size() -> None:
    module = relaxjax.from_source(SCRIPT.replace("512", '"n"'))
    assert isinstance(module, IRModule)
    with pytest.raises(MemoryPlanError, match="memory is planned for one size of arguments"):
        read_plan(LegalizeOps()(Gradient("main")(module)), ADJOINT)
