"""Functions that give the gradients of tables as rows and places, and not as whole tensors."""

from collections.abc import Collection, Mapping

from relaxjax.ir.builder import Names, make_function
from relaxjax.ir.expr import Call, Expr, Tuple, Var
from relaxjax.ir.function import Binding, BindingBlock, Function, SeqExpr
from relaxjax.ir.node import replace
from relaxjax.ir.op import Op
from relaxjax.ir.uses import Uses
from relaxjax.ir.walk import all_vars
from relaxjax.passes.simplification.apply_laws import rewritten
from relaxjax.passes.simplification.canonicalize_bindings import canonical_bindings

from .row_laws import ROW_LAWS, ROWS


def with_rows_apart(adjoint: Function) -> Function:
    """An adjoint that gives all those gradients that are rows as pairs of values and places."""
    written, found = rows_given_back(adjoint)
    return with_parts(written, found) if found else adjoint


def rows_given_back(function: Function) -> tuple[Function, dict[int, Call]]:
    """The adjoint with its gradients as rows where they are, and which of them, by their numbers.

    Only those count that nothing else uses. Where there are none it is the very function.
    """
    # Canonical where no law applies, too: what a loop gives is rows already, by another name.
    written = canonical_bindings(rewritten(function, ROW_LAWS))
    known = Uses.of(written)
    bound = {b.var for block in written.body.blocks for b in block.bindings}
    calls = {
        index: call
        for index, var in enumerate(_gradients(written))
        if isinstance(var, Var) and var in bound and known.used_once(var)
        for call in [known.value(var)]
        if isinstance(call, Call) and isinstance(call.op, Op) and call.op.name == ROWS
    }
    return (written, calls) if calls else (function, {})


def with_parts(function: Function, numbers: Collection[int]) -> Function:
    """An adjoint that gives some gradients, which are rows, as pairs of values and places."""
    gradients = list(_gradients(function))
    names = Names([var.name for var in all_vars(function)])
    parts: dict[Var, Tuple] = {}
    for index in numbers:
        var = gradients[index]
        assert isinstance(var, Var)
        found = _value_of(function, var).args[:2]
        pair = [
            Var(names.unique(f"{var.name}_{part}"), value.ty)
            for part, value in zip(("values", "places"), found, strict=True)
        ]
        parts[var] = Tuple(tuple(pair))
        gradients[index] = parts[var]
    blocks = tuple(_block_with_parts(block, parts) for block in function.body.blocks)
    result = function.body.body
    assert isinstance(result, Tuple)
    body = SeqExpr(blocks, Tuple((result.fields[0], Tuple(tuple(gradients)))))
    given = make_function(
        function.params, body, pure=function.pure, attrs=function.attrs, span=function.span
    )
    return canonical_bindings(given)


def _gradients(function: Function) -> tuple[Expr, ...]:
    result = function.body.body
    assert isinstance(result, Tuple)
    assert isinstance(result.fields[1], Tuple)
    return result.fields[1].fields


def _value_of(function: Function, var: Var) -> Call:
    found = Uses.of(function).value(var)
    assert isinstance(found, Call)
    return found


def _block_with_parts(block: BindingBlock, parts: Mapping[Var, Tuple]) -> BindingBlock:
    bindings: list[Binding] = []
    for binding in block.bindings:
        pair = parts.get(binding.var)
        if pair is None:
            bindings.append(binding)
            continue
        assert isinstance(binding.value, Call)
        for var, value in zip(pair.fields, binding.value.args, strict=False):
            assert isinstance(var, Var)
            bindings.append(replace(binding, var=var, value=value))
    return replace(block, bindings=tuple(bindings))
