"""The IR as script text: what `relaxjax.script` reads back, and TVM's own parser too.

Nodes print themselves by it, though it stands above them all.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .device_mesh import MESHES
from .expr import Call, DataflowVar, Expr, ExternFunc, GlobalVar, Var
from .function import BindingBlock, DataflowBlock, Function, If, MatchCast, SeqExpr, VarBinding
from .highlight import ScriptText
from .identifiers import Identifiers, identifier
from .module import IRModule
from .node import Node
from .op import Op
from .print_options import PrintOptions, parse_options
from .script_exprs import ScriptExprs, Writers, writer_of
from .tensor_json import write_tensors
from .types import TensorType, TupleType
from .walk import expr_symbols, post_order
from .written_above import body_of


@body_of(Node.script)
def print_node(node: Node, **options: Any) -> ScriptText:
    """The script text of a node; `PrintOptions` says what the options are."""
    return ScriptText(_Printer(parse_options(options)).document(node))


def print_apart(node: Node) -> tuple[str, list[np.ndarray[Any, Any]]]:
    """The script of a program, and the big constants that it names as those of `metadata`."""
    printer = _Printer(PrintOptions(show_meta=False))
    printer.document(node)
    constants = printer.exprs.constants
    return "\n".join([*printer._prologue(), *printer.lines, ""]), constants


def print_lines(node: Node, **options: Any) -> tuple[list[str], dict[int, int]]:
    """The lines of a program without prologue, and where in it each of its parts stands.

    The places are by the `id` of a binding, of a function (its `def`), and of a sequence (its
    result).
    """
    printer = _Printer(parse_options(options))
    printer.document(node)
    return printer.lines, printer.line_of


def variable_names(function: Function) -> dict[Var, str]:
    """The names that the variables of a function have where it is printed, those inside it too."""
    options = PrintOptions(show_meta=False)
    names = _names_in_order(function, options)
    if names is not None:
        return names
    printer = _Printer(options)
    printer.document(function)
    return printer.exprs.var_names


def _names_in_order(function: Function, options: PrintOptions) -> dict[Var, str] | None:
    """The names of variables by the order of their definitions; None where only printing tells.

    Branches have another order, variables from outside are named where they are used, and symbolic
    dimensions take names as well.
    """
    defined = list(_definitions(function))
    names, shown = Identifiers({options.module_alias, options.name}), dict[Var, str]()
    for var, value in defined:
        is_plain = isinstance(var.ty, TensorType | TupleType) or isinstance(value, Function)
        if not is_plain or _returns_nothing(var, value):
            return None
        if var not in shown:
            shown[var] = names.unique(var.name)
    bodies = 0
    for item in post_order(function):
        if isinstance(item, If) or (isinstance(item, Var) and item not in shown):
            return None
        bodies += isinstance(item, SeqExpr)
    seen = 1 + sum(isinstance(value, Function) for _, value in defined)
    return shown if bodies == seen and not expr_symbols(function) else None


def _definitions(function: Function) -> Iterator[tuple[Var, Expr | None]]:
    """The variables of a function and of closures in it, in order, and what they are bound to."""
    yield from ((param, None) for param in function.params)
    for binding in function.body.bindings():
        yield binding.var, binding.value
        if isinstance(binding.value, Function):
            yield from _definitions(binding.value)


_IMPORTS = {"I": "ir as I", "R": "relax as R", "T": "tirx as T", "L": "lax as L"}


class _Printer:
    """Writes one document: its lines, and what must stand before them."""

    def __init__(self, options: PrintOptions) -> None:
        self.options = options
        self.exprs = ScriptExprs(options.module_alias, options.syntax_sugar)
        self.lines: list[str] = []
        self.indent = ""
        self.in_module = False
        self.statements: list[tuple[int, str, Var]] = []  # where a result was left without a name
        self.line_of: dict[int, int] = {}  # by the id of a part

    def document(self, node: Node) -> str:
        if writer_of(WRITERS, node) is None:
            return _bare_name(node) or self.exprs.text(node)
        self._write(node)
        if not isinstance(node, IRModule | Function):
            return "\n".join(self.lines)
        return "\n".join([*self._prologue(), *self.lines, *self._epilogue()])

    def _prologue(self) -> Iterator[str]:
        names = [name for prefix, name in _IMPORTS.items() if prefix in self.exprs.prefixes]
        yield f"# from relaxjax.script import {', '.join(names)}"
        if self.exprs.constants and self.options.show_meta:
            yield f'metadata = tvm.ir.load_json("""{write_tensors(self.exprs.constants)}""")'
        yield ""

    def _epilogue(self) -> Iterator[str]:
        count = len(self.exprs.constants)
        if count and not self.options.show_meta:
            yield ""
            left_out = "1 constant is" if count == 1 else f"{count} constants are"
            yield f"# {left_out} left out; `script(show_meta=True)` writes all of them."

    def _write(self, node: Node) -> None:
        """Write a statement, or a block of them."""
        write = writer_of(WRITERS, node)
        assert write is not None, f"a {type(node).__name__} is no statement"
        write(self, node)

    def _line(self, text: str = "") -> None:
        self.lines.append(f"{self.indent}{text}" if text else "")

    def _mark(self, part: object) -> None:
        """Remember that the last line is the place of `part`."""
        self.line_of[id(part)] = len(self.lines) - 1

    @contextmanager
    def _indented(self) -> Iterator[None]:
        outer = self.indent
        self.indent += " " * self.options.indent_spaces
        yield
        self.indent = outer

    # Modules and functions

    def _ir_module(self, module: IRModule) -> None:
        self.in_module = True
        self.exprs.prefixes.add("I")
        self._line("@I.ir_module")
        self._line(f"class {self.options.name}:")
        with self._indented():
            for statement, values in (
                ("module_attrs", module.attrs),
                ("module_global_infos", module.global_infos),
            ):
                if values:
                    self._line(f"I.{statement}({self.exprs.value_text(values)})")
            self.exprs.meshes = module.global_infos.get(MESHES, ())
            for var, function in sorted(module.functions.items(), key=_function_order):
                self._module_function(var, function)
            if not (module.functions or module.attrs or module.global_infos):
                self._line("pass")

    def _module_function(self, var: GlobalVar, function: Any) -> None:
        if self.lines[-1].startswith(self.indent):
            self._line()
        if isinstance(function, ExternFunc):
            self._line(f"{var.name} = {self.exprs.text(function)}")
        else:
            self._top_function(function, var.name)

    def _function(self, function: Function) -> None:
        self._top_function(function, identifier(function.global_symbol or "main"))

    def _top_function(self, function: Function, name: str) -> None:
        """A function that is nested in no other: it declares all symbols, those of closures too."""
        self.exprs.start_scope(self.options.name)
        self.statements.clear()
        decorator = {
            "private": None if "global_symbol" in function.attrs else True,
            "pure": None if function.pure else False,
        }
        self.exprs.quotes_dims = True
        self._signature(function, name, decorator)
        self.exprs.quotes_dims = False
        begin, lines_before, self.line_of = len(self.lines), self.line_of, {}
        public = function.global_symbol == name
        with self._indented():
            self._body(function, function.attrs.without(*(["global_symbol"] if public else [])))
            self._name_used_results()
            prelude = self._prelude()
        self.lines[begin:begin] = prelude
        moved = {part: line + len(prelude) for part, line in self.line_of.items()}
        self.line_of = lines_before
        self.line_of.update(moved)

    def _prelude(self) -> list[str]:
        if self.exprs.symbol_names:
            self.exprs.prefixes.add("T")
        symbols = [
            f"{self.indent}{name} = T.{symbol.dtype}()"
            for symbol, name in self.exprs.symbol_names.items()
        ]
        if self.in_module and self.exprs.calls_module:
            return [*symbols, f"{self.indent}{self.options.module_alias} = {self.options.name}"]
        return symbols

    def _nested_function(self, name: str, function: Function) -> None:
        self._signature(function, name, {"pure": None if function.pure else False})
        with self._indented():
            self._body(function, function.attrs)
        self._line()

    def _signature(self, function: Function, name: str, decorator: dict[str, Any]) -> None:
        given = [f"{key}={value}" for key, value in decorator.items() if value is not None]
        self.exprs.prefixes.add("R")
        self._line(f"@R.function({', '.join(given)})" if given else "@R.function")
        params = [
            self.exprs.var(var)
            if var.ty is None
            else f"{self.exprs.var(var)}: {self.exprs.text(var.ty)}"
            for var in function.params
        ]
        ret = self.exprs.text(function.ret_ty)
        self._line(f"def {name}({', '.join(params)}) -> {ret}:")
        self._mark(function)

    def _body(self, function: Function, attrs: Any) -> None:
        if attrs:
            self._line(f"R.func_attr({self.exprs.value_text(attrs)})")
        self._line(f"return {self._leaf(function.body)}")
        self._mark(function.body)

    # Sequences and bindings

    def _leaf(self, value: Expr) -> str:
        """The text of a value, with the statements that it needs written before."""
        if isinstance(value, SeqExpr):
            for block in value.blocks:
                self._write(block)
            return self._leaf(value.body)
        if not isinstance(value, If | Function):
            return self.exprs.text(value)
        name = self.exprs.names.unique("gv")
        self._bind(name, value.ty, value)
        return name

    def _seq_expr(self, value: SeqExpr) -> None:
        self._line(self._leaf(value))

    def _binding_block(self, block: BindingBlock) -> None:
        for binding in block.bindings:
            begin = len(self.lines)
            self._write(binding)
            self.line_of[id(binding)] = begin
            if self.options.provenance and binding.derived_from:
                self.lines[begin] += _provenance(binding)

    def _dataflow_block(self, block: BindingBlock) -> None:
        self.exprs.prefixes.add("R")
        self._line("with R.dataflow():")
        with self._indented():
            self._binding_block(block)
            outputs = [b.var for b in block.bindings if not isinstance(b.var, DataflowVar)]
            self._line(f"R.output({', '.join(map(self.exprs.text, outputs))})")

    def _match_cast(self, binding: MatchCast) -> None:
        value = f"R.match_cast({self._leaf(binding.value)}, {self.exprs.text(binding.ty)})"
        self.exprs.prefixes.add("R")
        self._assign(self.exprs.var(binding.var), binding.var.ty, value)

    def _var_binding(self, binding: VarBinding) -> None:
        var, value = binding.var, binding.value
        if self.options.syntax_sugar and _returns_nothing(var, value):
            text = self.exprs.text(value)
            self.statements.append((len(self.lines), text, var))
            self._line(text)
        else:
            self._bind(self.exprs.var(var), var.ty, value)

    def _bind(self, name: str, ty: Any, value: Any) -> None:
        if isinstance(value, If):
            self._choice(name, ty, value)
        elif isinstance(value, Function):
            self._nested_function(name, value)
        else:
            self._assign(name, ty, self._leaf(value))

    def _choice(self, name: str, ty: Any, value: If) -> None:
        """Both branches bind the same name last: that is the value of the choice."""
        for head, branch in (
            (f"if {self.exprs.text(value.cond)}:", value.true_branch),
            ("else:", value.false_branch),
        ):
            self._line(head)
            with self._indented():
                self._assign(name, ty, self._leaf(branch))
                self._mark(branch)

    def _assign(self, name: str, ty: Any, value: str) -> None:
        typed = ty is not None and self.options.show_all_types
        self._line(f"{name}: {self.exprs.text(ty)} = {value}" if typed else f"{name} = {value}")

    def _name_used_results(self) -> None:
        """Give names to the calls that return nothing but are referred to all the same."""
        for index, text, var in self.statements:
            if var in self.exprs.used_vars:
                line = self.lines[index]
                lhs = f"{self.exprs.var(var)}: {self.exprs.text(var.ty)}"
                self.lines[index] = f"{line.removesuffix(text)}{lhs} = {text}"


WRITERS: Writers = {
    IRModule: _Printer._ir_module,
    Function: _Printer._function,
    SeqExpr: _Printer._seq_expr,
    BindingBlock: _Printer._binding_block,
    DataflowBlock: _Printer._dataflow_block,
    MatchCast: _Printer._match_cast,
    VarBinding: _Printer._var_binding,
    If: _Printer._seq_expr,
}


def _provenance(binding: VarBinding | MatchCast) -> str:
    """The comment that says what a binding is derived from."""
    span = binding.span
    place = f" at {span.shown_file}:{span.line}" if span else ""
    return f"  # from {binding.derived_from}{place}"


def _function_order(item: tuple[Any, Any]) -> tuple[bool, bool, str]:
    """Functions from outside first, then by name, `main` last."""
    var, function = item
    return not isinstance(function, ExternFunc), var.name == "main", var.name


def _returns_nothing(var: Any, value: Any) -> bool:
    return isinstance(value, Call) and _is_unit(var.ty)


def _is_unit(ty: Any) -> bool:
    return isinstance(ty, TupleType) and not ty.fields


def _bare_name(node: Any) -> str:
    """The name of what is no part of a program when it stands alone."""
    return node.name if isinstance(node, Op | GlobalVar) else ""
