"""Patterns by the short names that people write."""

from collections.abc import Mapping, Sequence
from typing import Any

from relaxjax.ir.attrs import DESTINATION_PASSING
from relaxjax.ir.expr import Expr
from relaxjax.ir.op import get_op
from relaxjax.ir.types import dtype_name

from .leaves import (
    ConstantPattern,
    DataflowVarPattern,
    ExprPattern,
    ExternFuncPattern,
    GlobalVarPattern,
    PrimArrPattern,
    VarPattern,
    WildcardPattern,
)
from .pattern import AttrPattern, CallPattern, DataTypePattern, DFPattern, NotPattern, as_dims
from .structures import TupleGetItemPattern, TuplePattern, UnorderedTuplePattern


def wildcard() -> WildcardPattern:
    """Anything."""
    return WildcardPattern()


def is_op(name: str) -> ExprPattern:
    """The operator of that name: `is_op("relax.add")(wildcard(), wildcard())` is its call."""
    if not isinstance(name, str):
        raise TypeError(f'is_op takes the name of an operator, such as "relax.add", not {name!r}')
    return ExprPattern(get_op(name))


def is_expr(expr: Expr) -> ExprPattern:
    """One certain expression."""
    return ExprPattern(expr)


def is_var(name: str = "") -> VarPattern:
    """A variable, of that name if one is given."""
    return VarPattern(name)


def is_dfv(name: str = "") -> DataflowVarPattern:
    """A variable that only its dataflow block can see."""
    return DataflowVarPattern(name)


def is_gv(name: str = "") -> GlobalVarPattern:
    """A function of the module."""
    return GlobalVarPattern(name)


def is_const() -> ConstantPattern:
    """A constant tensor."""
    return ConstantPattern()


def is_tuple(fields: Sequence[DFPattern], unordered: bool = False) -> TuplePattern:
    """A tuple by its fields, which may stand in any order where `unordered` is set."""
    if not isinstance(fields, list | tuple):
        raise ValueError(f"is_tuple takes a list or tuple of patterns, found `{fields!r}`")
    return UnorderedTuplePattern(tuple(fields)) if unordered else TuplePattern(tuple(fields))


def is_tuple_get_item(tuple_value: DFPattern, index: int | None = None) -> TupleGetItemPattern:
    """A field of a tuple, the one at `index` if it is given."""
    return TupleGetItemPattern(tuple_value, index)


def is_shape(shape: Sequence[Any]) -> PrimArrPattern:
    """A shape as a value; the shape of a tensor is `pattern.has_shape`."""
    return PrimArrPattern(as_dims("is_shape", shape))


def is_call_packed(name: str, args: Sequence[DFPattern] | None = None) -> CallPattern:
    """A call of a Python function registered under a name; without `args`, with any arguments."""
    if args is None:
        return ExternFuncPattern(name)(varg_default_wildcard=True, add_constraint=False)
    return ExternFuncPattern(name)(*args)


def is_call_dps_packed(name: str, args: Sequence[DFPattern] | None = None) -> AttrPattern:
    """A call of a function that fills arrays which it gets; `is_call_packed` fits these, too."""
    return is_call_packed(name, args).has_attr({DESTINATION_PASSING: True})


def has_dtype(dtype: str, pattern: DFPattern | None = None) -> DataTypePattern:
    """Anything, or what `pattern` fits, of a certain dtype."""
    return DataTypePattern(pattern or wildcard(), dtype_name(dtype))


def has_attr(attrs: Mapping[str, Any], pattern: DFPattern | None = None) -> AttrPattern:
    """Anything, or what `pattern` fits, with certain attributes."""
    return (pattern or wildcard()).has_attr(attrs)


def reject(pattern: DFPattern) -> NotPattern:
    """What `pattern` does not fit."""
    return NotPattern(pattern)


def make_fused_bias_activation_pattern(
    op_name: str,
    with_bias: bool = False,
    activation: str | None = None,
    allow_reshape: bool = False,
) -> CallPattern:
    """An operator of two arguments, a bias added to it if asked for, an activation of that.

    `allow_reshape` means that the bias is reshaped before it is added.
    """
    out = is_op(op_name)(wildcard(), wildcard())
    if with_bias:
        bias: DFPattern = wildcard()
        if allow_reshape:
            bias = is_op("relax.reshape")(bias, wildcard(), varg_default_wildcard=True)
        out = is_op("relax.add")(out, bias)
    return is_op(activation)(out) if activation else out
