"""Running a region binding by binding, each operator by a rule that the backend gives."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from relaxjax.ir.dims import Dim, SymbolicVar
from relaxjax.ir.expr import (
    Call,
    Constant,
    Expr,
    PrimExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
)
from relaxjax.ir.function import Function, MatchCast, SeqExpr
from relaxjax.ir.op import Op, arguments
from relaxjax.ir.types import ShapeType, TensorType, TupleType, Type
from relaxjax.ops.lax import evaluate_attrs, evaluate_dim

# Takes a call, its arguments as values (None for one left out) and its attributes.
OperatorRule: TypeAlias = Callable[[Call, Sequence[Any], Mapping[str, Any]], Any]
Observer: TypeAlias = Callable[[Var, Any], None]


@dataclass
class Evaluation:
    """One run of a region: the values of its variables and of its symbolic dimensions."""

    rule: OperatorRule
    observe: Observer | None = None
    env: dict[Var, Any] = field(default_factory=dict)
    sizes: dict[SymbolicVar, Any] = field(default_factory=dict)
    constants: dict[int, Any] = field(default_factory=dict)  # other values for some, by identity

    def run(self, function: Function, args: Sequence[Any]) -> Any:
        """The value of a region, or of a closure inside it, at some arguments."""
        self.bind(function, args)
        return self._sequence(function.body)

    def bind(self, function: Function, args: Sequence[Any]) -> None:
        """Give the parameters their values, and with them the symbolic dimensions."""
        for param, arg in zip(function.params, args, strict=True):
            self.env[param] = arg
            self._learn(param.ty, arg)

    def dim(self, dim: Dim) -> Any:
        return evaluate_dim(dim, self.sizes.__getitem__)

    def _sequence(self, seq: SeqExpr) -> Any:
        for binding in seq.bindings():
            if isinstance(binding.value, Function):
                self.env[binding.var] = binding.value
                continue
            value = self.env[binding.var] = self.value(binding.value)
            if isinstance(binding, MatchCast):
                self._learn(binding.ty, value)
            if self.observe is not None:
                self.observe(binding.var, value)
        return self.value(seq.body)

    def value(self, expr: Expr) -> Any:
        """The value of an expression whose variables have theirs."""
        match expr:
            case Var():
                return self.env[expr]
            case Constant(data=data):
                return self.constants.get(id(expr), data)
            case ShapeExpr(values=dims):
                return tuple(map(self.dim, dims))
            case PrimExpr(value=value):
                return value if isinstance(value, bool | float) else self.dim(value)
            case StringImm(value=text):
                return text
            case Tuple(fields=fields):
                return tuple(map(self.value, fields))
            case TupleGetItem(tuple_value=value, index=index):
                return self.value(value)[index]
            case Call(op=Op()):
                args, attrs = arguments(expr)
                values = [None if arg is None else self.value(arg) for arg in args]
                return self.rule(expr, values, evaluate_attrs(attrs, self.dim))
            case Call(op=Var() as closure):
                return self.run(self.env[closure], list(map(self.value, expr.args)))
        raise NotImplementedError(f"a region may not hold `{expr}`: it is no call of an operator")

    def _learn(self, ty: Type | None, value: Any) -> None:
        """Read the symbolic dimensions in a type off a value."""
        match ty:
            case TensorType(shape=tuple() as dims):
                pairs = zip(dims, np.shape(value), strict=True)
            case ShapeType(values=tuple() as dims):
                pairs = zip(dims, value, strict=True)
            case TupleType(fields=types):
                for field_type, item in zip(types, value, strict=True):
                    self._learn(field_type, item)
                return
            case _:
                return
        self.sizes.update((dim, size) for dim, size in pairs if isinstance(dim, SymbolicVar))


def operator_calls(function: Function) -> list[Call]:
    """The calls of operators in a region, those inside its closures too, in order."""
    calls: list[Call] = []
    for binding in function.body.bindings():
        if isinstance(binding.value, Function):
            calls += operator_calls(binding.value)
        elif isinstance(binding.value, Call) and isinstance(binding.value.op, Op):
            calls.append(binding.value)
    return calls
