"""Where the bytes of a backward program go, as a Python object."""

import json
from html.parser import HTMLParser

import pytest
from legal_adjoints import legal_adjoint

import relaxjax
from relaxjax.ir import Function, IRModule
from relaxjax.lowering.memory import temporary_bytes
from relaxjax.passes import Gradient, MemoryPlanError, Rematerialize
from relaxjax.passes.memory.report.tables import as_html

SCRIPT = """
@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor((512, 64), "float32"), w: R.Tensor((64, 64), "float32")):
        with R.dataflow():
            a = R.nn.gelu(R.matmul(x, w))
            b = R.nn.gelu(R.matmul(a, w))
            loss = R.sum(R.multiply(b, b))
            R.output(loss)
        return loss
"""
ADJOINT = "main_adjoint"


@pytest.fixture(scope="module")
def adjoint() -> IRModule:
    module = relaxjax.from_source(SCRIPT, file="<model>.py")
    assert isinstance(module, IRModule)
    return legal_adjoint(module)


def test_everything_is_kept_unless_asked(adjoint: IRModule) -> None:
    report = relaxjax.memory(adjoint, ADJOINT)
    assert report.recomputed == ()
    assert report.kept == report.rows
    assert report.extra_flops == 0
    assert report.budget is None
    assert report.peak == report.peak_of_all_kept == max(report.live)
    assert report.bytes_by_xla == report.bytes_by_xla_of_all_kept
    assert report.bytes_by_xla == temporary_bytes(adjoint, ADJOINT)


def test_a_plan_is_that_of_the_pass(adjoint: IRModule) -> None:
    report = relaxjax.memory(adjoint, ADJOINT, policy="free")
    assert report.recomputed
    assert set(report.rows) == {*report.kept, *report.recomputed}
    assert report.extra_flops > 0
    assert report.peak < report.peak_of_all_kept
    planned = Rematerialize(ADJOINT, policy="free")(adjoint)
    assert report.bytes_by_xla == temporary_bytes(planned, ADJOINT)
    assert sum(report.at_peak.values()) == report.peak
    assert repr(report).startswith("<MemoryReport of main_adjoint: at most ")
    assert repr(report).endswith(" KiB if everything is kept>")


def test_a_budget_is_told_in_bytes(adjoint: IRModule) -> None:
    report = relaxjax.memory(adjoint, ADJOINT, budget="80%")
    assert report.budget is not None
    assert report.budget == int(0.8 * report.bytes_by_xla_of_all_kept)
    assert report.bytes_by_xla <= int(0.8 * report.bytes_by_xla_of_all_kept)
    assert ", within a budget of 512.0 KiB" in str(report)


def test_the_text_is_sorted(adjoint: IRModule) -> None:
    report = relaxjax.memory(adjoint, ADJOINT, must_recompute=["a"])
    assert "computed again as asked, from a_mul, a_add, for 32.8 kflop" in str(report)
    first, last = (text.splitlines()[4:6] for text in (report.text(), report.text("program")))
    assert first[0].split()[0] in {row.name for row in report.rows}
    assert [line.split()[0] for line in last] == [row.name for row in report.rows[:2]]
    with pytest.raises(ValueError, match=r'^`sort` is "bytes" or "program", found .size.$'):
        report.text("size")


def test_json_holds_all_of_it(adjoint: IRModule) -> None:
    report = relaxjax.memory(adjoint, ADJOINT, policy="balanced")
    record = json.loads(json.dumps(report.to_json()))
    assert [row["name"] for row in record["values"]] == [row.name for row in report.rows]
    assert {row["file"] for row in record["values"]} == {"<model>.py"}
    assert record["extra_flops"] == report.extra_flops
    assert record["at_peak"]["bytes"] == report.at_peak
    assert record["peaks"]["planned"]["timeline"] == list(report.live)


class Tags(HTMLParser):
    """The tags that are open, and the text of each cell."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.cells: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1] == tag or tag in self.open
        while self.open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "td":
            self.cells.append(data)


def test_a_notebook_shows_a_table(adjoint: IRModule) -> None:
    report = relaxjax.memory(adjoint, ADJOINT, policy="free")
    html = report._repr_html_()
    page = Tags()
    page.feed(html)
    assert not page.open
    assert {row.name for row in report.rows} <= set(page.cells)
    assert "<model>.py:7" in page.cells  # a file's name is text, and no tag
    assert html.count("<svg") == 2


def test_a_terminal_gets_colours(
    adjoint: IRModule, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    report = relaxjax.memory(adjoint, ADJOINT, policy="minimal")
    report.show("program")
    assert capsys.readouterr().out == f"{report.text('program')}\n"
    monkeypatch.setenv("FORCE_COLOR", "1")
    report.show("program")
    lines = capsys.readouterr().out.splitlines()
    again = {line.removeprefix("\x1b[33m").split()[0] for line in lines if "\x1b[33m" in line}
    assert again == {row.name for row in report.recomputed} != set()


def test_a_report_of_relax_has_no_derivative_by_jax(adjoint: IRModule) -> None:
    with pytest.raises(ValueError, match=r"ask `relaxjax.value_and_grad\(loss\).memory"):
        relaxjax.memory(adjoint, ADJOINT).compared_with_jax()


def test_a_program_that_keeps_nothing() -> None:
    script = '@R.function\ndef main(x: R.Tensor((), "float32")):\n    return x'
    function = relaxjax.from_source(script)
    assert isinstance(function, Function)
    report = relaxjax.memory(Gradient("main")(IRModule.from_expr(function)), ADJOINT)
    assert isinstance(report, relaxjax.MemoryReport)
    assert report.rows == ()
    assert "kept: 0 B in 0 values" in str(report)
    assert "<svg" in report._repr_html_()


def test_what_is_no_adjoint() -> None:
    module = relaxjax.from_source(SCRIPT)
    assert isinstance(module, IRModule)
    with pytest.raises(MemoryPlanError, match="give the name of a function that Gradient has"):
        relaxjax.memory(module, "main")


def test_a_notebook_folds_the_smallest_of_many_values() -> None:
    rows = [("value", "bytes"), *((f"v{index}", str(20 - index)) for index in range(15))]
    shown, folded = as_html([], rows, [], {}).split("<details><summary>3 more</summary>")
    assert ">v11<" in shown
    assert ">v12<" in folded
    assert "<details>" not in as_html([], rows[:13], [], {})
