"""A loop in segments: the backward program keeps the start of each, and computes the rest again."""

import functools
import math
from collections.abc import Callable, Sequence

from relaxjax.ir.builder import BlockBuilder, make_function
from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Expr, ShapeExpr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Function
from relaxjax.ir.tuples import each_tensor
from relaxjax.ir.types import FuncType, TupleType

from .declare import OpError
from .emit import call, dims_of
from .grad import end_checkpoint, start_checkpoint
from .loop_types import stacked

Run = Callable[[Expr], tuple[Expr, Expr]]


def in_segments(body: Expr, init: Expr, xs: Expr, steps: Dim, reverse: bool) -> Expr:
    """A scan as a scan over segments of about sqrt(steps) steps, each between checkpoint marks.

    The steps that are left over make a shorter segment of their own.
    """
    if not isinstance(steps, int):
        raise OpError(f"`checkpoint` needs a number of steps that is known, found {steps}")
    length = math.isqrt(max(steps - 1, 0)) + 1
    count, rest = divmod(steps, length)
    whole = count * length
    builder = BlockBuilder()
    with builder.scope():
        cut = functools.cache(lambda x: builder.emit(call("split", x, [whole], axis=0)))

        def run_whole(carry: Expr) -> tuple[Expr, Expr]:
            first = _each(xs, lambda x: TupleGetItem(cut(x), 0)) if rest else xs
            stacks = _each(first, lambda x: _reshaped(x, (count, length), 1))
            step = builder.emit(_segment(body, length, reverse), "segment")
            done = builder.emit(call("scan", step, carry, stacks, count, reverse))
            ys = _each(TupleGetItem(done, 1), lambda y: _reshaped(y, (whole,), 2))
            return TupleGetItem(done, 0), ys

        def run_rest(carry: Expr) -> tuple[Expr, Expr]:
            last = _each(xs, lambda x: TupleGetItem(cut(x), 1))
            done = _marked(builder, body, carry, last, rest, reverse)
            return TupleGetItem(done, 0), TupleGetItem(done, 1)

        return builder.sequence(
            _in_order([run_whole, run_rest] if rest else [run_whole], init, reverse)
        )


def _in_order(runs: Sequence[Run], carry: Expr, reverse: bool) -> Tuple:
    """The runs one after the other, the last first where it is so asked; their ys joined."""
    stacked: dict[Run, Expr] = {}
    for run in reversed(runs) if reverse else runs:
        carry, stacked[run] = run(carry)
    ys = [stacked[run] for run in runs]
    return Tuple((carry, _joined(ys) if len(ys) > 1 else ys[0]))


def _segment(body: Expr, length: int, reverse: bool) -> Function:
    """The steps of one segment, as the body of a scan over segments."""
    assert isinstance(body.ty, FuncType)
    assert body.ty.params is not None
    carry_type, x_type = body.ty.params
    stacks = each_tensor(x_type, lambda ty: stacked(ty, length))
    carry, xs = Var("carry", carry_type), Var("xs", stacks)
    builder = BlockBuilder()
    with builder.scope(taken=["carry", "xs"]):
        done = _marked(builder, body, carry, xs, length, reverse)
        seq = builder.sequence((TupleGetItem(done, 0), TupleGetItem(done, 1)))
    return make_function([carry, xs], seq, ret_ty=seq.ty)


def _marked(
    builder: BlockBuilder, body: Expr, carry: Expr, xs: Expr, length: int, reverse: bool
) -> Expr:
    """A scan between checkpoint marks."""
    start, stacks = (builder.emit(start_checkpoint(value)) for value in (carry, xs))
    done = builder.emit(call("scan", body, start, stacks, length, reverse))
    return builder.emit(end_checkpoint(done))


def _each(value: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """A tensor changed, or each of those in a tuple."""
    if not isinstance(value.ty, TupleType):
        return change(value)
    count = len(value.ty.fields)
    return Tuple(tuple(_each(TupleGetItem(value, i), change) for i in range(count)))


def _reshaped(x: Expr, leading: tuple[int, ...], instead_of: int) -> Expr:
    """A tensor with other dimensions in the place of its first ones."""
    return call("reshape", x, ShapeExpr((*leading, *dims_of(x)[instead_of:])))


def _joined(parts: Sequence[Expr]) -> Expr:
    """Stacks, or tuples of stacks, joined along their first dimension."""
    first = parts[0]
    if not isinstance(first.ty, TupleType):
        return call("concat", list(parts), axis=0)
    count = len(first.ty.fields)
    fields = ([TupleGetItem(part, i) for part in parts] for i in range(count))
    return Tuple(tuple(map(_joined, fields)))
