"""Computing at compile time what depends on nothing but constants."""

import math
from typing import Any

import numpy as np
from jax import core

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expand import Rule, expand_bindings
from relaxjax.ir.expr import Call, Constant, Expr, PrimExpr, ShapeExpr, Tuple, Var
from relaxjax.ir.function import Binding, Function, VarBinding
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import Op, arguments
from relaxjax.ir.tensor_types import static_dims
from relaxjax.ir.types import TensorType, dtype_name
from relaxjax.ir.walk import nested_bindings, substitute
from relaxjax.lowering.arguments import as_jax
from relaxjax.ops.lax import is_key, x64_for
from relaxjax.passes.infrastructure.base import pass_factory

from .canonicalize_bindings import canonical_bindings
from .exact_numbers import exact_result

# What operators are computed with that are not to be computed here.
_KEPT = {"value", "placement", "communicates", "local_view"}


@pass_factory(opt_level=2, kind="function")
def FoldConstant(function: Function, mod: IRModule, max_elements: int = 1024) -> Function:
    """Replace operators on constants by their results, up to `max_elements` elements each.

    Tensors that one number fills (`R.zeros`, `R.broadcast_to`) are left as they are: they are
    smaller so.
    """
    while any(_operands(b.value, max_elements) is not None for b in nested_bindings(function)):
        folded = expand_bindings(function, _folding(max_elements))
        if folded is function:
            break
        function = canonical_bindings(folded)
    return function


def _folding(max_elements: int) -> Rule:
    """The rule of one walk: what it has folded is a constant to what comes behind."""
    known: dict[Var, Expr] = {}

    def rule(binding: Binding, builder: BlockBuilder) -> Expr | None:
        call = substitute(binding.value, known) if isinstance(binding.value, Call) else None
        result = _folded(call, max_elements) if isinstance(call, Call) else None
        if result is not None and isinstance(binding, VarBinding) and result.ty == binding.var.ty:
            known[binding.var] = result
        return result

    return rule


def _folded(call: Call, max_elements: int) -> Expr | None:
    """The result of an operator on constants, None where it is not to be computed here."""
    values = _operands(call, max_elements)
    if values is None:
        return None
    assert isinstance(call.op, Op)
    assert isinstance(call.ty, TensorType)
    result = exact_result(call, values)
    if result is None:
        args, attrs = arguments(call)
        types = [arg.ty for arg in args if arg is not None]
        assert call.op.lower is not None
        with x64_for(call.ty, attrs, *types), core.eval_context():
            result = np.asarray(call.op.lower(*map(as_jax, values), **attrs))
    same = result.shape == call.ty.dims and dtype_name(result.dtype) == call.ty.dtype
    return Constant(result) if same else None


def _operands(call: Expr, max_elements: int) -> list[Any] | None:
    """What an operator on constants is to be computed of; None for any other value."""
    op = call.op if isinstance(call, Call) else None
    if not isinstance(call, Call) or not isinstance(op, Op) or op.lower is None or not op.pure:
        return None
    written = any(map(_has_constant, call.args)) and not _fills(call)
    if not written and op.name != "relax.shape_to_tensor":
        return None
    if op.draws or not _KEPT.isdisjoint(op.facts):
        return None
    if not isinstance(call.ty, TensorType) or is_key(call.ty.dtype):
        return None  # constants are numbers, and no random keys
    values = [None if arg is None else _value(arg) for arg in arguments(call)[0]]
    if _count(call.ty) > max_elements or any(value is NotImplemented for value in values):
        return None
    return values


def _fills(call: Call) -> bool:
    """Whether one number is all that the elements of a tensor are made of."""
    if not isinstance(call.ty, TensorType) or _count(call.ty) <= 1:
        return False
    types = [arg.ty for arg in call.args if not isinstance(arg, ShapeExpr | PrimExpr)]
    return all(isinstance(ty, TensorType) and _count(ty) == 1 for ty in types)


def _count(ty: TensorType) -> float:
    dims = static_dims(ty)
    return math.inf if dims is None else math.prod(dims)


def _has_constant(arg: Expr) -> bool:
    return isinstance(arg, Constant) or (isinstance(arg, Tuple) and any(map(_has_constant, arg)))


def _value(arg: Expr) -> Any:
    """The value of an argument that is known now, NotImplemented for any other."""
    match arg:
        case Constant():
            return arg.data
        case ShapeExpr(values=values) if all(isinstance(dim, int) for dim in values):
            return values
        case PrimExpr(value=int() | float() as value):
            return value
        case Tuple(fields=fields):
            items = tuple(map(_value, fields))
            return NotImplemented if any(item is NotImplemented for item in items) else items
        case _:
            return NotImplemented
