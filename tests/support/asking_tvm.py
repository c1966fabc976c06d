"""What TVM answers, asked in a process of its own by the interpreter that has it."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def tvm_python(whole_file: bool = False) -> str:
    """The interpreter that has TVM; where none is named, the test is skipped, or the whole file."""
    python = os.environ.get("RELAXJAX_TVM_PYTHON", "")
    if not python:
        reason = "RELAXJAX_TVM_PYTHON names no interpreter that has TVM"
        pytest.skip(reason, allow_module_level=whole_file)
    return python


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
