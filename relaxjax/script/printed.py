"""Whether a text is one that a program was printed as, and no more than that.

Reading a script executes nothing, but a text from anywhere may still ask Python for sums and lists
without end. What is printed never does: it names, calls and subscripts.
"""

import ast
from collections.abc import Iterator
from typing import Any

from .evaluate import SAFE_BUILTINS
from .source import Source

_STATEMENTS = (
    *(ast.ClassDef, ast.FunctionDef, ast.Return, ast.Assign, ast.AnnAssign, ast.Expr),
    *(ast.With, ast.If, ast.Pass),
)
_EXPRESSIONS = (
    *(ast.Call, ast.Attribute, ast.Name, ast.Constant, ast.Tuple, ast.List, ast.Dict),
    *(ast.Subscript, ast.BinOp, ast.UnaryOp),
)
_PARTS = (ast.Module, ast.arguments, ast.arg, ast.keyword, ast.withitem, ast.expr_context)
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.USub)
_PRINTED = (*_STATEMENTS, *_EXPRESSIONS, *_PARTS, *_OPERATORS)
_NUMBERS = (ast.Name, ast.BinOp, ast.UnaryOp, ast.Call)  # what dimensions are made of


def _refuse(*args: Any) -> None:
    raise TypeError("the printed script of a module calls no function of Python's")


# Names for the reader of a printed text. Python's own functions are not there, though a program may
# have functions of their names; infinity and complex numbers are written with the other two.
PRINTED_NAMES = dict.fromkeys(SAFE_BUILTINS.keys() - {"float", "complex"}, _refuse)


def check_printed(source: Source) -> None:
    """Raise where a text holds what no printed program does."""
    tree = ast.parse("".join(source.lines), filename=source.file)
    for node in _strangers(tree):
        raise source.error(node, "this is nothing that the printed script of a module holds")


def _strangers(tree: ast.Module) -> Iterator[ast.AST]:
    yield from (node for node in tree.body if not isinstance(node, ast.ClassDef))
    layouts: set[ast.Lambda] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="T"), attr="index_map"),
                args=[ast.Lambda() as layout],
            ):
                layouts.add(layout)
            case ast.Lambda() if node in layouts:
                continue
            case ast.BinOp(op=op) | ast.UnaryOp(op=op) if not isinstance(op, _OPERATORS):
                yield node
            case ast.BinOp(left=left, right=right):
                yield from (side for side in (left, right) if not _is_number(side))
            case ast.Assign(value=value) | ast.AnnAssign(value=value):
                if isinstance(value, ast.Constant | ast.List | ast.Dict | ast.BinOp):
                    yield value
            case _ if not isinstance(node, _PRINTED):
                yield node


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, _NUMBERS) or (
        isinstance(node, ast.Constant) and isinstance(node.value, int)
    )
