"""Evaluating the expressions of a script: Python's own, with Relax expressions among the values.

A trusted script is the user's own Python: its expressions may name and do anything. A text is not:
an evaluator that does not trust its source gives it the script's own vocabulary, a few builtins and
what the caller passed in, and nothing that could be reached from there.
"""

import ast
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from relaxjax.ir.arguments import by_name
from relaxjax.ir.dims import SymbolicExpr
from relaxjax.ir.expr import Call, Expr, GlobalVar, ShapeExpr, Var
from relaxjax.ir.function import Function
from relaxjax.ir.infer import infer
from relaxjax.ir.node import Node, replace
from relaxjax.ir.op import Op
from relaxjax.ir.renew import renew

from .comprehension import collect, lambda_function
from .errors import ScriptError
from .forms import Macro
from .namespace import Members
from .operators import (
    BINARY,
    COMPARISON,
    UNARY,
    bounded_range,
    check_count,
    check_operands,
    check_size,
    compared,
    plain_numbers,
    subscript,
    truth,
)
from .scope import Scope, UnknownNameError
from .source import Source
from .values import as_expr

Expand: TypeAlias = Callable[[ast.Call, Macro, list[Any], dict[str, Any]], Any]

SAFE_BUILTINS: dict[str, Any] = {
    function.__name__: function
    for function in (
        *(abs, bool, complex, enumerate, float, int, len, list),
        *(max, min, sum, tuple, zip),
    )
} | {"range": bounded_range}
_CONVERSIONS: dict[int, Callable[[Any], str]] = {ord("s"): str, ord("r"): repr, ord("a"): ascii}
# What an untrusted text may ask of a node: data, and nothing that runs or writes anything.
_NODE_ATTRIBUTES = frozenset(
    ("astype", "ty", "struct_info", "checked_type", "shape", "dtype", "ndim", "values", "fields")
)
# Exceptions whose message is meant for the user; any other one is a surprise, and stays in sight.
_SAY_ALL = (TypeError, ValueError, LookupError, AttributeError, RecursionError, UnknownNameError)
# Nodes that are not written where they are named.
_IDENTITIES = (Var, GlobalVar, Op, Function)
_SEVERAL = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Evaluator:
    """Evaluates the expressions of one source in one scope."""

    def __init__(
        self, source: Source, scope: Scope, trusted: bool, expand: Expand | None = None
    ) -> None:
        self.source = source
        self.scope = scope
        self.trusted = trusted
        self._expand = expand
        self._steps = 0

    def evaluate(self, node: ast.expr) -> Any:
        """The value of an expression: Python's, or a Relax expression that knows its place."""
        rule = _RULES.get(type(node))
        if rule is None:
            kind = type(node).__name__
            raise self.refusal(node, f"`{ast.unparse(node)}` ({kind}) is no expression of a script")
        try:
            return rule(self, node)
        except ScriptError:
            raise
        except Exception as error:
            raise self.error(node, error) from _cause(error)

    def refusal(self, node: ast.AST, message: str, mend: str | None = None) -> ScriptError:
        """The error that says why `node` cannot be read, and how to mend it."""
        return self.source.error(node, message, mend)

    def error(self, node: ast.AST, error: Exception) -> ScriptError:
        """The error of a script at `node`, for an exception of what was called there."""
        if isinstance(error, RecursionError):
            return self.refusal(
                node, "this is nested too deeply to be read", "Bind parts of it to names."
            )
        text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
        return self.refusal(node, text or type(error).__name__, getattr(error, "mend", None))

    @contextmanager
    def located(self, node: ast.AST) -> Iterator[None]:
        """Make every exception that is raised inside an error of the script at `node`."""
        try:
            yield
        except ScriptError:
            raise
        except Exception as error:
            raise self.error(node, error) from _cause(error)

    def count_step(self) -> None:
        """Note one round of a loop or one call of a lambda; a text may not make too many."""
        self._steps += 1
        if not self.trusted:
            check_count(self._steps)

    def items(self, value: Any, node: ast.expr) -> list[Any]:
        """The items of a Python value, or the fields of a tuple that has a name."""
        if isinstance(value, Expr) and not isinstance(value, Var | ShapeExpr):
            raise self.refusal(node, f"`{value}` must be bound to a name before it is unpacked")
        if not isinstance(value, Expr | Iterable):
            kind = "dimension" if isinstance(value, SymbolicExpr) else type(value).__name__
            raise self.refusal(node, f"this is one {kind}, `{value!r}`, and has no items")
        return list(value)

    def _placed(self, value: Any, node: ast.AST) -> Any:
        """`value` with the place where it was written, where it is an expression without one."""
        if not isinstance(value, Expr) or value.span is not None or isinstance(value, _IDENTITIES):
            return value
        return replace(value, span=self.source.span(node))

    def _constant(self, node: ast.Constant) -> Any:
        return node.value

    def _name(self, node: ast.Name) -> Any:
        return self.scope.lookup(node.id)

    def _attribute(self, node: ast.Attribute) -> Any:
        value = self.evaluate(node.value)
        if isinstance(value, Members):
            return value.member(node.attr)
        if not (self.trusted or self._is_harmless(node, value)):
            raise self.refusal(
                node,
                f"the attribute `{node.attr}` may not be used in a text",
                "Write what it stands for, or pass it from Python, in `extra_vars`.",
            )
        return getattr(value, node.attr)

    def _is_harmless(self, node: ast.Attribute, value: Any) -> bool:
        """Whether an attribute reaches only data of a node, or what the caller passed in."""
        if node.attr.startswith("_"):
            return False
        if isinstance(value, Node):
            return node.attr in _NODE_ATTRIBUTES
        root = node.value
        while isinstance(root, ast.Attribute):
            root = root.value
        return isinstance(root, ast.Name) and self.scope.is_captured(root.id)

    def _formatted(self, node: ast.FormattedValue) -> str:
        value = self.evaluate(node.value)
        convert = _CONVERSIONS.get(node.conversion)
        value = value if convert is None else convert(value)
        spec = "" if node.format_spec is None else self.evaluate(node.format_spec)
        if not self.trusted:
            check_count(max(map(int, re.findall(r"\d+", spec)), default=0))
        return format(value, spec)

    def _joined(self, node: ast.JoinedStr) -> str:
        return "".join(map(str, map(self.evaluate, node.values)))

    def _sequence(self, nodes: list[ast.expr]) -> list[Any]:
        """The values of several expressions; `*items` among them stands for all its items."""
        values: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                values += self.items(self.evaluate(node.value), node.value)
            else:
                values.append(self.evaluate(node))
        return values

    def _dict(self, node: ast.Dict) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            result |= (
                self.evaluate(value) if key is None else {self.evaluate(key): self.evaluate(value)}
            )
        return result

    def _binary(self, node: ast.BinOp) -> Any:
        lhs, rhs = plain_numbers(self.evaluate(node.left), self.evaluate(node.right))
        sign, function = BINARY[type(node.op)]
        check_operands(sign, lhs, rhs)
        if not self.trusted:
            check_size(sign, lhs, rhs)
        return self._placed(function(lhs, rhs), node)

    def _unary(self, node: ast.UnaryOp) -> Any:
        value = self.evaluate(node.operand)
        if isinstance(node.op, ast.Not):
            return not truth(value)
        sign, function = UNARY[type(node.op)]
        (value,) = plain_numbers(value)
        check_operands(sign, value)
        return self._placed(function(value), node)

    def _compare(self, node: ast.Compare) -> Any:
        lhs = self.evaluate(node.left)
        result: Any = None
        for index, (op, right) in enumerate(zip(node.ops, node.comparators, strict=True)):
            if index and not truth(result):
                break
            lhs, rhs = plain_numbers(lhs, self.evaluate(right))
            sign, _ = COMPARISON[type(op)]
            check_operands(sign, lhs, rhs)
            result, lhs = self._placed(compared(sign, lhs, rhs), node), rhs
        return result

    def _boolean(self, node: ast.BoolOp) -> Any:
        stops_at = isinstance(node.op, ast.Or)
        *first, last = node.values
        for item in first:
            value = self.evaluate(item)
            if truth(value) == stops_at:
                return value
        return self.evaluate(last)

    def _choice(self, node: ast.IfExp) -> Any:
        return self.evaluate(node.body if truth(self.evaluate(node.test)) else node.orelse)

    def _subscript(self, node: ast.Subscript) -> Any:
        value = self.evaluate(node.value)
        return subscript(value, self.evaluate(node.slice), self.source.span(node))

    def _slice(self, node: ast.Slice) -> slice:
        parts = (node.lower, node.upper, node.step)
        return slice(*(None if part is None else self.evaluate(part) for part in parts))

    def _call(self, node: ast.Call) -> Any:
        callee = self.evaluate(node.func)
        args = self._sequence(node.args)
        named: dict[str, Any] = {}
        for item in node.keywords:
            value = self.evaluate(item.value)
            more = value if item.arg is None else {item.arg: value}
            if twice := named.keys() & more:
                raise TypeError(f"the argument `{min(twice)}` is given twice")
            named |= more
        if isinstance(callee, Macro):
            if self._expand is None:
                raise self.refusal(node, "a macro can be used inside a function only")
            return self._expand(node, callee, args, named)
        if isinstance(callee, Expr) and not isinstance(callee, Op):
            return self._call_function(node, callee, args, named)
        if not callable(callee):
            raise self.refusal(
                node.func, f"`{ast.unparse(node.func)}` is called, but it is no function"
            )
        return self._call_python(node, callee, args, named)

    def _call_function(
        self, node: ast.Call, callee: Expr, args: list[Any], named: dict[str, Any]
    ) -> Expr:
        """A call of a function of the program itself."""
        if named:
            raise self.refusal(
                node.keywords[0],
                f"`{ast.unparse(node.func)}` takes its arguments by position, not by name",
            )
        if isinstance(callee, Function):  # from around the script: here it becomes a closure
            callee = renew(callee)[0].without_attr("global_symbol")
        return infer(Call(callee, tuple(map(as_expr, args)), span=self.source.span(node)))

    def _call_python(
        self, node: ast.Call, callee: Callable[..., Any], args: list[Any], named: dict[str, Any]
    ) -> Any:
        """A call that is made while the script is read: an operator's, or any Python function's."""
        try:
            value = callee(*args, **named)
            return self._placed(infer(value) if isinstance(value, Call) else value, node)
        except ScriptError:
            raise
        except Exception as error:
            # Where the user's own function failed is for its traceback to say.
            ours = str(getattr(callee, "__module__", "")).startswith("relaxjax.")
            if ours and isinstance(error, TypeError):
                with self.located(node):
                    _check_arguments(ast.unparse(node.func), callee, args, named)
            raise self.error(node, error) from (_cause(error) if ours else error)


def _check_arguments(
    call: str, callee: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]
) -> None:
    """Raise an error where Python could not call `callee`; the script knows it as `call`."""
    signature = inspect.signature(callee)
    parameters = signature.parameters.values()
    if any(parameter.kind in _SEVERAL for parameter in parameters):
        try:
            signature.bind(*args, **named)
        except TypeError as error:
            raise TypeError(f"{call}: {error}") from None
        return
    names = [parameter.name for parameter in parameters]
    required = [item.name for item in parameters if item.default is item.empty]
    by_name(call, names, args, named, required)


def _cause(error: Exception) -> BaseException | None:
    """What a traceback shows beside the error of the script: nothing where that says all."""
    return error.__cause__ if isinstance(error, _SAY_ALL) else error


_RULES: dict[type[ast.expr], Callable[[Evaluator, Any], Any]] = {
    ast.Constant: Evaluator._constant,
    ast.Name: Evaluator._name,
    ast.Attribute: Evaluator._attribute,
    ast.FormattedValue: Evaluator._formatted,
    ast.JoinedStr: Evaluator._joined,
    ast.Tuple: lambda self, node: tuple(self._sequence(node.elts)),
    ast.List: lambda self, node: self._sequence(node.elts),
    ast.Set: lambda self, node: set(self._sequence(node.elts)),
    ast.Dict: Evaluator._dict,
    ast.BinOp: Evaluator._binary,
    ast.UnaryOp: Evaluator._unary,
    ast.Compare: Evaluator._compare,
    ast.BoolOp: Evaluator._boolean,
    ast.IfExp: Evaluator._choice,
    ast.Subscript: Evaluator._subscript,
    ast.Slice: Evaluator._slice,
    ast.Call: Evaluator._call,
    ast.Lambda: lambda_function,
    ast.ListComp: lambda self, node: collect(
        self, lambda: self.evaluate(node.elt), node.generators
    ),
    ast.GeneratorExp: lambda self, node: collect(
        self, lambda: self.evaluate(node.elt), node.generators
    ),
    ast.SetComp: lambda self, node: set(
        collect(self, lambda: self.evaluate(node.elt), node.generators)
    ),
    ast.DictComp: lambda self, node: dict(
        collect(self, lambda: (self.evaluate(node.key), self.evaluate(node.value)), node.generators)
    ),
}
