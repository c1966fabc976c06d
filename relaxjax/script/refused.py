"""The statements of Python that Relax does not have, and what to write instead."""

import ast

_NO_LOOPS = (
    "Relax has no loops: write the steps out with a comprehension over Python values, "
    "or let a function call itself."
)
_NO_STATE = "Relax has no state: bind a new name, as in `y = R.add(y, x)`."
_OUTSIDE = "Do it outside, in Python: a script sees the names around it."

REFUSED: dict[type[ast.stmt], tuple[str, str]] = {
    ast.For: ("`for`", _NO_LOOPS),
    ast.AsyncFor: ("`async for`", _NO_LOOPS),
    ast.While: ("`while`", _NO_LOOPS),
    ast.Break: ("`break`", _NO_LOOPS),
    ast.Continue: ("`continue`", _NO_LOOPS),
    ast.AugAssign: ("an assignment such as `y += x`", _NO_STATE),
    ast.Delete: ("`del`", _NO_STATE),
    ast.Global: ("`global`", _NO_STATE),
    ast.Nonlocal: ("`nonlocal`", _NO_STATE),
    ast.Import: ("`import`", _OUTSIDE),
    ast.ImportFrom: ("`import`", _OUTSIDE),
    ast.ClassDef: ("`class`", "Only a whole module is a class, under @I.ir_module."),
    ast.AsyncFunctionDef: ("`async def`", "Write `def`, under @R.function."),
    ast.AsyncWith: ("`async with`", "The one block is `with R.dataflow():`."),
    ast.Try: ("`try`", "Relax has no exceptions."),
    ast.TryStar: ("`try`", "Relax has no exceptions."),
    ast.Raise: ("`raise`", "Relax has no exceptions; write R.assert_op(condition, ...)."),
    ast.Assert: ("`assert`", "Write R.assert_op(condition, ...)."),
    ast.Match: ("`match`", "Write `if` and `else`."),
}
