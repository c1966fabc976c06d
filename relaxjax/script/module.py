"""Reading a module: a class whose functions may call one another in any order."""

import ast
from typing import Any

from relaxjax.ir.check import well_formed
from relaxjax.ir.device_mesh import MESHES, meshes_listed
from relaxjax.ir.expr import ExternFunc, GlobalVar
from relaxjax.ir.function import Function
from relaxjax.ir.global_info import devices_listed
from relaxjax.ir.identifiers import check_function_name
from relaxjax.ir.module import BaseFunc, IRModule
from relaxjax.ir.registry import did_you_mean
from relaxjax.ir.renew import renew
from relaxjax.ir.wording import quoted

from .branches import bound_names, docless
from .evaluate import Evaluator
from .forms import Module, ModuleAttrs, ModuleForm, ModuleInfos
from .function import FunctionReader
from .namespace import FunctionsOf
from .scope import Scope
from .signature import function_form
from .source import Source

NO_PYTHON_MODULE = (
    "Of a BasePyModule of TVM write the Relax functions alone, in a class without a base; "
    "R.call_pure_packed calls a Python function."
)


class ModuleReader:
    """Reads one class. Signatures come first; a body is read early where its type is needed."""

    def __init__(
        self, source: Source, scope: Scope, trusted: bool, node: ast.ClassDef, form: ModuleForm
    ) -> None:
        self.source = source
        self.trusted = trusted
        self.node = node
        self.form = form
        self.attrs: dict[str, Any] = {}
        self.infos: dict[str, Any] = {}
        self.functions: dict[str, BaseFunc] = {}
        self.aliases: dict[str, ast.expr] = {}
        self.readers: dict[str, FunctionReader] = {}
        self.in_progress: list[str] = []
        self.scope = scope.fork()
        self.scope.push({node.name: FunctionsOf(node.name, self.global_var)})
        self.evaluator = Evaluator(source, self.scope, trusted)

    def read(self) -> IRModule:
        for base in (*self.node.bases, *self.node.keywords):
            self._check_base(base)
        statements = docless(self.node.body)
        for name, statement in ((n, s) for s in statements for n in bound_names(s)):
            why = f"It is a function of the module: write `{self.node.name}.{name}`."
            if isinstance(statement, ast.Assign):
                why += " What is no function stands above the class."
            self.scope.explain(name, why)
        notes = [statement for statement in statements if isinstance(statement, ast.Expr)]
        for note in notes:
            self._take_attributes(note)
        devices, meshes = (self.infos.get(name, ()) for name in ("vdevice", MESHES))
        with devices_listed(devices), meshes_listed(meshes):
            definitions = [self._declare(item) for item in statements if item not in notes]
            names = [name for name in definitions if name is not None]
            functions = {name: self._function(name) for name in names}
        module = IRModule(functions, self.attrs, self.infos, span=self.source.span(self.node))
        if self.form.check_well_formed:
            well_formed(module)
        return module

    def _check_base(self, base: ast.AST) -> None:
        """Refuse a base class, unless it is the one that tells type checkers what this is."""
        text = ast.unparse(base)
        match base:
            case ast.Attribute(attr="Module") | ast.Name(id="Module"):
                if self.evaluator.evaluate(base) is Module:
                    return
        mend = f'Write `class {self.node.name}:`; `other = Other["main"]` takes over a function.'
        is_python = text.rpartition(".")[2] == "BasePyModule"
        raise self.evaluator.refusal(
            base, "a module has no base class", NO_PYTHON_MODULE if is_python else mend
        )

    def global_var(self, name: str) -> GlobalVar:
        """The function of that name as another one calls it; its type may need its body."""
        if name in self.readers:
            signature = self.readers[name].signature
            if signature.ret_ty is not None:
                return GlobalVar(name, ty=signature.type)
        elif name not in self.functions and name not in self.aliases:
            known = [*self.readers, *self.aliases]
            listed = quoted(known)
            raise AttributeError(
                f"the module `{self.node.name}` has no function `{name}`; it has {listed}"
                f"{did_you_mean(name, known)}"
            )
        if name in self.in_progress:
            raise TypeError(
                f"`{name}` calls itself, directly or through others, so the type of its result "
                f'cannot be inferred: write it, as in `-> R.Tensor((2, 3), "float32")`'
            )
        return GlobalVar(name, ty=self._function(name).ty)

    def _declare(self, node: ast.stmt) -> str | None:
        """Take up one statement of the class; the name of the function that it defines."""
        match node:
            case ast.Pass():
                return None
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self._check_new(node, name)
                self.aliases[name] = value
                return name
            case ast.FunctionDef(name=name):
                self._check_new(node, name)
                form = function_form(self.evaluator, node)
                checks = self.form.check_well_formed
                self.readers[name] = FunctionReader(
                    self.source, self.scope, self.trusted, node, form, checks
                )
                return name
        raise self.evaluator.refusal(
            node,
            f"`{ast.unparse(node).splitlines()[0]}` is no statement of a module",
            "A module has functions, `name = function`, I.module_attrs, I.module_global_infos.",
        )

    def _check_new(self, node: ast.stmt, name: str) -> None:
        with self.evaluator.located(node):
            check_function_name(name)
        if name in self.readers or name in self.aliases:
            raise self.evaluator.refusal(node, f"the module has two functions called `{name}`")

    def _take_attributes(self, node: ast.Expr) -> None:
        value = self.evaluator.evaluate(node.value)
        if isinstance(value, ModuleAttrs):
            self.attrs.update(value.attrs)
        elif isinstance(value, ModuleInfos):
            self.infos.update(value.infos)
        else:
            raise self.evaluator.refusal(
                node,
                "this value is no part of a module",
                "Beside functions, a module has I.module_attrs and I.module_global_infos.",
            )

    def _function(self, name: str) -> BaseFunc:
        if name not in self.functions:
            self.in_progress.append(name)
            if name in self.readers:
                self.functions[name] = self.readers[name].read()
            else:
                self.functions[name] = self._alias(name, self.aliases[name])
            self.in_progress.pop()
        return self.functions[name]

    def _alias(self, name: str, node: ast.expr) -> BaseFunc:
        """A function that comes from outside, or another one of the module under a second name."""
        is_own = isinstance(node, ast.Name) and node.id in {**self.readers, **self.aliases}
        value = self._function(node.id) if is_own else self.evaluator.evaluate(node)  # type: ignore[attr-defined]  # is_own says it is a name
        if isinstance(value, Function) and is_own:
            value = renew(value)[0]  # for no variable may be defined in two functions
        if isinstance(value, Function) and value.global_symbol is not None:
            return value.with_attr("global_symbol", name)
        if isinstance(value, Function | ExternFunc):
            return value
        raise self.evaluator.refusal(
            node,
            f"`{name}` must be a function, but it is a Python {type(value).__name__}",
            "Give a Relax function, or R.ExternFunc(name).",
        )
