"""Reading a script from text. The text is parsed and interpreted, and never executed."""

import ast
import re
from collections.abc import Mapping
from typing import Any, NoReturn, TypeVar, no_type_check

from relaxjax.ir.expr import Constant
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.span import Span
from relaxjax.ir.tensor_json import read_tensors
from relaxjax.ir.wording import quoted

from . import ir, lax, relax, tirx
from .branches import docless
from .comprehension import unpack
from .decorators import shortened
from .errors import ScriptError
from .evaluate import SAFE_BUILTINS, Evaluator
from .forms import FunctionForm, Macro, MacroForm, ModuleForm
from .function import read_function
from .module import NO_PYTHON_MODULE, ModuleReader
from .namespace import Vocabulary
from .scope import Scope
from .signature import read_decorators
from .source import Source, parse_text, text_source
from .values import DEVICES

_HEADER = re.compile(r"^# *from (?P<module>[\w.]+) import (?P<names>\w+.*)$", re.MULTILINE)


def from_source(
    text: str, extra_vars: Mapping[str, Any] | None = None, file: str | None = None
) -> IRModule | Any:  # a module, or a `Function`: a type checker cannot know, and takes either
    """Read the one module or function that a text defines.

    text: a script: one class under `@I.ir_module`, or one function under `@R.function`. Simple
        assignments may stand before it, and imports of the script's own names.
    extra_vars: more names that the text may use. Whatever it can reach from their values by
        attributes it may call.
    file: where the text comes from, for error messages.
    """
    if not isinstance(text, str):
        raise TypeError(f"a script is given as text, not as {type(text).__name__}")
    source = text_source(text, file)
    tree = parse_text(source, text)
    return shortened(lambda: _TextReader(source, extra_vars or {}).read(tree))


def _read_constants(text: str) -> dict[str, list[Constant]]:
    """The constants that stand before a printed module, by their kind; bad text is a ValueError."""
    return {kind: [Constant(item) for item in items] for kind, items in read_tensors(text).items()}


_SCRIPT = {
    name: Vocabulary(name, module) for name, module in (("I", ir), ("R", relax), ("T", tirx))
}
_LAX = Vocabulary("L", lax)
_DIALECTS = {
    "ir": _SCRIPT["I"],
    "relax": _SCRIPT["R"],
    "tirx": _SCRIPT["T"],
    "tir": _SCRIPT["T"],
    "lax": _LAX,
    "ir_module": ir.ir_module,
}
_TVM = {
    "script": Vocabulary("tvm.script", {**_DIALECTS, "parser": Vocabulary("parser", _DIALECTS)}),
    "ir": Vocabulary("tvm.ir", {"load_json": _read_constants}),
    **DEVICES,
}
_MODULES = Vocabulary(
    "what a text can import",
    {
        "relaxjax": Vocabulary("relaxjax", {"script": Vocabulary("relaxjax.script", _DIALECTS)}),
        "tvm": Vocabulary("tvm", _TVM),
        "typing": Vocabulary("typing", {"TypeVar": TypeVar, "no_type_check": no_type_check}),
        "__future__": Vocabulary("__future__", {"annotations": "the way Python is"}),
    },
)
_STANDING_NAMES = {**_SCRIPT, "L": _LAX, "tvm": Vocabulary("tvm", _TVM), "TypeVar": TypeVar}


class _TextReader:
    """Reads the statements of one text."""

    def __init__(self, source: Source, extra_vars: Mapping[str, Any]) -> None:
        self.source = source
        self.scope = Scope(extra_vars, {**SAFE_BUILTINS, **_STANDING_NAMES})
        self.scope.explain("metadata", "Print the program with its constants: show_meta=True.")
        self.evaluator = Evaluator(source, self.scope, trusted=False)
        self.modules: dict[ast.stmt, IRModule] = {}
        self.functions: dict[ast.stmt, Function] = {}

    def read(self, tree: ast.Module) -> IRModule | Function:
        for header in _HEADER.finditer("".join(self.source.lines)):
            self._import_header(header["module"], header["names"])
        for statement in docless(tree.body):
            self._statement(statement)
        programs: dict[ast.stmt, Any] = {**self.modules} or {**self.functions}
        if not programs:
            raise ScriptError(
                "the text defines no module and no function",
                Span(self.source.file, 1),
                "Write a class under @I.ir_module, or a function under @R.function.",
            )
        if len(programs) > 1:
            self._refuse_several(list(programs))
        (result,) = programs.values()
        return result  # type: ignore[no-any-return]  # the values of one of two dictionaries

    def _refuse_several(self, nodes: list[Any]) -> NoReturn:
        names = quoted(node.name for node in nodes)
        raise self.evaluator.refusal(
            nodes[1],
            f"the text defines {len(nodes)} programs, {names}: it must define one",
            "Functions that belong together stand in one class under @I.ir_module.",
        )

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Import(names=names):
                for item in names:
                    name = item.asname or item.name.partition(".")[0]
                    path = item.name if item.asname else name
                    self.scope.set(name, self._imported(node, path))
            case ast.ImportFrom(module=str() as module, names=names):
                for item in names:
                    value = self._imported(node, f"{module}.{item.name}")
                    self.scope.set(item.asname or item.name, value)
            case ast.Assign(targets=[target], value=value):
                self._assign(target, self.evaluator.evaluate(value))
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assign(target, self.evaluator.evaluate(value))
            case ast.ClassDef() | ast.FunctionDef():
                self._definition(node)
            case _:
                raise self.evaluator.refusal(
                    node,
                    "this statement would have to be executed, which a text is not",
                    "Beside its program a text has imports from relaxjax.script and assignments.",
                )

    def _imported(self, node: ast.stmt, path: str) -> Any:
        value: Any = _MODULES
        for name in path.split("."):
            try:
                value = value.member(name)
            except AttributeError:
                mend = "Write values into the text, or pass them from Python, in `extra_vars`."
                raise self.evaluator.refusal(
                    node,
                    f"`{path}` cannot be imported: a text imports from relaxjax.script only",
                    NO_PYTHON_MODULE if path.endswith(".BasePyModule") else mend,
                ) from None
        return value

    def _import_header(self, module: str, names: str) -> None:
        """Take up an import that a printed program has as a comment at its head."""
        for item in names.split(","):
            name, _, alias = (part.strip() for part in item.partition(" as "))
            found: Any = _MODULES
            for part in (*module.split("."), name):
                found = found.get(part) if isinstance(found, Vocabulary) else None
            if found is not None:
                self.scope.set(alias or name, found)

    def _assign(self, target: ast.expr, value: Any) -> None:
        with self.evaluator.located(target):
            for name, item in list(unpack(self.evaluator, target, value)):
                self.scope.set(name.id, item)

    def _definition(self, node: ast.ClassDef | ast.FunctionDef) -> None:
        decorators = read_decorators(self.evaluator, node)
        if not decorators:
            kind = "@I.ir_module" if isinstance(node, ast.ClassDef) else "@R.function"
            raise self.evaluator.refusal(
                node, f"`{node.name}` has no decorator", f"Write {kind} above it."
            )
        decorator, form = decorators[-1]
        value: Any
        match form, node:
            case ModuleForm(), ast.ClassDef():
                value = ModuleReader(self.source, self.scope, False, node, form).read()
                self.modules[node] = value
            case FunctionForm(), ast.FunctionDef():
                value = read_function(self.source, self.scope, False, node, form)
                self.functions[node] = value
            case MacroForm(hygienic=hygienic), ast.FunctionDef():
                value = Macro(node, self.source, self.scope.snapshot(), hygienic)
            case _:
                kind = "class" if isinstance(node, ast.ClassDef) else "function"
                raise self.evaluator.refusal(
                    decorator, f"`@{ast.unparse(decorator)}` is no decorator of a {kind}"
                )
        self.scope.set(node.name, value)
