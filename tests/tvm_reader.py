"""TVM reads modules and prints them again. It runs under the interpreter that TVM is installed for.

    python tvm_reader.py QUESTIONS.json ANSWERS.json

The questions are texts by name; the answers what TVM printed of each, or the error, or `unknown`
where TVM has no such operator.
"""

import importlib
import json
import sys
from pathlib import Path
from typing import Any


def answer(tvm: Any, text: str) -> dict[str, Any]:
    try:
        return {"printed": tvm.script.from_source(text).script(show_meta=True)}
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        return {"error": message, "unknown": "has no attribute" in message}


def main(questions: Path, answers: Path) -> None:
    tvm = importlib.import_module("tvm")
    asked = json.loads(questions.read_text())
    answers.write_text(json.dumps({name: answer(tvm, text) for name, text in asked.items()}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
