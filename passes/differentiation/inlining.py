"""A function with less to look up: its closures spelt out, the symbols of its casts resolved."""

from collections.abc import Iterator, Sequence

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.dim_variables import substitute_dim
from relaxjax.ir.dims import Dim, SymbolicVar
from relaxjax.ir.expr import Call, Expr, Var
from relaxjax.ir.function import Binding, BindingBlock, Function, If, MatchCast, SeqExpr, VarBinding
from relaxjax.ir.infer import unify
from relaxjax.ir.inline import opened
from relaxjax.ir.node import replace
from relaxjax.ir.op import Op
from relaxjax.ir.renew import renew, substitute_symbols
from relaxjax.ir.span import located
from relaxjax.ir.walk import free_vars, nested_bindings, substitute, type_symbols, used_vars

from .reductions import differentiable_reduction

Closures = dict[Expr, Function]


def inline_closures(function: Function) -> Function:
    """`function` with what its closures do instead of their calls, in branches too.

    A closure that calls itself is left alone. Loops, branches and closures that are operators, and
    folds by a closure take the form in which they are differentiated. The blocks of a function that
    changes are joined.
    """
    values = [b.value for b in nested_bindings(function.body)]
    if not any(isinstance(value, Function) or _form(value, {}) is not None for value in values):
        return function
    return replace(function, body=_sequence(function.body, {}))


def _sequence(seq: SeqExpr, closures: Closures) -> SeqExpr:
    bindings = _without_idle_closures(tuple(_bindings(seq, dict(closures))), seq.body)
    return replace(seq, blocks=(BindingBlock(bindings),) if bindings else ())


def _without_idle_closures(bindings: Sequence[Binding], result: Expr) -> tuple[Binding, ...]:
    """Bindings without the closures that nothing uses any more, what they do being inlined.

    Each would hold those inside it twice, idle and inlined, and so on from level to level.
    """
    used, kept = set(used_vars(result)), list[Binding]()
    for binding in reversed(bindings):
        if not isinstance(binding.value, Function) or binding.var in used:
            used.update(used_vars(binding.value))
            kept.append(binding)
    return tuple(reversed(kept))


def _bindings(seq: SeqExpr, closures: Closures) -> Iterator[Binding]:
    for binding in seq.bindings():
        value = binding.value
        with located(binding.span):
            form = _form(value, closures)
        if isinstance(value, Function):
            inner = replace(value, body=_self_contained(value.body, closures))
            if binding.var not in used_vars(value):
                closures[binding.var] = inner
            yield replace(binding, value=inner)
        elif isinstance(value, If):
            true, false = (
                _self_contained(branch, closures)
                for branch in (value.true_branch, value.false_branch)
            )
            yield replace(binding, value=replace(value, true_branch=true, false_branch=false))
        elif isinstance(value, Call) and isinstance(value.op, Var) and value.op in closures:
            body = opened(closures[value.op], value.args)
            # What it calls by itself is in it already; what it is handed may be called there.
            handed = {var for arg in value.args for var in used_vars(arg)}
            done = handed.isdisjoint(closures)
            yield from body.bindings() if done else _bindings(body, closures)
            yield VarBinding(binding.var, body.body, span=binding.span)
        elif isinstance(form, Function):
            closures[binding.var] = form
            yield binding
        elif form is not None:
            yield from _bindings(_spelt_out(binding, form), closures)
        else:
            yield binding


def _self_contained(seq: SeqExpr, closures: Closures) -> SeqExpr:
    """The sequence of a closure or branch, with copies of the closures around it that it needs.

    So what it is differentiated by are tensors, and no functions that depend on some.
    """
    return with_own_closures(_sequence(seq, closures), closures)


def with_own_closures(seq: SeqExpr, closures: Closures) -> SeqExpr:
    """`seq` with copies of the closures that it needs; they need none but their own."""
    needed = [var for var in free_vars(seq) if var in closures]
    if not needed:
        return seq
    copies = {var: renew(closures[var])[0] for var in needed}
    own = {var: Var(var.name, copy.ty) for var, copy in copies.items()}
    first = (VarBinding(own[var], copy) for var, copy in copies.items())
    changed = substitute(seq, own)
    return replace(changed, blocks=(BindingBlock((*first, *changed.bindings())),))


def _form(value: Expr, closures: Closures) -> Expr | None:
    """The form in which an operator of functions is differentiated, if not as it is."""
    if not isinstance(value, Call) or not isinstance(value.op, Op):
        return None
    facts = value.op.facts
    folded = value.args[0] if facts.get("fold") else None
    if isinstance(folded, Var) and folded in closures:
        return differentiable_reduction(value, closures[folded])
    spelt = any(facts.get(fact) for fact in ("loop", "branches", "higher_order"))
    if not spelt or value.op.training_form is None:
        return None
    return value.op.training_form(*value.args, **value.attrs)


def _spelt_out(binding: Binding, value: Expr) -> SeqExpr:
    """The bindings that another value of a variable takes, the variable's own the last."""
    builder = BlockBuilder()
    with builder.scope(), builder.origin(binding.span):
        builder.emit_binding(replace(binding, value=value))
        return builder.sequence(binding.var)


def resolve_casts(seq: SeqExpr) -> SeqExpr:
    """`seq` with the symbols that its casts define replaced by dimensions known before them.

    So what is computed here has a type that can be said outside, where those symbols are unknown.
    """
    outer = {symbol for var in free_vars(seq) for symbol in type_symbols(var.ty)}
    known: dict[SymbolicVar, Dim] = {}
    for binding in seq.bindings():
        if isinstance(binding, MatchCast):
            found: dict[SymbolicVar, Dim] = {}
            unify(binding.ty, binding.value.ty, found)
            for symbol, dim in found.items():
                if symbol not in outer:
                    known.setdefault(symbol, substitute_dim(dim, known))
    resolved = substitute_symbols(seq, known)
    assert isinstance(resolved, SeqExpr)
    return resolved
