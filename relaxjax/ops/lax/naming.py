"""What the user's own text calls the values that a JAX program computes, and where it stands."""

import ast
import linecache
import os
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from threading import RLock
from types import CodeType
from typing import Any, TypeAlias

import jax
from jax.extend import core, source_info_util

from relaxjax.ir.span import Span

# A stretch of a file: its first and its last line, its first and its last column.
Place: TypeAlias = tuple[int | None, int | None, int | None, int | None]
# The variables that a statement gives its value to, None for those without a name to keep.
Targets: TypeAlias = tuple[str | None, ...]
Frame: TypeAlias = tuple[CodeType, int]

# Where functions lie that are no user's: JAX's, and those here.
_LIBRARIES = (os.path.dirname(jax.__file__) + os.sep, str(Path(__file__).parents[2]) + os.sep)
# What tells where a value goes.
_TELLING = {ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr, ast.Return, ast.Lambda}
_RETURNED: Targets = ()  # of what a function returns, its callers say where it goes


def assigned_names(jaxpr: Any, results: Sequence[str | None] = ()) -> dict[Any, str]:
    """Names of the values in a program that the text it was traced from assigns to variables.

    Where a line computes a value in several steps, the last of them has the name. `results` are
    names for what the program gives, where the text does not tell others.
    """
    pairs = zip(jaxpr.outvars, results, strict=False)
    found = {atom: name for atom, name in pairs if name and not isinstance(atom, core.Literal)}
    function = str(getattr(jaxpr.debug_info, "func_src_info", "")).rpartition(" at ")[2]
    frames = [_inside(function, eqn.source_info.traceback) for eqn in jaxpr.eqns]
    for eqn, here, after in zip(jaxpr.eqns, frames, [*frames, None][1:], strict=True):
        names = _targets(here) if here != after else ()
        count = len(eqn.outvars)
        if len(names) >= count and not any(names[count:]):  # a `_` may stand for no value at all
            found.update((var, name) for var, name in zip(eqn.outvars, names, strict=False) if name)
    return found


def source_span(eqn: Any) -> Span | None:
    """Where in the user's own text an equation comes from."""
    text = source_info_util.summarize(eqn.source_info)
    found = re.match(r"(?P<file>.+?):(?P<line>\d+)(:(?P<column>\d+))?( |$)", text)
    if found is None:
        return None
    return Span(found["file"], int(found["line"]), max(0, int(found["column"] or 1) - 1))


def _inside(function: str, traceback: Any) -> tuple[Frame, ...]:
    """The user's calls that an equation was traced in, from inside out.

    None of them is outside of the `function` that was traced, by its file and line: a program that
    JAX runs again bears the places of the first time, and a rule those of what it is the rule of.
    """
    if traceback is None:
        return ()
    frames: list[Frame] = list(zip(*traceback.raw_frames(), strict=True))
    places = (f"{code.co_filename}:{code.co_firstlineno}" for code, _ in frames)
    end = next((index for index, place in enumerate(places) if place == function), -1)
    return tuple(f for f in frames[: end + 1] if not f[0].co_filename.startswith(_LIBRARIES))


def _targets(frames: Sequence[Frame]) -> Targets:
    """What the innermost statement assigns its value to that does not return it to its caller."""
    for code, offset in frames:
        targets = _assigned(code).get(_place(code, offset))
        if targets != _RETURNED:
            return targets or ()
    return ()


@lru_cache(maxsize=10_000)
def _place(code: CodeType, offset: int) -> Place:
    """Where in its file a function's instruction stands."""
    return list(code.co_positions())[offset // 2]


# Python 3.11 counts the depth of a tree for all threads together. Where the collector runs in the
# middle of one, another thread may begin its own, and both are a SystemError.
_PARSING = RLock()


@lru_cache(maxsize=10_000)
def _assigned(code: CodeType) -> Mapping[Place, Targets]:
    """The targets of a function's assignments by the places of their values.

    Its own lines are read alone, for files of libraries are long. Where these are no statements, as
    those of most lambdas, the whole file is read.
    """
    lines, first = linecache.getlines(code.co_filename), max(code.co_firstlineno, 1)
    last = max((line for _, line, _, _ in code.co_positions() if line), default=first)
    own = lines[first - 1 : last]
    if own and own[0][:1].isspace():
        own, first = ["if True:\n", *own], first - 1
    found = _statements("".join(own), first - 1)
    return _of_file(code.co_filename) if found is None else found


@lru_cache(maxsize=1_000)
def _of_file(file: str) -> Mapping[Place, Targets]:
    return _statements("".join(linecache.getlines(file))) or {}


def _statements(text: str, before: int = 0) -> Mapping[Place, Targets] | None:
    """The targets of assignments in a text behind some lines of its file; None if it is no text."""

    def around(node: ast.expr | ast.AugAssign) -> Place:
        last = node.end_lineno or node.lineno
        return node.lineno + before, last + before, node.col_offset, node.end_col_offset

    try:
        with _PARSING:
            tree = ast.parse(text)
    except SyntaxError:  # a part of a statement, or a cell with magic in it
        return None
    found: dict[Place, Targets] = {}
    for node in ast.walk(tree):
        if type(node) not in _TELLING:  # of a large file, most are not
            continue
        match node:
            case (
                ast.Assign(targets=[target], value=value)
                | ast.AnnAssign(target=target, value=ast.expr() as value)
            ):
                found[around(value)] = _names(target)
            case ast.AugAssign(target=target):
                found[around(node)] = _names(target)
            case ast.NamedExpr(target=target, value=value):
                found[around(value)] = _names(target)
            case ast.Return(value=ast.expr() as value) | ast.Lambda(body=value):
                found[around(value)] = _RETURNED
    return found


def _names(target: ast.expr) -> Targets:
    if isinstance(target, ast.Tuple | ast.List):
        return tuple(name for part in target.elts for name in _names(part))
    return (target.id if isinstance(target, ast.Name) and target.id.strip("_") else None,)
