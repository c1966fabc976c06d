"""The other side of the exchange with TVM. It runs under the interpreter that TVM is installed for.

    python tvm_peer.py QUESTIONS.json ANSWERS.json

Of each case TVM parses the `source`, written by hand, and `ours`, the same module as relaxjax
printed it; it compares the two, and prints what it has read.
"""

import importlib
import json
import sys
from pathlib import Path
from typing import Any


def answer(tvm: Any, source: str, ours: str) -> dict[str, str]:
    """TVM's own print of both texts, and `error` where it refuses one or tells them apart."""
    from_source = tvm.script.from_source
    try:
        expected = from_source(source)
        read = from_source(ours)
        tvm.ir.assert_structural_equal(expected, read)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {name: m.script(show_meta=True) for name, m in (("source", expected), ("ours", read))}


def signatures(script: Any, operators: dict[str, Any]) -> dict[str, list[str]]:
    """The parameters of TVM's script functions for those of the operators that it has."""
    inspect = importlib.import_module("inspect")
    found: dict[str, list[str]] = {}
    for name in operators:
        function: Any = script
        for part in name.split(".")[1:]:
            function = getattr(function, part, None)
        if callable(function):
            found[name] = list(inspect.signature(function).parameters)
    return found


def main(questions: Path, answers: Path) -> None:
    tvm = importlib.import_module("tvm")
    script = importlib.import_module("tvm.script.relax")
    asked = json.loads(questions.read_text())
    cases = {name: answer(tvm, **case) for name, case in asked["cases"].items()}
    given = {"cases": cases, "signatures": signatures(script, asked["operators"])}
    answers.write_text(json.dumps(given))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
