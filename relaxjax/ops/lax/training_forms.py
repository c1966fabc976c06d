"""Loops and branches of JAX as those of Relax, which differentiation goes through."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from relaxjax.ir.builder import BlockBuilder, make_function
from relaxjax.ir.expr import Call, Constant, Expr, Tuple, Var
from relaxjax.ir.function import If, SeqExpr
from relaxjax.ir.op import get_op
from relaxjax.ir.types import FuncType, TensorType, TupleType
from relaxjax.ops.platform import platform


def scan_as_relax(
    body: Expr, *args: Expr, length: Any, num_consts: int, num_carry: int, **options: Any
) -> SeqExpr:
    """`lax.scan` as R.scan, whose body uses the constants from around it."""
    consts = args[:num_consts]
    init = Tuple(args[num_consts : num_consts + num_carry])
    xs = Tuple(args[num_consts + num_carry :])
    assert isinstance(body.ty, FuncType)
    assert body.ty.params is not None
    carry = Var("carry", init.ty)
    x = Var("x", TupleType(body.ty.params[num_consts + num_carry :]))
    builder = BlockBuilder()
    with builder.scope(taken=["carry", "x"]):
        with builder.scope():
            done = tuple(builder.emit(Call(body, (*consts, *carry, *x))))
            step = builder.sequence((Tuple(done[:num_carry]), Tuple(done[num_carry:])))
        function = builder.emit(make_function([carry, x], step, ret_ty=step.ty), "step")
        scanned = builder.emit(get_op("relax.scan")(function, init, xs, length, **options))
        results = map(builder.emit, scanned)
        return builder.sequence(Tuple(tuple(field for part in results for field in part)))


def switch_as_relax(index: Expr, *args: Expr) -> SeqExpr:
    """`lax.switch` as branches inside each other; an index beyond the ends counts as the end."""
    branches = [arg for arg in args if isinstance(arg.ty, FuncType)]
    operands = args[len(branches) :]
    builder = BlockBuilder()
    with builder.scope():
        return builder.sequence(_chosen(builder, index, branches, operands))


def branch_of_platform(*args: Expr, platforms: Sequence[tuple[str, ...] | None]) -> Call:
    """`lax.platform_dependent` as the call of the branch for the platform that is lowered for."""
    chosen = place_of(platform(), platforms)
    return Call(args[chosen], args[len(platforms) :])


def place_of(name: str, platforms: Sequence[tuple[str, ...] | None]) -> int:
    """The place of the first of `platforms` that has one of that name; None stands for any."""
    return [names is None or name in names for names in platforms].index(True)


def _chosen(
    builder: BlockBuilder, index: Expr, branches: Sequence[Expr], operands: Sequence[Expr]
) -> Expr:
    *earlier, last = branches
    if not earlier:
        return builder.emit(Call(last, tuple(operands)), "chosen")
    assert isinstance(index.ty, TensorType)
    before = Constant(np.asarray(len(earlier) - 1, index.ty.dtype))
    is_last = builder.emit(get_op("relax.greater")(index, before), "is_last")
    with builder.scope():
        true = builder.sequence(_chosen(builder, index, [last], operands))
    with builder.scope():
        false = builder.sequence(_chosen(builder, index, earlier, operands))
    return builder.emit(If(is_last, true, false), "chosen")
