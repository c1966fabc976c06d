"""Loops, branches and folds of JAX: operators whose first arguments are Relax functions.

A function that is such an argument takes all it needs as parameters, and returns a tuple; the
condition of a loop returns a scalar. The results of the operators are tuples.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeAlias

import jax
from jax import lax

from relaxjax.ir.expr import Call
from relaxjax.ir.op import Op
from relaxjax.ir.types import FuncType, TensorType, TupleType, Type
from relaxjax.ops import plain_jax
from relaxjax.ops.declare import OpError

from .operator import declare
from .training_forms import branch_of_platform, scan_as_relax, switch_as_relax

Arrays: TypeAlias = tuple[Any, ...]
Body: TypeAlias = Callable[..., Arrays]


def while_lowering(
    cond: Callable[..., Any], body: Body, *args: Any, cond_consts: int, body_consts: int
) -> Arrays:
    """`body(*consts, *carry) -> carry`, as long as `cond(*consts, *carry)` holds.

    A condition of some leading dimensions, as mapping over a loop gives it, holds for each element
    by itself: what is done with one stays as it is.
    """
    for_cond, _, carry = split(args, cond_consts, body_consts)
    is_one = jax.eval_shape(cond, *for_cond, *carry).ndim == 0
    loop = plain_jax.while_loop if is_one else plain_jax.while_any
    return loop(cond, body, *args, cond_consts=cond_consts, body_consts=body_consts)


def switch_lowering(index: Any, *args: Any) -> Arrays:
    """The branch that `index` counts to, called on the operands behind the branches."""
    branches, operands = _branches(args)
    chosen: Arrays = lax.switch(index, branches, *operands)
    return chosen


def platform_lowering(*args: Any, platforms: Sequence[tuple[str, ...] | None]) -> Arrays:
    """The branch for the platform that the program is compiled for; None stands for all others."""
    branches, operands = _branches(args)
    named: dict[str, Body] = {}
    for names, branch in zip(platforms, branches, strict=True):
        named |= dict.fromkeys(names or ("default",), branch)
    chosen: Arrays = lax.platform_dependent(*operands, **named)
    return chosen


def reduce_lowering(combine: Body, *args: Any, dimensions: Sequence[int]) -> Arrays:
    """The first half of the arguments folded into the second, all of them together."""
    operands, starts = split(args, len(args) // 2)

    def folded(left: Arrays, right: Arrays) -> Arrays:
        return tuple(combine(*left, *right))

    return tuple(lax.reduce(operands, starts, folded, dimensions))


def split(values: Sequence[Any], *counts: int) -> Iterator[Arrays]:
    """`values` in parts of the given lengths, and the rest."""
    items = iter(values)
    for count in counts:
        yield tuple(islice(items, count))
    yield tuple(items)


def _branches(args: Arrays) -> tuple[list[Body], Arrays]:
    count = sum(map(callable, args))
    return list(args[:count]), args[count:]


def _function_type(call: Call, index: int) -> FuncType:
    """The type of an argument that must be a function."""
    assert isinstance(call.op, Op)
    if index >= len(call.args):
        raise OpError(f"{call.op.name}: argument {index + 1} must be a function, but it is missing")
    ty = call.args[index].ty
    if not isinstance(ty, FuncType):
        raise OpError(
            f"{call.op.name}: argument {index + 1} must be a function, "
            f"but `{call.args[index]}` is of type {ty}"
        )
    return ty


def _scan_type(call: Call) -> Type:
    ret = _function_type(call, 0).ret
    if not isinstance(ret, TupleType):
        raise OpError(f"lax.scan: the body must return a tuple, but it returns {ret}")
    carry, ys = ret.fields[: call.attrs["num_carry"]], ret.fields[call.attrs["num_carry"] :]
    return TupleType((*carry, *(_stacked(ty, call.attrs["length"]) for ty in ys)))


def _reduced_type(call: Call) -> Type:
    _function_type(call, 0)
    operands, _ = split(call.args[1:], len(call.args) // 2)
    return TupleType(tuple(_without(x.ty, call.attrs["dimensions"]) for x in operands))


def _without(ty: Type | None, axes: Sequence[int]) -> Type:
    assert isinstance(ty, TensorType), f"tensors are folded, not {ty}"
    if ty.dims is None:
        return TensorType(None, ty.dtype, ty.ndim - len(axes) if ty.ndim >= 0 else -1)
    kept = [dim for axis, dim in enumerate(ty.dims) if axis not in axes]
    return TensorType(kept, ty.dtype)


def _stacked(ty: Type, length: Any) -> Type:
    assert isinstance(ty, TensorType), f"a loop makes tensors, not {ty}"
    if ty.dims is None:
        return TensorType(None, ty.dtype, ty.ndim + 1 if ty.ndim >= 0 else -1)
    return TensorType((length, *ty.dims), ty.dtype)


scan = declare(
    "scan",
    "A loop over the leading dimension: body(*consts, *carry, *x) -> (*carry, *y).",
    _scan_type,
    plain_jax.scan,
    training_form=scan_as_relax,
    facts={"loop": True},
)

while_loop = declare(
    "while_loop",
    "A loop: body(*consts, *carry) -> carry, as long as cond(*consts, *carry) holds.",
    lambda call: _function_type(call, 1).ret,
    while_lowering,
    facts={
        "instead": "how many steps it takes is known only where it runs; write jax.lax.scan, "
        "jax.lax.fori_loop between fixed bounds, or R.while_loop with a bound; in PyTorch, `scan`, "
        "or a test `i < n` of a count that starts as a number"
    },
)

switch = declare(
    "switch",
    "switch(index, *branches, *operands): the branch that the index counts to.",
    lambda call: _function_type(call, 1).ret,
    switch_lowering,
    training_form=switch_as_relax,
    facts={"branches": True},
)

platform_dependent = declare(
    "platform_dependent",
    "platform_dependent(*branches, *operands): the branch for the platform compiled for.",
    lambda call: _function_type(call, 0).ret,
    platform_lowering,
    training_form=branch_of_platform,
    facts={"branches": True},
)

reduce = declare(
    "reduce",
    "reduce(combine, *operands, *starts): tensors folded over dimensions, all of them together.",
    _reduced_type,
    reduce_lowering,
    facts={"fold": True},
)
