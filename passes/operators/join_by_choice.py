"""Tensors side by side as a choice by the place, which is computed inside of what reads it."""

import math
from collections.abc import Sequence

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expand import expand_bindings
from relaxjax.ir.expr import Call, Expr, TupleGetItem, Var
from relaxjax.ir.function import Binding, Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import Op, get_op, operator_name
from relaxjax.ir.tensor_types import known_dtype, static_dims
from relaxjax.ir.uses import Uses
from relaxjax.ops.platform import chosen_platform
from relaxjax.passes.infrastructure.base import pass_factory

# A number of each tensor is read for each of the result.
_FEW = 3
# With fewer numbers in a tensor, it takes as long in either form. XLA does not store what has fewer
# in a row, and a Llama's rotary positions, 8 in a row, take 1.04 of the CPU time by a choice.
_MANY, _ROW = 2**12, 16
# XLA computes numbers of 16 bits in float32, and takes up to 1.4 of the time.
_DTYPES = frozenset({"float32", "float64", "int32"})
_INSIDE = frozenset({"elementwise", "broadcast", "injective"})
# What costs no more than to read it: moved numbers, and few operations of these.
_CHEAP = frozenset({"broadcast", "injective"})
_FEW_OPERATIONS = frozenset({"lax.max", "lax.neg"})
_PRODUCTS = frozenset({"lax.conv_general_dilated", "lax.dot_general"})
_VIEWS = frozenset({"lax.reshape", "lax.transpose", "relax.grad.delay"})


@pass_factory(opt_level=0, kind="function")
def JoinByChoice(function: Function, mod: IRModule) -> Function:
    """Choose each number of joined tensors by its place, instead of joining them.

    XLA's compiler for CPUs stores what is joined along the last axis, and each part of it, where a
    part is more than a few numbers in a row: from 64 of them with JAX 0.10, from fewer with 0.12.
    A choice it computes inside of what reads it, and the parts inside of the choice. Two or three
    tensors of one shape are chosen from, with 16 numbers or more in a row, where products and
    convolutions alone read them: other operations would compute the choice each anew.

    One of them is to be moved or negated, or a ReLU: what is stored in any case is copied as fast.
    None is to be computed from what is joined itself, or each of the layers of a normalizing flow
    would compute all before it anew. The function is to be legalised, and for other platforms it
    stays as it is.
    """
    if chosen_platform() != "cpu":
        return function
    known = Uses.of(function)

    def rule(binding: Binding, builder: BlockBuilder) -> Expr | None:
        call = binding.value
        if not isinstance(call, Call) or not _is_worth_it(call, known):
            return None
        if not _is_for_products(binding.var, known):
            return None
        dims, name = static_dims(call.args[0].ty), binding.var.name
        assert dims is not None
        axis, count = len(dims) - 1, len(call.args)
        whole = [*dims[:-1], count, dims[-1]]

        def spread(x: Expr, axes: list[int], kind: str) -> Expr:
            over = get_op("lax.broadcast_in_dim")(x, shape=whole, broadcast_dimensions=axes)
            return builder.emit(over, f"{name}_{kind}")

        numbers = get_op("lax.iota")(dtype="int32", shape=[count], dimension=0)
        number = spread(builder.emit(numbers, f"{name}_numbers"), [axis], "number")
        parts = [spread(part, [*range(axis), axis + 1], "part") for part in call.args]
        chosen = builder.emit(get_op("lax.select_n")(number, *parts), f"{name}_chosen")
        return get_op("lax.reshape")(chosen, new_sizes=[*dims[:-1], count * dims[-1]])

    return expand_bindings(function, rule)


def _is_worth_it(call: Call, known: Uses) -> bool:
    """Whether a few tensors of one shape are joined along the last axis, one of them moved."""
    if operator_name(call) != "lax.concatenate" or not 1 < len(call.args) <= _FEW:
        return False
    shapes = {static_dims(part.ty) for part in call.args}
    dims = shapes.pop()
    if shapes or dims is None or call.attrs["dimension"] != len(dims) - 1:
        return False
    is_large = dims[-1] >= _ROW and math.prod(dims) >= _MANY
    is_wide = known_dtype(call) in _DTYPES
    if not (is_large and is_wide and any(_is_moved(part, known) for part in call.args)):
        return False
    return not _are_of_joined(call.args, known)


def _is_for_products(joined: Var, known: Uses) -> bool:
    """Whether products and convolutions alone read what is joined, which they have stored."""
    waiting = [joined]
    while waiting:
        var = waiting.pop()
        users = known.users.get(var, {})
        if known.counts.get(var, 0) != sum(users.values()):
            return False  # it is a result
        for user in users:
            name = operator_name(known.value(user))
            if name in _VIEWS:
                waiting.append(user)
            elif name not in _PRODUCTS:
                return False
    return True


def _is_moved(part: Expr, known: Uses) -> bool:
    """Whether a tensor is computed inside of what reads it, and costs no more than to read it."""
    _, op = _computing(part, known)
    return op is not None and (op.fusion in _CHEAP or op.name in _FEW_OPERATIONS)


def _are_of_joined(parts: Sequence[Expr], known: Uses) -> bool:
    """Whether what is joined is computed inside of some tensor."""
    seen, waiting = set[Var](), [*parts]
    while waiting:
        call, op = _computing(waiting.pop(), known)
        if call is None or op is None:
            continue
        if op.name == "lax.concatenate":
            return True
        if op.fusion in _INSIDE:
            more = {arg for arg in call.args if isinstance(arg, Var)} - seen
            waiting += more
            seen |= more
    return False


def _computing(part: Expr, known: Uses) -> tuple[Call, Op] | tuple[None, None]:
    """The operator that gives a tensor, by itself or among several, and its call."""
    value = known.value(part)
    call = known.call(value.tuple_value if isinstance(value, TupleGetItem) else part)
    return (call, call.op) if call is not None and isinstance(call.op, Op) else (None, None)
