"""The gradient of an operator of the dialect: the primitive's own pullback, traced into IR."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from jax.extend import core

from relaxjax.ir.attrs import Attrs
from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Call, Expr, TupleGetItem, Var
from relaxjax.ir.function import DataflowBlock, SeqExpr, VarBinding
from relaxjax.ir.node import replace
from relaxjax.ir.op import GradientRule, Op
from relaxjax.ir.registry import get_op
from relaxjax.ir.types import TensorType, TupleType, Type
from relaxjax.ir.walk import substitute, uses
from relaxjax.ops.declare import OpError

from .avals import aval_of, jax_dtype, x64_for
from .inlining import open_program
from .reader import Reader
from .symbols import JaxSymbols, evaluate_attrs


def gradient_of(name: str, op_of: Callable[[core.Primitive], Op]) -> GradientRule:
    """The gradient rule of the operator `name`: linear in each argument of an inexact dtype."""

    def gradient(g: Expr, out: Var, *args: Expr, **attrs: Any) -> tuple[Expr | None, ...]:
        call = Call(get_op(name), args, Attrs(attrs), ty=out.ty)
        return tuple(
            _adjoint(g, out, call, index, op_of) if is_inexact(arg.ty) else None
            for index, arg in enumerate(args)
        )

    return gradient


def is_inexact(ty: Type | None) -> bool:
    """Whether values of a type can have a derivative."""
    if not isinstance(ty, TensorType) or ty.dtype is None:
        return False
    return bool(jax.numpy.issubdtype(jax_dtype(ty.dtype), np.inexact))


def _adjoint(
    g: Expr, out: Var, call: Call, index: int, op_of: Callable[[core.Primitive], Op]
) -> Expr:
    """The adjoint of one argument, as an expression of the adjoint `g` of the result."""
    fields = _fields(g)
    types = tuple(arg.ty for arg in call.args)
    program, symbols = _traced_pullback(call, types, tuple(f.ty for f in fields), index)
    builder = BlockBuilder()
    with builder.scope():
        with builder.dataflow():
            reader = Reader(builder, op_of, symbols, known={call: out}, spans=False)
            (adjoint,) = reader.read(open_program(program), [*fields, *call.args], [True])
        assert adjoint is not None
        return compact(builder.sequence(adjoint))


@lru_cache(maxsize=1024)
def _traced_pullback(
    call: Call, types: Sequence[Type | None], cotangents: Sequence[Type | None], index: int
) -> tuple[Any, JaxSymbols]:
    """The pullback of a call by one argument, as a program of the cotangents and the arguments."""
    assert isinstance(call.op, Op)
    assert call.op.lower is not None
    symbols = JaxSymbols()
    avals = [aval_of(ty, symbols) for ty in (*cotangents, *types)]
    if None in avals:
        raise OpError(
            f"{call.op.name}: the gradient needs arguments of known shape and dtype, "
            f"found {', '.join(map(str, types))}"
        )
    attrs = evaluate_attrs(call.attrs, symbols.to_jax)
    lower = call.op.lower

    def pullback(*values: Any) -> Any:
        gs, args = values[: len(cotangents)], list(values[len(cotangents) :])

        def function(x: Any) -> Any:
            return lower(*args[:index], x, *args[index + 1 :], **attrs)

        result, vjp = jax.vjp(function, args[index])
        tuple_given = isinstance(result, tuple)
        seeds = [
            _cotangent(g, r) for g, r in zip(gs, result if tuple_given else [result], strict=True)
        ]
        return vjp(tuple(seeds) if tuple_given else seeds[0])

    with x64_for(*types, call.attrs):
        return jax.make_jaxpr(pullback)(*avals), symbols


def _cotangent(g: Any, result: Any) -> Any:
    """`g`, or the only cotangent that a result without derivative has."""
    if jax.numpy.issubdtype(result.dtype, np.inexact):
        return g
    return np.zeros(result.shape, jax.dtypes.float0)


def _fields(g: Expr) -> list[Expr]:
    if not isinstance(g.ty, TupleType):
        return [g]
    return [TupleGetItem(g, index) for index in range(len(g.ty.fields))]


def compact(seq: SeqExpr) -> Expr:
    """A sequence as one expression: what is used once stands where it is used."""
    counts = uses(seq)
    nested: dict[Var, Expr] = {}
    kept: list[VarBinding] = []
    for binding in seq.bindings():
        value = substitute(binding.value, nested)
        if counts.get(binding.var) == 1 and isinstance(value, Call | TupleGetItem):
            nested[binding.var] = value
        elif isinstance(binding, VarBinding):
            kept.append(replace(binding, value=value))
    body = substitute(seq.body, nested)
    return SeqExpr((DataflowBlock(tuple(kept)),), body) if kept else body
