"""The arguments of a macro: values by the names of its parameters."""

import ast
from collections.abc import Callable, Sequence
from typing import Any

from relaxjax.ir.arguments import by_name
from relaxjax.ir.wording import counted


def bind_arguments(
    node: ast.FunctionDef,
    args: Sequence[Any],
    named: dict[str, Any],
    evaluate: Callable[[ast.expr], Any],
) -> dict[str, Any]:
    """What the parameters of a macro stand for in one use of it; defaults are evaluated."""
    given = node.args
    if given.vararg or given.kwarg:
        raise TypeError(f"the macro `{node.name}` has `*` or `**` parameters, which no macro has")
    positional = [item.arg for item in (*given.posonlyargs, *given.args)]
    if len(args) > len(positional):
        raise TypeError(
            f"`{node.name}` takes {counted(len(positional), 'argument')}, "
            f"but {len(args)} were given"
        )
    names = [*positional, *(item.arg for item in given.kwonlyargs)]
    bound = by_name(node.name, names, args, named)
    for name, default in _defaults(given):
        if name not in bound and default is not None:
            bound[name] = evaluate(default)
    return by_name(node.name, names, (), bound, required=names)


def _defaults(given: ast.arguments) -> list[tuple[str, ast.expr | None]]:
    positional = [item.arg for item in (*given.posonlyargs, *given.args)]
    with_default = positional[len(positional) - len(given.defaults) :]
    keyword_only = [item.arg for item in given.kwonlyargs]
    return [
        *zip(with_default, given.defaults, strict=True),
        *zip(keyword_only, given.kw_defaults, strict=True),
    ]
