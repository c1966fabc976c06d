"""What TVM answers, asked in a process of its own by the interpreter that has it."""

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import relaxjax.dpl
import relaxjax.passes
from relaxjax.ir import IRModule, assert_structural_equal
from relaxjax.script import from_source
from relaxjax.script import relax as R


def tvm_python(whole_file: bool = False) -> str:
    """The interpreter that has TVM; where none is named, the test is skipped, or the whole file."""
    python = os.environ.get("RELAXJAX_TVM_PYTHON", "")
    if not python:
        reason = "RELAXJAX_TVM_PYTHON names no interpreter that has TVM"
        pytest.skip(reason, allow_module_level=whole_file)
    return python


# The same line of Python changes a module on both sides: what it names is what each has.
_CHANGES = """
import json, sys
import tvm
from tvm import relax
from tvm.script import from_source, relax as R

names = {"R": R, "IRModule": tvm.IRModule, **vars(relax.dpl), **vars(relax.transform)}
answers = {}
for name, (text, change) in json.load(open(sys.argv[1])).items():
    before = from_source(text)
    after = eval(change, names)(before)
    answers[name] = [module.script(show_meta=True) for module in (before, after)]
json.dump(answers, open(sys.argv[2], "w"))
"""
_OURS = {**vars(relaxjax.passes), **vars(relaxjax.dpl), "R": R, "IRModule": IRModule}


def changed_by_tvm(
    folder: Path, programs: Callable[[], Mapping[str, tuple[str, str]]]
) -> dict[str, list[str]]:
    """TVM's print of each program, which stands beside a change, and of what TVM makes of it."""
    found: dict[str, list[str]] = asked_of_tvm(folder, _CHANGES, programs)
    return found


def check_changed(change: str, printed: list[str]) -> None:
    """Ours makes the same of TVM's own print."""
    before, after = map(from_source, printed)
    assert isinstance(before, IRModule)
    assert_structural_equal(eval(change, _OURS)(before), after)


def asked_of_tvm(folder: Path, program: str | Path, questions: Callable[[], Any]) -> Any:
    """What a program, or its file, writes as JSON for questions: `ask.py QUESTIONS ANSWERS`.

    The tests are skipped where `RELAXJAX_TVM_PYTHON` names no interpreter.
    """
    python = tvm_python()
    asked, answered, script = (folder / name for name in ("asked.json", "answered.json", "ask.py"))
    asked.write_text(json.dumps(questions()))
    script.write_text(program if isinstance(program, str) else program.read_text())
    command = [python, str(script), str(asked), str(answered)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(answered.read_text())
