"""Results that a program hands over as they come."""

import itertools
from collections.abc import Mapping, Sequence

from relaxjax.ir.blocks import tidy_blocks
from relaxjax.ir.builder import Names
from relaxjax.ir.dataflow import without_dataflow
from relaxjax.ir.expr import Call, Expr, PrimExpr, Tuple, Var
from relaxjax.ir.function import Binding, BindingBlock, Function, SeqExpr, VarBinding
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.tuples import fields_or_self
from relaxjax.ir.walk import all_vars
from relaxjax.passes.infrastructure.base import pass_factory

from .new_signatures import NOTHING, number_taker, with_new_signatures


@pass_factory(opt_level=0)
def LazySetOutput(mod: IRModule) -> IRModule:
    """Let public functions hand over each result once it is computed, and return an empty tuple.

    They take a function `fset_output(number, value)` behind their first `num_input` parameters, or
    behind all where a function has no such attribute. A dataflow block that computes a result
    becomes an ordinary one, since a call that has effects may not stand in it.
    """
    return with_new_signatures(mod, "LazySetOutput", _handing_over)


def _handing_over(function: Function) -> Function:
    results = _results(function)
    function = without_dataflow(
        function, lambda block: any(binding.var in results for binding in block.bindings)
    )
    setter = number_taker(
        Names([v.name for v in all_vars(function)]).unique("fset_output"), NOTHING
    )
    count = function.attrs.get("num_input")
    place = len(function.params) if count is None else int(count)
    params = (*function.params[:place], setter, *function.params[place:])
    attrs = function.attrs.without("relax.force_pure")  # what it would call pure now has an effect
    attrs = attrs if count is None else attrs.updated(num_input=place + 1)
    body = _sequence(function.body, function.params, results, setter)
    return replace(
        function, params=params, body=body, ret_ty=NOTHING, pure=False, attrs=attrs, ty=None
    )


def _results(function: Function) -> dict[Expr, list[int]]:
    """What is returned, each with its numbers."""
    result = function.body.body
    found: dict[Expr, list[int]] = {}
    for number, value in enumerate(fields_or_self(result)):
        found.setdefault(value, []).append(number)
    return found


def _sequence(
    body: SeqExpr, params: Sequence[Var], results: Mapping[Expr, list[int]], setter: Var
) -> SeqExpr:
    """The body with a call for each result right behind what binds it."""

    def calls(value: Expr) -> list[Binding]:
        called = (Call(setter, (PrimExpr(n, "int64"), value)) for n in results.get(value, ()))
        return [VarBinding(Var("_", NOTHING), replace(call, ty=NOTHING)) for call in called]

    blocks = [BindingBlock(tuple(new for param in params for new in calls(param)))]
    for block in body.blocks:
        bindings = [[binding, *calls(binding.var)] for binding in block.bindings]
        blocks.append(replace(block, bindings=tuple(itertools.chain(*bindings))))
    bound = {*params, *(binding.var for binding in body.bindings())}
    others = [new for value in results if value not in bound for new in calls(value)]
    blocks.append(BindingBlock(tuple(others)))
    return SeqExpr(tidy_blocks(tuple(blocks)), Tuple(()), span=body.span)
