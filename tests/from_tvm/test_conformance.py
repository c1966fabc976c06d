"""Folders of tests written for TVM, run a file at a time and summed up."""

import os
from pathlib import Path

import pytest

from relaxjax.tvm import conformance
from relaxjax.tvm.conformance import main

MIXED = """\
import numpy as np
import pytest
import tvm
import tvm.testing
from tvm import relax
from tvm.script import relax as R

size = tvm.testing.parameter(2, 3)

def test_passes_twice(size):
    x = relax.Var("x", R.Tensor((size,), "float32"))
    tvm.ir.assert_structural_equal(relax.op.add(x, x).ty, x.ty)

def test_fails():
    assert 1 == 2

def test_beyond():
    tvm.te.compute

def test_beyond_in_a_script():
    @R.function
    def main(x: R.Tensor((2,), "float32")):
        y = R.call_tir(main, (x,), out_ty=R.Tensor((2,), "float32"))
        return y

@pytest.mark.skip
def test_skipped():
    pass

@pytest.mark.xfail(strict=True)
def test_that_should_fail():
    pass

@pytest.fixture
def broken():
    raise RuntimeError("no fixture")

def test_with_a_broken_fixture(broken):
    pass
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "conftest.py").write_text("import tvm.relax.ir.instrument\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_mixed.py").write_text(MIXED)
    (tmp_path / "test_out.py").write_text("from tvm import te\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # to import them takes a second
    return tmp_path


def test_a_folder_is_summed_up(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([".", "--list"]) == 1
    told = capsys.readouterr().out
    assert told.splitlines()[:4] == [
        "file           passed  failed  out of scope  skipped",
        "test_mixed.py       2       3             2        1",
        "test_out.py         0       0             1        0",
        "all                 2       3             3        1",
    ]
    failed, beyond = told.split("\nfailed, by reason\n")[1].split("\nout of scope, by reason\n")
    assert "    1  AssertionError: assert 1 == 2\n         test_mixed.py::test_fails\n" in failed
    assert "    1  RuntimeError: no fixture\n" in failed
    assert "    1  [XPASS(strict)]" in failed
    assert "NoPlaceError: there is no `R.call_tir`: there are no TensorIR functions" in beyond
    assert "OutOfScopeNameError: `tvm.te` has no place in relaxjax" in beyond
    assert "OutOfScopeImportError: `tvm.te` has no place in relaxjax" in beyond


def test_a_file_that_ends_its_process(folder: Path) -> None:
    path = folder / "test_ends.py"
    path.write_text("import os\nos._exit(3)\n")
    result = conformance.tested(path, 60)
    assert result.counts == {"failed": 1}
    assert result.reasons[0][1].startswith("the process ended with code 3")


def test_a_file_that_does_not_end(folder: Path) -> None:
    path = folder / "test_waits.py"
    path.write_text("import time\ntime.sleep(60)\n")
    assert conformance.tested(path, 0.5).reasons == [
        ("failed", "the file takes longer than 0.5 s", os.fspath(path))
    ]


def test_nothing_to_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "empty").mkdir()
    assert main(["empty"]) == 2
    assert capsys.readouterr().err == "no test_*.py in empty\n"
    with pytest.raises(SystemExit, match="there is no file or folder `nowhere`"):
        main(["nowhere"])
