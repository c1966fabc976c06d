"""TVM reads modules and prints them again. It runs under the interpreter that TVM is installed for.

    python tvm_reader.py QUESTIONS.json ANSWERS.json

The questions are texts by name, and which of them TVM may crash on. The answers are what TVM
printed of each, or the error, and the operators that TVM has.
"""

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any


def answer(tvm: Any, text: str) -> dict[str, Any]:
    """What TVM prints of a text, or its error."""
    try:
        return {"printed": tvm.script.from_source(text).script(show_meta=True)}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def answer_apart(tvm: Any, text: str) -> dict[str, Any]:
    """The answer to one text, from a process of its own, because TVM crashes on some."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        with os.fdopen(writer, "w") as pipe:
            json.dump(answer(tvm, text), pipe)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    found: dict[str, Any] = json.loads(told) if told else {"error": "TVM crashed"}
    return found


def main(questions: Path, answers: Path) -> None:
    tvm = importlib.import_module("tvm")
    asked = json.loads(questions.read_text())
    given = {
        name: answer_apart(tvm, text) if name in asked["risky"] else answer(tvm, text)
        for name, text in asked["texts"].items()
    }
    operators = list(tvm.ir.Op.list_op_names())
    answers.write_text(json.dumps({"operators": operators, "answers": given}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
