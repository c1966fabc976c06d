"""The pieces of small functions with something wrong in them, and what is found."""

from typing import Any

import relaxjax.ops  # noqa: F401  # the operators behind the signs
from relaxjax.ir.check import faults
from relaxjax.ir.dims import SymbolicVar
from relaxjax.ir.expr import Call, DataflowVar, Expr, ExternFunc, Var
from relaxjax.ir.fault import Fault
from relaxjax.ir.function import (
    Binding,
    BindingBlock,
    DataflowBlock,
    Function,
    If,
    SeqExpr,
    VarBinding,
)
from relaxjax.ir.module import IRModule
from relaxjax.ir.types import TensorType, TupleType, Type

N, M = SymbolicVar("n"), SymbolicVar("m")
TY = TensorType((N, 2), "float32")
X, Y, Z = Var("x", TY), Var("y", TY), Var("z", TY)
LV = DataflowVar("lv", TY)
FLAG = Var("flag", TensorType((), "bool"))
PAIR = Var("pair", TupleType((TY, TY)))
NESTED = X + X
EFFECT = Call(ExternFunc("effect"), (X,), ty_args=(TY,), ty=TY)


def bind(*pairs: tuple[Var, Expr]) -> tuple[VarBinding, ...]:
    return tuple(VarBinding(var, value) for var, value in pairs)


def plain(*bindings: Binding) -> BindingBlock:
    return BindingBlock(bindings)


def flow(*bindings: Binding) -> DataflowBlock:
    return DataflowBlock(bindings)


def function(*blocks: BindingBlock, result: Expr = X, **rules: Any) -> Function:
    """A function of `x`, `flag` and `pair`."""
    return Function((X, FLAG, PAIR), SeqExpr(blocks, result), **rules)


def found(program: IRModule | Function) -> list[tuple[int, str]]:
    return [(fault.rule, fault.message) for fault in faults(program)]


def only(program: IRModule | Function) -> Fault:
    (fault,) = faults(program)
    return fault


def choice(true: Expr, false: Expr = X, ty: Type = TY) -> If:
    branches = [seq if isinstance(seq, SeqExpr) else SeqExpr((), seq) for seq in (true, false)]
    return If(FLAG, *branches, ty=ty)
