"""What the mere shape of statements tells: what a block or a branch leaves behind."""

import ast
from collections.abc import Iterator, Sequence


def docless(statements: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Statements without the docstring at their beginning."""
    match statements:
        case [ast.Expr(value=ast.Constant(value=str())), *rest]:
            return rest
        case _:
            return list(statements)


def bound_names(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement binds."""
    match statement:
        case ast.Assign(targets=targets):
            nodes = [node for target in targets for node in ast.walk(target)]
            yield from (node.id for node in nodes if isinstance(node, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.FunctionDef(name=name):
            yield name


def last_bindings(statements: Sequence[ast.stmt]) -> dict[str, ast.stmt]:
    """For each name, the last of the statements that binds it."""
    return {name: statement for statement in statements for name in bound_names(statement)}


def with_return_behind(statements: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Statements of a function whose `return` may stand at the end of its last block."""
    match statements:
        case [*first, ast.With(body=[*inside, ast.Return() as last]) as block] if inside:
            ended = ast.With(block.items, inside, block.type_comment)
            return [*first, ast.copy_location(ended, block), last]
        case _:
            return list(statements)


def result_name(statements: Sequence[ast.stmt]) -> str | None:
    """The name that a branch binds last, which is its result; None where it ends otherwise.

    A call at the end of a branch is bound to `_`: it is made for its effect, and gives nothing.
    """
    match statements:
        case [*_, ast.Expr(value=ast.Call())]:
            return "_"
        case [*_, ast.Assign(targets=[ast.Name(id=name)])]:
            return name
        case [*_, ast.AnnAssign(target=ast.Name(id=name))]:
            return name
        case [*_, ast.FunctionDef(name=name)]:
            return name
        case [*_, ast.If(body=body)]:
            return result_name(body)
        case [*_, ast.With(body=[*_, ast.Expr(value=ast.Call(args=[*_, ast.Name(id=name)]))])]:
            return name
        case _:
            return None


def result_annotation(statements: Sequence[ast.stmt]) -> ast.expr | None:
    """The type that a branch declares for its result, where it declares one."""
    match statements:
        case [*_, ast.AnnAssign(annotation=annotation)]:
            return annotation
        case _:
            return None
