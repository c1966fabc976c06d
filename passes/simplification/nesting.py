"""Values where they are used, instead of variables that are used once."""

from collections.abc import Iterator, Mapping

from relaxjax.ir.blocks import tidy_blocks
from relaxjax.ir.dataflow import without_dataflow
from relaxjax.ir.expr import Call, Constant, Expr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Binding, Function, SeqExpr, VarBinding
from relaxjax.ir.infer import is_pure_call
from relaxjax.ir.node import replace
from relaxjax.ir.uses import count_uses
from relaxjax.ir.walk import children, map_bindings, map_children

# Values are put into one another so deep at most: Python reads no text that nests much deeper.
MOST_NESTED = 50


def nested_values(function: Function) -> Function:
    """`function` with each pure value that is used once, in its own sequence, put where it is used.

    They nest no more than `MOST_NESTED` deep. Dataflow blocks end, for what is nested may have been
    visible in one of them only. Where nothing is to be nested the result is the very function.
    """
    plain = without_dataflow(function)
    nested = replace(plain, body=_sequence(plain.body, count_uses(plain)))
    return function if nested is plain else nested


def _sequence(seq: SeqExpr, counts: Mapping[Var, int]) -> SeqExpr:
    here = {var for expr in (*_values(seq), seq.body) for var in _direct(expr)}
    values: dict[Var, Expr] = {}
    depths: dict[Var, int] = {}  # of what is nested in them

    def nest(binding: Binding) -> Binding | None:
        value = _expr(binding.value, values, counts)
        depth = 1 + max((depths.get(var, 0) for var in _direct(binding.value)), default=0)
        once = counts.get(binding.var) == 1 and binding.var in here and depth < MOST_NESTED
        if isinstance(binding, VarBinding) and (_is_leaf(value) or (once and _can_move(value))):
            values[binding.var] = value
            depths[binding.var] = depth
            return None
        return replace(binding, value=value)

    changed = map_bindings(seq, nest)
    body = _expr(seq.body, values, counts)
    blocks = seq.blocks if changed is seq else tidy_blocks(changed.blocks)
    return replace(changed, blocks=blocks, body=body)


def _values(seq: SeqExpr) -> Iterator[Expr]:
    """The values into which others may be nested: a cast takes a variable."""
    return (binding.value for binding in seq.bindings() if isinstance(binding, VarBinding))


def _direct(expr: Expr) -> Iterator[Var]:
    """The variables that an expression uses outside of the sequences in it."""
    if isinstance(expr, Var):
        yield expr
    elif not isinstance(expr, SeqExpr):
        for child in children(expr):
            yield from _direct(child)


def _expr(expr: Expr, values: Mapping[Var, Expr], counts: Mapping[Var, int]) -> Expr:
    if isinstance(expr, Var):
        return values.get(expr, expr)
    if isinstance(expr, SeqExpr):
        return _sequence(_with_leaves(expr, values), counts)
    return map_children(expr, lambda child: _expr(child, values, counts))


def _with_leaves(seq: SeqExpr, values: Mapping[Var, Expr]) -> SeqExpr:
    """An inner sequence in terms of what stands for the aliases around it."""

    def rename(expr: Expr) -> Expr:
        if isinstance(expr, Var):
            return values.get(expr, expr)
        return map_children(expr, rename)

    renamed = rename(seq)
    assert isinstance(renamed, SeqExpr)
    return renamed


def _is_leaf(value: Expr) -> bool:
    return isinstance(value, Var | Constant)


def _can_move(value: Expr) -> bool:
    """Whether a value is the same wherever it is computed."""
    return (
        is_pure_call(value) if isinstance(value, Call) else isinstance(value, Tuple | TupleGetItem)
    )
