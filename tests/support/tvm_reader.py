"""TVM reads modules and prints them again. It runs under the interpreter that TVM is installed for.

    python tvm_reader.py QUESTIONS.json ANSWERS.json

The questions are texts by name. The answers are what TVM printed of each, or the error, and the
operators that TVM has.
"""

import importlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def answer(tvm: Any, text: str) -> dict[str, Any]:
    """What TVM prints of a text, or its error."""
    try:
        return {"printed": tvm.script.from_source(text).script(show_meta=True)}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def answers(tvm: Any, texts: Mapping[str, str]) -> dict[str, Any]:
    """The answers to texts by name; where TVM crashes on one, it is asked the next ones anew."""
    found: dict[str, Any] = {}
    while left := {name: text for name, text in texts.items() if name not in found}:
        found |= answered_apart(tvm, left)
        crashed = next((name for name in left if name not in found), None)
        if crashed is not None:
            found[crashed] = {"error": "TVM crashed"}
    return found


def answered_apart(tvm: Any, texts: Mapping[str, str]) -> dict[str, Any]:
    """The answers that a process of its own gives, until it crashes."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        with os.fdopen(writer, "w") as pipe:
            for name, text in texts.items():
                print(json.dumps([name, answer(tvm, text)]), file=pipe, flush=True)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        told = [json.loads(line) for line in pipe]
    os.waitpid(child, 0)
    return dict(told)


def main(questions: Path, given: Path) -> None:
    tvm = importlib.import_module("tvm")
    found = answers(tvm, json.loads(questions.read_text()))
    operators = list(tvm.ir.Op.list_op_names())
    given.write_text(json.dumps({"operators": operators, "answers": found}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
