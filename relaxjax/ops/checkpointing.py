"""Parts of a program between checkpoint marks, written as calls of Python functions."""

from collections.abc import Callable, Sequence
from typing import Any

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Call, Expr, Tuple, TupleGetItem, Var

from .declare import sugar
from .grad import end_checkpoint, start_checkpoint

# Takes expressions, and gives one or several; a function of the program may stand for it.
Block = Callable[..., Any] | Expr


@sugar("relax.grad.emit_checkpoint")
def emit_checkpoint(func: Block, *args: Any, **kwargs: Any) -> Any:
    """`func(*args, **kwargs)`, of whose values the backward program keeps only the arguments.

    It computes the others again. The marks are emitted where the open builder stands, or the script
    that is read: each variable among the arguments as `<name>_scp`, each result as `<name>_ecp`.
    Several results come as a list.
    """
    given = [_started(arg) for arg in args]
    result = _applied(func, given, {name: _started(arg) for name, arg in kwargs.items()})
    if isinstance(result, list | tuple):
        return [_ended(item) if isinstance(item, Expr) else item for item in result]
    if not isinstance(result, Expr):
        raise TypeError(
            f"what stands between checkpoints must give an expression, or several, but it gives "
            f"{result!r}"
        )
    return _ended(result)


@sugar("relax.grad.emit_checkpoint_sequential")
def emit_checkpoint_sequential(
    functions: Sequence[Block],
    segments: int | Sequence[int],
    input: Expr,
    checkpoint_last: bool = False,
) -> Var:
    """The functions one after the other, in segments of which only the inputs are kept.

    `segments` is their number, or the places where they start. Of the last segment everything is
    kept, unless `checkpoint_last` is set: the backward program begins with it.
    """
    starts = _starts(len(functions), segments)
    value: Any = input
    for start, end in zip(starts, [*starts[1:], len(functions)], strict=True):
        segment = _in_turn(functions[start:end])
        whole = end == len(functions) and not checkpoint_last
        value = segment(value) if whole else emit_checkpoint(segment, value)
    return _bound(value)


def _starts(count: int, segments: int | Sequence[int]) -> list[int]:
    """The place of the first function of each segment."""
    if isinstance(segments, int):
        if not 1 <= segments <= count:
            raise ValueError(
                f"`segments` must be from 1 to {count}, the number of functions, found {segments}"
            )
        return list(range(0, count, count // segments))
    starts = [start for start in segments if start != count]
    if starts[:1] != [0] or starts != sorted(set(starts)) or starts[-1] > count:
        raise ValueError(
            f"`segments` must be the places where segments start, from 0 on and growing, below "
            f"{count}, found {list(segments)}"
        )
    return starts


def _in_turn(functions: Sequence[Block]) -> Callable[[Any], Any]:
    def segment(value: Any) -> Any:
        for function in functions:
            value = _applied(function, [value], {})
        return value

    return segment


def _applied(func: Block, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if not isinstance(func, Expr):
        return func(*args, **kwargs)
    if kwargs:
        raise TypeError(f"`{func}` takes its arguments by position, not by name")
    return Call(func, tuple(args))


def _started(value: Any) -> Any:
    if not isinstance(value, Var | Call | Tuple | TupleGetItem):
        return value
    var = _bound(value)
    return BlockBuilder.current().emit(start_checkpoint(var), f"{var.name}_scp")


def _ended(value: Expr) -> Var:
    var = _bound(value)
    return BlockBuilder.current().emit(end_checkpoint(var), f"{var.name}_ecp")


def _bound(value: Expr) -> Var:
    return value if isinstance(value, Var) else BlockBuilder.current().emit(value)
