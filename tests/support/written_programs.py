"""Programs written as plain JAX: run here, run where relaxjax cannot be imported, and compared."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jax.extend import core

from relaxjax import IRModule, build, to_python
from relaxjax.ops.lax.inlining import scan_counts

# Put before a program, so that nothing in it can lean on the package after all.
ALONE = """
import sys

class Refusal:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "relaxjax":
            raise ImportError("this program must run without relaxjax")

sys.meta_path.insert(0, Refusal())
"""


def run_alone(code: str, folder: Path) -> str:
    """What a program prints that runs in a Python of its own, without relaxjax."""
    (folder / "alone.py").write_text(f"{ALONE}\n{code}")
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [sys.executable, "-W", "error", "alone.py"]
    result = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout


def written(mod: IRModule, functions: str | Sequence[str] | None = None) -> dict[str, Any]:
    """The names that a module defines when it is written as plain JAX and run here."""
    names: dict[str, Any] = {}
    exec(compile(to_python(mod, functions), "<written>", "exec"), names)
    return names


def same_bits(found: Any, expected: Any) -> bool:
    """Whether two results are the same in structure, dtypes, shapes and every bit."""
    if isinstance(expected, tuple):
        same = isinstance(found, tuple) and len(found) == len(expected)
        return same and all(map(same_bits, found, expected))
    mine, theirs = np.asarray(found), np.asarray(expected)
    same = (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
    return same and mine.tobytes() == theirs.tobytes()


def text_of(mod: IRModule, function: str = "main") -> str:
    """The text of one function, decorators included."""
    text = to_python(mod)
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            first = min([node.lineno, *(item.lineno for item in node.decorator_list)])
            return "\n".join(text.splitlines()[first - 1 : node.end_lineno])
    raise LookupError(function)


def check(mod: IRModule, *args: Any, function: str = "main") -> None:
    """Compare a function, written and run, with the compiled module bit by bit."""
    found, expected = written(mod)[function](*args), build(mod)[function](*args)
    assert same_bits(found, expected), f"{found}\n{expected}"


def unused_names(text: str) -> set[str]:
    """What a program imports and does not use."""
    tree = ast.parse(text)
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    return imported - used


def canonical(closed: Any) -> list[Any]:
    """The equations of a jaxpr with all names, and the places of constants, left out."""
    return _equations(closed.jaxpr, closed.consts)


def _equations(jaxpr: Any, consts: Sequence[Any], inputs: Sequence[Any] | None = None) -> list[Any]:
    lines: list[Any] = []
    inputs = inputs or [("in", index) for index in range(len(jaxpr.invars))]
    results = _entered(jaxpr, consts, inputs, lines)
    return [*lines, results]


def _entered(jaxpr: Any, consts: Sequence[Any], inputs: Sequence[Any], lines: list[Any]) -> Any:
    """The results of a jaxpr; its equations, and those of what it calls, are added to `lines`."""
    known: dict[Any, Any] = dict(zip(jaxpr.invars, inputs, strict=True))
    known |= {v: _constant(c, v.aval) for v, c in zip(jaxpr.constvars, consts, strict=True)}

    def read(atom: Any) -> Any:
        return _constant(atom.val, atom.aval) if isinstance(atom, core.Literal) else known[atom]

    for eqn in jaxpr.eqns:
        operands = list(map(read, eqn.invars))
        name = eqn.primitive.name.replace("add_any", "add")  # the same, of cotangents
        folded = _folded(eqn, operands)
        if name == "jit":
            inner = eqn.params["jaxpr"]
            results = _entered(inner.jaxpr, inner.consts, operands, lines)
        elif folded is not None:
            results = (folded,)
        else:
            results = [(len(lines), index) for index in range(len(eqn.outvars))]
            lines.append((name, *_written_equation(eqn, operands)))
        known |= dict(zip(eqn.outvars, results, strict=True))
    return tuple(map(read, jaxpr.outvars))


@dataclass(frozen=True)
class Known:
    """A constant in a program, by its bytes: a NaN is equal to itself."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes


def _constant(value: Any, aval: Any) -> Known:
    data = np.asarray(value, aval.dtype)
    return Known(str(data.dtype), data.shape, data.tobytes())


def _folded(eqn: Any, operands: Sequence[Any]) -> Known | None:
    """The value of an equation that only brings a constant into another form."""
    if len(operands) != 1 or not isinstance(operands[0], Known):
        return None
    (known,), aval = operands, eqn.outvars[0].aval
    value = np.frombuffer(known.data, np.dtype(known.dtype)).reshape(known.shape)
    if eqn.primitive.name == "convert_element_type":
        return _constant(value.astype(aval.dtype), aval)
    if eqn.primitive.name == "broadcast_in_dim" and value.size == 1:
        return _constant(np.full(aval.shape, value.reshape(())), aval)
    return None


def _written_equation(eqn: Any, operands: list[Any]) -> tuple[Any, str]:
    """The operands and parameters of an equation; what a loop only reads stands in its body."""
    params = dict(eqn.params)
    bodies: list[Any] = []
    params.pop("computation", None)  # of a reduction: the function that its program was traced of
    if eqn.primitive.name == "scan":
        count, params["num_carry"] = scan_counts(eqn.params)
        for name in ("num_consts", "linear", "ft_in", "ft_out"):  # of each operand or result
            params.pop(name, None)
        bodies = [_body(params.pop("jaxpr"), operands[:count])]
        operands = operands[count:]
    elif eqn.primitive.name == "while":
        first = params.pop("cond_nconsts")
        count = first + params.pop("body_nconsts")
        bodies = [
            _body(params.pop("cond_jaxpr"), operands[:first]),
            _body(params.pop("body_jaxpr"), operands[first:count]),
        ]
        operands = operands[count:]
    shown = {key: _param(value) for key, value in sorted(params.items())}
    return tuple(operands), f"{shown} {bodies}"


def _body(closed: Any, consts: list[Any]) -> list[Any]:
    """The body of a loop, with what it takes from outside under the names that it has there."""
    count = len(closed.jaxpr.invars) - len(consts)
    changing = [("changing", index) for index in range(count)]
    outside = [item if isinstance(item, Known) else ("outside", item) for item in consts]
    return _equations(closed.jaxpr, closed.consts, [*outside, *changing])


def _param(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return tuple(map(_param, value))
    if hasattr(value, "consts"):
        return canonical(value)
    if hasattr(value, "eqns"):
        return _equations(value, ())
    return re.sub(r" at 0x\w+", "", str(value))
