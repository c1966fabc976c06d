"""The instruments that come with the passes."""

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from relaxjax.ir import Constant, IRModule, SeqExpr, TensorType, Var, WellFormedError
from relaxjax.ir.builder import BlockBuilder, make_function
from relaxjax.ops.binary import add, multiply
from relaxjax.passes.infrastructure.context import PassContext
from relaxjax.passes.infrastructure.decorators import module_pass
from relaxjax.passes.infrastructure.instruments import (
    DumpIR,
    PassHistory,
    PassPrintingInstrument,
    PassTimingInstrument,
    PrintAfterAll,
    PrintBeforeAll,
    WellFormedInstrument,
)
from relaxjax.passes.infrastructure.sequential import Sequential
from relaxjax.passes.simplification.dead_code_elimination import DeadCodeElimination
from relaxjax.passes.simplification.simplify_expr import SimplifyExpr
from relaxjax.passes.structure.normalize import Normalize


def module() -> IRModule:
    """One function with an unused binding."""
    builder = BlockBuilder()
    x = Var("x", TensorType((3,), "float32"))
    with builder.function("main", [x]):
        builder.emit(add(x, x), "unused")
        builder.emit_func_output(builder.emit(add(x, x), "used"))
    return builder.get()


@module_pass(opt_level=0)
def broken(mod: IRModule, ctx: PassContext) -> IRModule:
    raise ArithmeticError("broken")


SEQUENCE = Sequential([DeadCodeElimination(), Sequential([Normalize()], name="inner")])


def run(*instruments: Any) -> IRModule:
    with PassContext(instruments=list(instruments)):
        return SEQUENCE(module())


def test_timing() -> None:
    timing = PassTimingInstrument()
    run(timing)
    lines = timing.render().splitlines()
    pattern = re.compile(r"(\t*)(\w+): \d+us \[\d+us\] \((\d+\.\d\d)%; (\d+\.\d\d)%\)")
    read = [match.groups() for line in lines if (match := pattern.fullmatch(line))]
    assert [(indent, name) for indent, name, _, _ in read] == [
        ("", "sequential"),
        ("\t", "DeadCodeElimination"),
        ("\t", "inner"),
        ("\t\t", "Normalize"),
    ]
    assert read[0][2:] == ("100.00", "100.00")
    assert float(read[1][2]) + float(read[2][2]) <= 100.01


def test_timing_is_kept_until_the_context_is_entered_again() -> None:
    timing = PassTimingInstrument()
    assert timing.render() == ""
    with PassContext(instruments=[timing]) as context:
        Normalize()(module())
        during = timing.render()
    assert timing.render() == during
    with context:
        assert timing.render() == ""


def test_timing_after_a_pass_that_failed() -> None:
    """What follows is not taken to be inside it."""
    timing = PassTimingInstrument()
    with PassContext(instruments=[timing]):
        with pytest.raises(ArithmeticError):
            Sequential([broken])(module())
        Normalize()(module())
    names = [line.partition(":")[0] for line in timing.render().splitlines()]
    assert names == ["sequential", "\tbroken", "Normalize"]


def test_history() -> None:
    history = PassHistory()
    before = module()
    with PassContext(instruments=[history]):
        after = SEQUENCE(before)
    found = [(record.info.name, record.depth, record.changed) for record in history.records]
    assert found == [
        ("DeadCodeElimination", 1, True),
        ("Normalize", 2, False),
        ("inner", 1, False),
        ("sequential", 0, True),
    ]
    assert [record.before for record in history.records] == [before, after, after, before]
    assert [record.after for record in history.records] == [after] * 4
    times = [record.milliseconds for record in history.records]
    assert all(time >= 0 for time in times)
    assert times[3] >= times[0] + times[2]


def test_history_knows_what_rules_rewrote() -> None:
    builder = BlockBuilder()
    x = Var("x", TensorType((3,), "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(
            builder.emit(multiply(x, Constant(np.ones((), "float32"))), "once")
        )
    history = PassHistory()
    with PassContext(instruments=[history]):
        Sequential([SimplifyExpr()])(builder.get())
    simplify = next(record for record in history.records if record.info.name == "SimplifyExpr")
    (rewrite,) = simplify.rewrites
    assert (rewrite.rule, rewrite.var.name) == ("unit", "once")
    assert str(rewrite.before) == 'R.multiply(x, R.const(1.0, "float32"))'
    assert rewrite.after is x
    assert not history.records[-1].rewrites  # of the passes inside it


def test_history_as_text() -> None:
    history = PassHistory()
    run(history)
    lines = [re.sub(r" +\d+\.\d{3} ms", "TIME", line) for line in history.render().splitlines()]
    assert lines == [
        "TIME    DeadCodeElimination",
        "TIME      Normalize  (unchanged)",
        "TIME    inner  (unchanged)",
        "TIME  sequential",
    ]


def test_history_leaves_out_what_failed() -> None:
    history = PassHistory()
    with PassContext(instruments=[history]):
        with pytest.raises(ArithmeticError):
            Sequential([Normalize(), broken])(module())
        Normalize()(module())
    assert [(record.info.name, record.depth) for record in history.records] == [
        ("Normalize", 1),
        ("Normalize", 0),
    ]


def titles(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(("# before", "# after"))]


def test_printing_around_all_passes(capsys: pytest.CaptureFixture[str]) -> None:
    run(PrintBeforeAll(), PrintAfterAll())
    text = capsys.readouterr().out
    assert titles(text) == [
        "# before sequential",
        "# before DeadCodeElimination",
        "# after DeadCodeElimination",
        "# before inner",
        "# before Normalize",
        "# after Normalize",
        "# after inner",
        "# after sequential",
    ]
    assert text.count("unused") == 2
    assert text.count("used") - text.count("unused") == 2 * 8


def test_printing_around_some_passes(capsys: pytest.CaptureFixture[str]) -> None:
    file = io.StringIO()
    run(PassPrintingInstrument(["Normalize"], ["inner", "Normalize"], file=file))
    assert titles(file.getvalue()) == ["# before Normalize", "# after Normalize", "# after inner"]
    assert capsys.readouterr().out == ""


def test_dumping(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "dumps"
    run(DumpIR(folder))
    files = sorted(folder.iterdir())
    assert [file.name for file in files] == [
        "000_DeadCodeElimination.py",
        "001_Normalize.py",
        "002_inner.py",
        "003_sequential.py",
    ]
    assert "def main" in files[0].read_text()
    assert "unused" not in files[0].read_text()


def test_dumping_again_deletes_only_old_dumps(tmp_path: Path) -> None:
    for name in ("000_Old.py", "1000_Old.py", "notes.py", "00_short.py", "000_data.txt"):
        (tmp_path / name).write_text("")
    (tmp_path / "000_folder.py").mkdir()
    with PassContext(instruments=[DumpIR(str(tmp_path), refresh=True)]):
        Sequential([], name="a/b c")(module())
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "000_a_b_c.py", "000_data.txt", "000_folder.py", "00_short.py", "notes.py",
    ]  # fmt: skip
    with PassContext(instruments=[DumpIR(tmp_path)]):
        Normalize()(module())
    assert (tmp_path / "000_a_b_c.py").exists()


@module_pass(opt_level=0)
def spoil(mod: IRModule, ctx: PassContext) -> IRModule:
    """Return a variable that nothing defines."""
    y = Var("y", TensorType((3,), "float32"))
    return mod.with_function("main", make_function([], SeqExpr((), y), attrs=mod["main"].attrs))


def test_well_formed_modules_pass() -> None:
    run(WellFormedInstrument())


def test_ill_formed_output_names_the_pass() -> None:
    instruments = [WellFormedInstrument()]
    with PassContext(instruments=instruments), pytest.raises(WellFormedError) as error:
        spoil(module())
    assert "after the pass `spoil`" in error.value.__notes__


def test_ill_formed_input_names_the_pass() -> None:
    ill = spoil(module())
    instruments = [WellFormedInstrument()]
    with PassContext(instruments=instruments), pytest.raises(WellFormedError) as error:
        DeadCodeElimination()(ill)
    assert "before the pass `DeadCodeElimination`" in error.value.__notes__


def test_what_need_not_be_well_formed() -> None:
    """The input where it is not to be checked, and around the pass that makes modules normal."""
    ill = spoil(module())
    with PassContext(instruments=[WellFormedInstrument()]):
        Normalize()(ill)
    with PassContext(instruments=[WellFormedInstrument(validate_before_transform=False)]):
        mend = module_pass(lambda mod, ctx: module(), opt_level=0, name="mend")
        mend(ill)  # type: ignore[call-overload]  # a function given at once makes a pass
