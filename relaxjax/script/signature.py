"""Signatures: the parameters of a function, its result, and the symbolic dimensions they name."""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar, no_type_check

from relaxjax.ir.dims import Dim, SymbolicVar, as_dim
from relaxjax.ir.expr import PrimExpr, Var
from relaxjax.ir.types import FuncType, ObjectType, Type

from .annotations import DimReader, resolve
from .errors import ScriptError
from .evaluate import Evaluator
from .forms import FunctionForm
from .scalars import Declaration, ScalarType


@dataclass(frozen=True, slots=True)
class Signature:
    """What is known of a function before its body is read. An inferred result is None."""

    params: tuple[Var, ...]
    ret_ty: Type | None
    pure: bool

    @property
    def type(self) -> FuncType:
        params = tuple(param.ty or ObjectType() for param in self.params)
        return FuncType(params, self.ret_ty or ObjectType(), self.pure)


def read_signature(evaluator: Evaluator, node: ast.FunctionDef, pure: bool) -> Signature:
    """Read a signature, and enter its symbolic dimensions and parameters into the scope."""
    _check_parameters(evaluator, node)
    parameters = [*node.args.posonlyargs, *node.args.args]
    _declare_symbols(evaluator, node, parameters)
    params = tuple(_read_parameter(evaluator, parameter) for parameter in parameters)
    ret_ty = None if node.returns is None else read_type(evaluator, node.returns)
    return Signature(params, ret_ty, pure)


def function_form(evaluator: Evaluator, node: ast.FunctionDef) -> FunctionForm:
    """The options in the decorator of a function."""
    decorators = read_decorators(evaluator, node)
    if not decorators:
        raise evaluator.refusal(
            node, f"the function `{node.name}` has no decorator", "Write @R.function above it."
        )
    form = None
    for decorator, form in decorators:
        if not isinstance(form, FunctionForm):
            raise evaluator.refusal(
                decorator,
                f"`@{ast.unparse(decorator)}` is no decorator of a Relax function",
                "Write @R.function, or @R.function(pure=False, private=True).",
            )
    assert isinstance(form, FunctionForm), "the loop has seen one at least"
    return form


def read_decorators(
    evaluator: Evaluator, node: ast.FunctionDef | ast.ClassDef
) -> list[tuple[ast.expr, Any]]:
    """The decorators with what they are, without those that only type checkers read."""
    read = [(decorator, evaluator.evaluate(decorator)) for decorator in node.decorator_list]
    return [(decorator, value) for decorator, value in read if value is not no_type_check]


def read_type(evaluator: Evaluator, node: ast.expr) -> Type:
    """The type that an annotation means in the scope."""
    value = evaluator.evaluate(node)
    with evaluator.located(node):
        return resolve(value, dim_reader(evaluator, node))


def _check_parameters(evaluator: Evaluator, node: ast.FunctionDef) -> None:
    given = node.args
    for starred in (given.vararg, given.kwarg, *given.kwonlyargs):
        if starred is not None:
            raise evaluator.refusal(
                starred,
                f"the parameter `{starred.arg}` is not positional",
                "A Relax function has a fixed number of parameters; a tuple can hold more values.",
            )
    for default in given.defaults:
        raise evaluator.refusal(default, "a parameter has no default in Relax")
    names: set[str] = set()
    for parameter in (*given.posonlyargs, *given.args):
        if parameter.arg in names:
            raise evaluator.refusal(
                parameter,
                f"`{node.name}` has two parameters called `{parameter.arg}`",
                "Give one of them another name.",
            )
        names.add(parameter.arg)
        if parameter.annotation is None:
            raise evaluator.refusal(
                parameter,
                f"the parameter `{parameter.arg}` has no type",
                f'Write `{parameter.arg}: R.Tensor((2, "n"), "float32")`; anything is an R.Object.',
            )


def _declare_symbols(
    evaluator: Evaluator, node: ast.FunctionDef, parameters: Iterable[ast.arg]
) -> None:
    """Enter the symbolic dimensions that a signature brings along: `"n"`, `def f[n]`, `TypeVar`."""
    scope = evaluator.scope
    for declared in getattr(node, "type_params", ()):  # Python 3.12 has them
        _check_type_param(evaluator, declared)
        scope.set(declared.name, SymbolicVar(declared.name))
    annotations = [item.annotation for item in parameters if item.annotation is not None]
    texts = [text for annotation in annotations for text in _bare_texts(annotation)]
    if node.returns is not None:
        texts += _texts_of_function_types(node.returns)
        annotations.append(node.returns)
    for name in dict.fromkeys(texts):
        scope.set(name, SymbolicVar(name))
    for name in _names(annotations):
        if isinstance(scope.get(name), TypeVar | Declaration):
            scope.set(name, SymbolicVar(name))


def _check_type_param(evaluator: Evaluator, node: Any) -> None:
    bound = getattr(node, "bound", None)
    known = bound is None or evaluator.evaluate(bound) in (int, ScalarType("int64"))
    if type(node).__name__ != "TypeVar" or not known:
        raise evaluator.refusal(
            node,
            f"`{node.name}` declares no symbolic dimension",
            "Write `def f[n: T.int64](...)`, or `def f[n](...)`.",
        )


def _bare_texts(annotation: ast.expr) -> Iterator[str]:
    """The names that stand as text among the dimensions of a shape."""
    for sequence in ast.walk(annotation):
        if isinstance(sequence, ast.Tuple | ast.List):
            for item in sequence.elts:
                if isinstance(item, ast.Constant) and isinstance(item.value, str):
                    text = item.value.strip()
                    if text.isidentifier():
                        yield text


def _texts_of_function_types(annotation: ast.expr) -> Iterator[str]:
    """The names that the parameters of a function type bring along: its own, wherever it stands."""
    for node in ast.walk(annotation):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Callable") and node.args:
            yield from _bare_texts(node.args[0])


def _names(annotations: Iterable[ast.expr]) -> Iterator[str]:
    """The names in annotations, those inside texts too."""
    for annotation in annotations:
        for node in ast.walk(annotation):
            if isinstance(node, ast.Name):
                yield node.id
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield from _names_of_text(node.value)


def _names_of_text(text: str) -> Iterator[str]:
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError:
        return
    yield from (node.id for node in ast.walk(tree) if isinstance(node, ast.Name))


def _read_parameter(evaluator: Evaluator, parameter: ast.arg) -> Var:
    assert parameter.annotation is not None, "_check_parameters has refused it"
    ty = read_type(evaluator, parameter.annotation)
    var = Var(parameter.arg, ty, span=evaluator.source.span(parameter))
    evaluator.scope.set(parameter.arg, var)
    return var


def dim_reader(evaluator: Evaluator, annotation: ast.AST) -> DimReader:
    """Reads the dimensions that an annotation has as text. Errors point at the text."""

    def read(text: str) -> Dim:
        place = _place_of(annotation, text)
        try:
            expression = ast.parse(text.strip(), mode="eval").body
            value: Any = evaluator.evaluate(expression)
            return as_dim(value.value if isinstance(value, PrimExpr) else value)
        except ScriptError as error:
            message, mend = error.msg, error.mend
        except SyntaxError:
            message, mend = "it is no expression", None
        except TypeError as error:
            message, mend = str(error), None
        raise evaluator.refusal(place, f'in the dimension "{text}": {message}', mend)

    return read


def _place_of(annotation: ast.AST, text: str) -> ast.AST:
    for node in ast.walk(annotation):
        if isinstance(node, ast.Constant) and node.value == text:
            return node
    return annotation
