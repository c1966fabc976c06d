"""How blocks and branches end: with what they give to the statements after them."""

import ast
from typing import Any

from .branches import result_name
from .errors import ScriptError
from .evaluate import Evaluator
from .forms import output


def calls(evaluator: Evaluator, node: ast.expr, function: Any, name: str) -> bool:
    """Whether an expression calls one certain function, known as `name` in some vocabulary."""
    match node:
        case ast.Call(func=ast.Attribute(attr=last) | ast.Name(id=last) as callee):
            return last == name and evaluator.evaluate(callee) is function
    return False


def block_outputs(
    evaluator: Evaluator, statements: list[ast.stmt]
) -> tuple[list[ast.stmt], list[ast.Name]]:
    """The statements of a dataflow block before R.output, and the names that it gives."""
    match statements:
        case [*inner, ast.Expr(value=ast.Call(args=args) as call)] if calls(
            evaluator, call, output, "output"
        ):
            for arg in args:
                if not isinstance(arg, ast.Name):
                    raise evaluator.refusal(arg, "R.output takes names of the dataflow block")
            return inner, [arg for arg in args if isinstance(arg, ast.Name)]
    return statements, []


def choice_name(evaluator: Evaluator, node: ast.If) -> str:
    """The name that both branches of an `if` bind last."""
    if not node.orelse:
        if isinstance(node.body[-1], ast.Return):
            raise early_return(evaluator, node.body[-1])
        raise evaluator.refusal(
            node.test, "`if` needs an `else`", "Both branches bind the same name last."
        )
    true = _branch_name(evaluator, node.body, "if")
    false = _branch_name(evaluator, node.orelse, "else")
    if true != false and "_" in (true, false):
        which, branch = ("if", node.body) if true == "_" else ("else", node.orelse)
        raise no_result(evaluator, branch[-1], which)
    if true != false:
        raise evaluator.refusal(
            node.orelse[-1],
            f"the branches end in different names: `{true}` and `{false}`",
            "Let both bind the same name last: it is the result.",
        )
    return true


def early_return(evaluator: Evaluator, node: ast.Return) -> ScriptError:
    return evaluator.refusal(
        node,
        "`return` is the last statement of a function, and there is one only",
        "Let both branches of an `if` bind the same name last, and return that after it.",
    )


def _branch_name(evaluator: Evaluator, statements: list[ast.stmt], which: str) -> str:
    name, last = result_name(statements), statements[-1]
    if isinstance(last, ast.Return):
        raise early_return(evaluator, last)
    if name is None:
        raise no_result(evaluator, last, which)
    return name


def no_result(evaluator: Evaluator, last: ast.stmt, which: str) -> ScriptError:
    return evaluator.refusal(
        last,
        f"the branch of `{which}` does not end by binding a name",
        "Both branches bind the same name last: it is the result.",
    )
