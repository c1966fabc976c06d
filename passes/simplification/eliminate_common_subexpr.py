"""Computing the same value once."""

from collections.abc import Callable

from relaxjax.ir.expr import Call, DataflowVar, Expr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Binding, Function, MatchCast, SeqExpr
from relaxjax.ir.infer import is_pure_call
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.op import Op
from relaxjax.ir.walk import map_bindings, map_children, substitute
from relaxjax.passes.base import pass_factory

from .transposed_twins import transposed_twin

Skip = Callable[[Expr], bool]


@pass_factory(opt_level=3, kind="function")
def EliminateCommonSubexpr(
    function: Function, mod: IRModule, call_only: bool = False, fskip: Skip | None = None
) -> Function:
    """Bind a value that is computed twice to its first variable; `f(x, y)` may stand for `f(y, x)`.

    Only pure values count, and only where the first variable is visible. With `call_only` tuples
    and their fields are left alone; `fskip` says of which values nothing is assumed. Of two matrix
    products that are each other's transpose, the second becomes the transpose of the first.

    Before:

        @R.function
        def main(
            x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32")
        ) -> R.Tensor((3,), "float32"):
            a = R.add(x, y)
            b = R.add(y, x)
            c = R.multiply(a, b)
            return c

    After `EliminateCommonSubexpr()`:

        @R.function
        def main(
            x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32")
        ) -> R.Tensor((3,), "float32"):
            a = R.add(x, y)
            b = a
            c = R.multiply(a, a)
            return c
    """
    return replace(function, body=_sequence(function.body, {}, call_only, fskip))


def _sequence(seq: SeqExpr, outer: dict[Expr, Var], call_only: bool, skip: Skip | None) -> SeqExpr:
    seen = dict(outer)
    names: dict[Var, Expr] = {}

    def once(binding: Binding) -> Binding:
        binding = replace(binding, value=nested(substitute(binding.value, names)))
        if isinstance(binding, MatchCast):
            return binding
        key = _key(binding.value, call_only)
        if key is None or (skip is not None and skip(binding.value)):
            return binding
        first = seen.get(key)
        if first is not None and first.ty == binding.var.ty:
            names[binding.var] = first
            return replace(binding, value=first)
        transpose = transposed_twin(binding.value, seen)
        if transpose is not None and transpose.ty == binding.var.ty:
            binding = replace(binding, value=transpose)
        seen[key] = binding.var
        return binding

    def nested(value: Expr) -> Expr:
        if isinstance(value, SeqExpr):
            return _sequence(value, seen, call_only, skip)
        return map_children(value, nested)

    blocks = []
    for block in seq.blocks:
        changed = map_bindings(SeqExpr((block,), seq.body), once).blocks[0]
        blocks.append(changed)
        _forget_hidden(seen, names)
    same = all(a is b for a, b in zip(blocks, seq.blocks, strict=True))
    return seq if same else replace(seq, blocks=tuple(blocks), body=substitute(seq.body, names))


def _forget_hidden(seen: dict[Expr, Var], names: dict[Var, Expr]) -> None:
    """What only a block that has ended could see stands for nothing any more."""
    for key in [key for key, var in seen.items() if isinstance(var, DataflowVar)]:
        del seen[key]
    for var in [var for var, first in names.items() if isinstance(first, DataflowVar)]:
        del names[var]


def _key(value: Expr, call_only: bool) -> Expr | None:
    """What two values must share to be the same, None for a value that is not to be merged."""
    match value:
        case Call() if is_pure_call(value):
            if isinstance(value.op, Op) and value.op.facts.get("commutative"):
                return replace(value, args=tuple(sorted(value.args, key=hash)))
            return value
        case Tuple() | TupleGetItem():
            return None if call_only else value
        case _:
            return None
