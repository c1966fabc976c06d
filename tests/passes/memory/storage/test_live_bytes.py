"""The model of memory where no compiler is known: what is live in the order that is written."""

import pytest
from legal_adjoints import adjoint_for, loop_of_layers
from parsing import parse_flow

import relaxjax
from relaxjax.ops.platform import PLATFORM
from relaxjax.passes import Rematerialize

ROW = 4 * 512 * 64
BODY = """
    a = R.exp(R.sin(R.matmul(x, w)))
    b = R.exp(R.sin(R.matmul(a, w)))
    loss = R.sum(R.multiply(b, b))
"""
MODEL, LOOP = parse_flow(BODY, x=(512, 64), w=(64, 64)), loop_of_layers(3)


def test_what_one_step_alone_reads_is_computed_inside_it() -> None:
    report = relaxjax.memory(adjoint_for("cuda", MODEL), "main_adjoint", policy="none")
    stored = {kernel.buffer[0][0].name for kernel in report.plan.kernels.all if kernel.size}
    assert {"lv", "a", "lv2", "b"} <= stored  # products, and what several steps read
    inside = ("lax.sin", "lax.cos", "lax.transpose")
    steps = report.plan.program.steps
    fused = {s.var.name for s in steps if s.op is not None and s.op.name in inside}
    assert len(fused) == 7
    assert stored.isdisjoint(fused)


def test_a_loop_takes_its_results_and_what_a_step_needs() -> None:
    report = relaxjax.memory(adjoint_for("cuda", LOOP), "main_adjoint", policy="none")
    forward, backward = report.plan.program.loops
    order = [kernel.buffer for kernel in report.plan.placement.order]
    for loop in (forward, backward):
        whole, step = ((loop, False), None), ((loop, False), "a step")
        assert order.index(step) == order.index(whole) + 1
    saved = report.plan.placement.lives[(forward, False), None]
    assert saved[2] >= 4 * ROW  # what is carried, and a stack of three
    assert saved[0] < saved[1]
    assert order[saved[1]] == ((backward, False), "a step")


def test_a_plan_for_a_device_that_is_not_here_is_estimated() -> None:
    mod = adjoint_for("cuda", MODEL)
    report = relaxjax.memory(mod, "main_adjoint", policy="free")
    assert report.is_estimated
    assert report.plan.model.runs_as_written
    assert report.recomputed
    assert report.peak < report.peak_of_all_kept
    assert report.peak_of_all_kept >= 4 * ROW  # two values of each layer
    assert report.live == tuple(report.live)
    assert sum(report.at_peak.values()) == report.peak
    told = "estimated: the compiler for cuda is not here to count"
    assert told in str(report)
    assert told in report._repr_html_()
    peaks = report.to_json()["peaks"]
    assert peaks["planned"]["by_xla"] is peaks["everything kept"]["by_xla"] is None
    planned = Rematerialize("main_adjoint", policy="free")(mod)
    assert planned.attrs[PLATFORM] == "cuda"
    assert "_again" in str(planned.script())


def test_here_it_is_counted() -> None:
    report = relaxjax.memory(adjoint_for("cpu", MODEL), "main_adjoint", policy="free")
    assert not report.is_estimated
    assert "by XLA's count" in str(report)


@pytest.mark.parametrize("policy", ["free", "balanced", "minimal"])
def test_policies_save_by_it(policy: str) -> None:
    report = relaxjax.memory(adjoint_for("tpu", MODEL), "main_adjoint", policy=policy)
    assert report.peak <= 0.85 * report.peak_of_all_kept


def test_a_budget_is_counted_where_its_device_is() -> None:
    with pytest.raises(TypeError, match="what memory a program takes on tpu is told by"):
        relaxjax.memory(adjoint_for("tpu", MODEL), "main_adjoint", budget="50%")
