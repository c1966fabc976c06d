"""Python's little loops and functions inside expressions: comprehensions and lambdas."""

import ast
from collections.abc import Callable, Iterator
from inspect import Parameter, Signature
from typing import Any, Protocol

from relaxjax.ir.wording import counted

from .operators import truth
from .scope import Scope


class Reader(Protocol):
    """What evaluates expressions."""

    scope: Scope

    def evaluate(self, node: ast.expr) -> Any: ...

    def items(self, value: Any, node: ast.expr) -> list[Any]: ...

    def count_step(self) -> None: ...


def collect(
    reader: Reader, element: Callable[[], Any], loops: list[ast.comprehension]
) -> list[Any]:
    """What `element` gives for every round of the loops, whose variables it can name."""
    reader.scope.push()
    try:
        return list(_rounds(reader, element, loops))
    finally:
        reader.scope.pop()


def lambda_function(reader: Reader, node: ast.Lambda) -> Callable[..., Any]:
    """A lambda as a Python function."""
    given = node.args
    names = [item.arg for item in (*given.posonlyargs, *given.args)]
    if given.vararg or given.kwarg or given.kwonlyargs or given.defaults:
        raise TypeError("a lambda has plain parameters here: no defaults, no `*`, no `**`")

    around = reader.scope.frames()

    def function(*args: Any) -> Any:
        if len(args) != len(names):
            raise TypeError(
                f"the lambda takes {counted(len(names), 'argument')}, but {len(args)} were given"
            )
        reader.count_step()
        with reader.scope.within(around, dict(zip(names, args, strict=True))):
            return reader.evaluate(node.body)

    parameters = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    vars(function)["__signature__"] = Signature(parameters)
    return function


def unpack(reader: Reader, target: ast.expr, value: Any) -> Iterator[tuple[ast.Name, Any]]:
    """The names of an assignment's left side, each with its part of the value."""
    if isinstance(target, ast.Name):
        yield target, value
        return
    inner = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
    for item in inner:
        if not isinstance(item, ast.Name | ast.Tuple | ast.List):
            raise TypeError(f"`{ast.unparse(item)}` cannot be assigned: only names can")
    items = reader.items(value, target)
    if len(items) != len(inner):
        raise TypeError(f"{len(items)} values cannot be unpacked into {len(inner)} names")
    for node, item in zip(inner, items, strict=True):
        yield from unpack(reader, node, item)


def _rounds(
    reader: Reader, element: Callable[[], Any], loops: list[ast.comprehension]
) -> Iterator[Any]:
    if not loops:
        yield element()
        return
    loop, *inner = loops
    for item in reader.items(reader.evaluate(loop.iter), loop.iter):
        reader.count_step()
        for name, value in unpack(reader, loop.target, item):
            reader.scope.set(name.id, value)
        if all(truth(reader.evaluate(test)) for test in loop.ifs):
            yield from _rounds(reader, element, inner)
