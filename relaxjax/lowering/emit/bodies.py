"""The body of a function as statements of Python, one for each binding."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import jax
import numpy as np

from relaxjax.ir.dims import SymbolicVar
from relaxjax.ir.expr import (
    Call,
    Constant,
    DataTypeImm,
    Expr,
    ExternFunc,
    GlobalVar,
    PrimExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
)
from relaxjax.ir.function import Binding, Function, If, MatchCast, SeqExpr
from relaxjax.ir.identifiers import Identifiers
from relaxjax.ir.lattice import Fit, fits
from relaxjax.ir.literals import string_text
from relaxjax.ir.op import Op
from relaxjax.ir.script_exprs import ScriptExprs
from relaxjax.ir.types import ShapeType, TensorType, TupleType, Type
from relaxjax.ir.wording import tuple_text
from relaxjax.lowering.interpreter import LoweringError, holds_tensors

from .forms import FORMS, operator_text
from .functions import bound_text, function_text
from .layout import INDENT, broken, commented
from .literals import Array, array_text, number_text, value_text
from .relax_calls import RELAX_FORMS
from .writing import Operand, Writing, call

LONGEST_NAME = 40


@dataclass(slots=True)
class Program:
    """What the functions of a file share.

    `names` are those of the functions in the file, `taken` all that a variable may not have, and
    `origins` the values that variables had before they were legalised.
    """

    names: Mapping[str, str]
    taken: frozenset[str]
    origins: Mapping[Var, Expr]
    stored: list[tuple[str, Array]] = field(default_factory=list)

    def stored_name(self, data: Array) -> str:
        """The name of a large constant, given when it is first met."""
        for name, known in self.stored:
            if known is data or (known.dtype == data.dtype and np.array_equal(known, data)):
                return name
        self.stored.append((f"CONSTANT_{len(self.stored)}", data))
        return self.stored[-1][0]


class Body:
    """Writes the bindings of one function of the module, closures and branches inside it too.

    Where `traced`, a choice is one of JAX's, made when the compiled program runs; else Python's.
    """

    def __init__(self, program: Program, function: str, traced: bool) -> None:
        self.program = program
        self.function = function
        self.traced = traced
        self.names = Identifiers(program.taken)
        self.vars: dict[Var, str] = {}
        self.symbols: dict[SymbolicVar, str] = {}
        self.known: set[SymbolicVar] = set()  # the symbols that have a value in this scope
        self.used: set[SymbolicVar] = set()

    # Functions

    def statements(self, function: Function, indent: str, checked: bool = False) -> list[str]:
        """The statements of a function; where `checked`, also one that checks its arguments."""
        outer_known, outer_used = self.known, self.used
        own = dict(self.symbol_places(function.params))
        self.known, self.used = self.known | set(own), set()
        lines = self.checks(function.params, indent) if checked else []
        lines += self.sequence(function.body, indent)
        lines += self.returned(function, indent)
        read = [f"{indent}{self.symbols[s]} = {own[s]}" for s in own if s in self.used]
        self.known, self.used = outer_known, outer_used | (self.used - set(own))
        return _spaced([*read, *lines])

    def returned(self, function: Function, indent: str) -> list[str]:
        """The statements that return a function's result, as it is declared."""
        result = self.value(function.body.body)
        if fits(function.body.body.ty, function.ret_ty) is not Fit.MAYBE:
            return broken(f"return {result}", indent)
        name = self.names.unique("result")
        lines = broken(f"{name} = {result}", indent)
        return [*lines, *self.cast(name, function.ret_ty, indent), f"{indent}return {name}"]

    def checks(self, params: Sequence[Var], indent: str) -> list[str]:
        """The statement that compares the shapes of the arguments with the types of parameters."""
        shapes = [self.shapes(param.ty) for param in params]
        if set(shapes) <= {None}:
            return []
        expected = tuple_text(map(str, shapes))
        names = tuple_text(map(self.var, params))
        return broken(call("check_shapes", names, expected), indent)

    def shapes(self, ty: Type | None) -> str | None:
        """The shape of a tensor, or those of a tuple of tensors, as far as they are known."""
        match ty:
            case TensorType(dims=tuple() as dims):
                return self.dims(dims)
            case TupleType(fields=fields):
                items = [shape for item in fields if (shape := self.shapes(item)) is not None]
                return tuple_text(items) if len(items) == len(fields) else None
        return None

    def symbol_places(self, params: Sequence[Var]) -> Iterator[tuple[SymbolicVar, str]]:
        """Where the arguments say what the symbols are that have no value yet."""
        found: dict[SymbolicVar, str] = {}
        for param in params:
            for symbol, place in symbol_places(param.ty, self.var(param)):
                if symbol not in self.known:
                    found.setdefault(symbol, place)
        yield from found.items()

    def sequence(self, seq: SeqExpr, indent: str) -> list[str]:
        """The bindings of a sequence. What a call of Relax became stands below that call."""
        lines: list[str] = []
        parts: list[str] = []
        for binding in seq.bindings():
            written = self.binding(binding, indent)
            origin = self.program.origins.get(binding.var)
            if origin is None:
                parts += written
                continue
            lines += self.introduced(parts, origin, indent)
            lines += written
            parts = []
        return [*lines, *parts]

    def introduced(self, parts: list[str], origin: Expr, indent: str) -> list[str]:
        """The first statements that a call of Relax became, under that call as a comment."""
        if not parts:
            return []
        comment = commented(self.script(origin), indent)
        return ["", comment, *parts[1:]] if parts[0] == "" else [comment, *parts]

    def script(self, origin: Expr) -> str:
        """An expression in the words of the script, with the names that its variables have here."""
        exprs = ScriptExprs("cls", syntax_sugar=True)
        exprs.var_names.update(self.vars)
        return exprs.text(origin)

    def binding(self, binding: Binding, indent: str) -> list[str]:
        if isinstance(binding.value, Function):
            return self.closure(self.var(binding.var), binding.value, indent)
        if isinstance(binding.value, If):
            return self.choice(binding.value, self.var(binding.var), indent)
        value = self.value(binding.value)
        lines = broken(f"{self.var(binding.var)} = {value}", indent)
        if isinstance(binding, MatchCast):
            lines += self.cast(self.var(binding.var), binding.ty, indent)
        elif fits(binding.value.ty, binding.var.ty) is Fit.MAYBE:
            lines += self.cast(self.var(binding.var), binding.var.ty, indent)
        return lines

    def closure(self, name: str, function: Function, indent: str) -> list[str]:
        params = ", ".join(self.var(param) for param in function.params)
        inside = self.statements(function, indent + INDENT)
        return ["", *broken(f"def {name}({params}):", indent), *inside, ""]

    def choice(self, expr: If, name: str, indent: str) -> list[str]:
        condition = self.value(expr.cond)
        if not (self.traced and holds_tensors(expr.ty)):
            true = self.branch(expr.true_branch, f"{name} =", indent)
            false = self.branch(expr.false_branch, f"{name} =", indent)
            return [f"{indent}if {condition}:", *true, f"{indent}else:", *false]
        lines = []
        functions = [self.names.unique(f"{name}_{which}") for which in ("true", "false")]
        branches = (expr.true_branch, expr.false_branch)
        for function, branch in zip(functions, branches, strict=True):
            inside = self.branch(branch, "return", indent)
            lines += ["", f"{indent}def {function}():", *inside, ""]
        return [*lines, *broken(f"{name} = {call('lax.cond', condition, *functions)}", indent)]

    def branch(self, seq: SeqExpr, head: str, indent: str) -> list[str]:
        outer, self.known = self.known, set(self.known)
        lines = self.sequence(seq, indent + INDENT)
        lines += broken(f"{head} {self.value(seq.body)}", indent + INDENT)
        self.known = outer
        return _spaced(lines)

    def cast(self, name: str, ty: Type | None, indent: str) -> list[str]:
        """Read the symbols that the type of a variable defines, and check the rest of it."""
        lines = []
        for symbol, place in symbol_places(ty, name):
            if symbol not in self.known:
                self.known.add(symbol)
                lines.append(f"{indent}{self.symbol(symbol)} = {place}")
        for part, found, expected in self.expectations(ty, name):
            text = call("expect", string_text(part), found, expected)
            lines += broken(text, indent)
        return lines

    def expectations(self, ty: Type | None, name: str) -> Iterator[tuple[str, str, str]]:
        """What a type says about a value: a part of it, the part's text, and what it must be."""
        match ty:
            case TensorType():
                if ty.dims is not None:
                    yield f"the shape of `{name}`", f"{name}.shape", self.dims(ty.dims)
                if ty.dtype is not None:
                    yield f"the dtype of `{name}`", f"{name}.dtype", string_text(ty.dtype)
            case ShapeType(values=tuple() as dims):
                yield f"`{name}`", name, self.dims(dims)
            case TupleType(fields=fields):
                for index, item in enumerate(fields):
                    yield from self.expectations(item, f"{name}[{index}]")

    # Names and values

    def var(self, var: Var) -> str:
        if var not in self.vars:
            self.vars[var] = self.names.unique(var.name[:LONGEST_NAME])
        return self.vars[var]

    def symbol(self, symbol: SymbolicVar) -> str:
        """The name of a symbol, which must have a value in this scope."""
        if symbol not in self.known:
            raise LoweringError(f"`{self.function}`: no argument says what `{symbol}` is")
        if symbol not in self.symbols:
            self.symbols[symbol] = self.names.unique(symbol.name[:LONGEST_NAME])
        self.used.add(symbol)
        return self.symbols[symbol]

    def dims(self, dims: Sequence[object]) -> str:
        return value_text(tuple(dims), self.symbol)

    def value(self, expr: Expr) -> str:
        """The text of an expression, wherever it stands."""
        match expr:
            case Call():
                return self.call(expr)
            case Tuple(fields=fields):
                return tuple_text(map(self.value, fields))
            case Constant(data=data) if array_text(data) is None:
                return f"jnp.asarray({self.program.stored_name(data)})"
            case _:
                return self.operand(expr).text

    def operand(self, expr: Expr) -> Operand:
        """An expression as an argument of an operator."""
        match expr:
            case Var():
                return Operand(self.var(expr), expr.ty, is_array=True)
            case TupleGetItem(tuple_value=inner, index=index):
                return Operand(f"{self.value(inner)}[{index}]", expr.ty, is_array=True)
            case Constant(data=data):
                text = array_text(data)
                stored = self.program.stored_name(data) if text is None else text
                return Operand(stored, expr.ty, number_text(data), _is_array(data, text))
            case ShapeExpr(values=dims):
                return Operand(self.dims(dims), expr.ty)
            case PrimExpr(value=value):
                return Operand(value_text(value, self.symbol), expr.ty)
            case StringImm(value=text) | DataTypeImm(value=text):
                return Operand(string_text(text), expr.ty)
            case GlobalVar(name=name) if name in self.program.names:
                return Operand(self.program.names[name], expr.ty)
            case GlobalVar(name=name) | ExternFunc(symbol=name):
                raise LoweringError(
                    f"`{self.function}` calls `{name}`, a Python function from outside: "
                    "plain JAX that stands alone cannot call it"
                )
            case _:
                return Operand(self.value(expr), expr.ty)

    def call(self, expr: Call) -> str:
        if not isinstance(expr.op, Op):
            return call(self.operand(expr.op).text, *map(self.value, expr.args))
        operands = list(map(self.operand, expr.args))
        if expr.op.name.startswith("lax."):
            name = expr.op.name.removeprefix("lax.")
            return _lax_call(Writing(name, operands, expr.attrs, expr.ty, self.symbol))
        if {"placement", "steers"} & set(expr.op.facts):
            return operands[0].text  # plain JAX runs where its arrays are, and is there to be run
        form = RELAX_FORMS.get(expr.op.name)
        writing = Writing(expr.op.name, operands, expr.attrs, expr.ty, self.symbol)
        text = None if form is None else form(writing)
        if text is None:
            raise LoweringError(
                f"`{self.function}`: `{self.script(expr)}` cannot be written as plain JAX: "
                "JAX needs the values of its arguments, or static shapes, to trace it"
            )
        return text


def _lax_call(writing: Writing) -> str:
    """A call of an operator of the lax dialect as Python that means just the same.

    The first of these that can be written: an operator of Python, a form of its own, the function
    of the primitive's name, the primitive bound.
    """
    own = FORMS.get(writing.name, function_text)
    for form in (operator_text, own, function_text, bound_text):
        text = form(writing)
        if text is not None:
            return text
    raise LoweringError(
        f"`lax.{writing.name}` has no public name in JAX {jax.__version__}, "
        "so it cannot be written as plain JAX"
    )


def symbol_places(ty: Type | None, text: str) -> Iterator[tuple[SymbolicVar, str]]:
    """Where a value of a type says what the symbols are that stand alone in it."""
    match ty:
        case TensorType(dims=tuple() as dims):
            places = [(dim, f"{text}.shape[{axis}]") for axis, dim in enumerate(dims)]
        case ShapeType(values=tuple() as dims):
            places = [(dim, f"{text}[{axis}]") for axis, dim in enumerate(dims)]
        case TupleType(fields=fields):
            for index, item in enumerate(fields):
                yield from symbol_places(item, f"{text}[{index}]")
            return
        case _:
            return
    yield from ((dim, place) for dim, place in places if isinstance(dim, SymbolicVar))


def _is_array(data: Array, text: str | None) -> bool:
    """Whether a constant's text gives an array of JAX's, and no number can stand for it."""
    return text is not None and number_text(data) is None


def _spaced(lines: list[str]) -> list[str]:
    """Lines without a blank one at their begin, and never two of them in a row."""
    before = ["", *lines]
    return [line for line, last in zip(lines, before, strict=False) if line or last]
