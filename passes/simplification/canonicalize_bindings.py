"""Removing bindings that only give another name to a value that has one."""

from collections import Counter
from typing import TypeAlias

from relaxjax.ir.blocks import tidy_blocks
from relaxjax.ir.dims import Dim, SymbolicVar
from relaxjax.ir.expr import Constant, DataflowVar, Expr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import (
    Binding,
    BindingBlock,
    DataflowBlock,
    Function,
    MatchCast,
    SeqExpr,
    VarBinding,
)
from relaxjax.ir.infer import unify
from relaxjax.ir.lattice import Fit, fits
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.renew import hide_unused_outputs, substitute_symbols
from relaxjax.ir.scoped import Scoped
from relaxjax.ir.types import ShapeType
from relaxjax.ir.walk import (
    definable_symbols,
    is_call_of_leaves,
    kept,
    map_children,
    nested_bindings,
    substitute,
    substitute_type,
    used_vars,
    uses_any,
)
from relaxjax.passes.infrastructure.base import pass_factory

# What names stand for, and which tuples variables hold; an inner sequence adds its own.
Names: TypeAlias = Scoped[Var, Expr]
Tuples: TypeAlias = Scoped[Var, Tuple]


@pass_factory(opt_level=1, kind="function")
def CanonicalizeBindings(function: Function, mod: IRModule) -> Function:
    """Use values under their first name: aliases go, and fields of known tuples are used directly.

    An output of a dataflow block that is an alias of one of its variables takes that one's place,
    and an output that nothing behind the block uses is seen by the block alone. Dimensions that a
    `match_cast` defines are those of its value, as far as these are known.
    """
    return hide_unused_outputs(canonical_bindings(_with_known_casts(function)))


def canonical_bindings(function: Function) -> Function:
    """`function` without aliases, in branches and closures too."""
    return replace(function, body=_sequence(function.body, Scoped(), Scoped()))


def _with_known_casts(function: Function) -> Function:
    """`function` with the dimensions of values in the place of those that casts of them define."""
    casts = [b for b in nested_bindings(function) if isinstance(b, MatchCast)]
    if not casts:
        return function
    params = {*function.params, *(p for f in _closures(function) for p in f.params)}
    told = Counter(
        symbol
        for ty in (*(param.ty for param in params), *(cast.ty for cast in casts))
        for symbol in set(definable_symbols(ty))
    )
    known: dict[SymbolicVar, Dim] = {}
    for cast in casts:
        found: dict[SymbolicVar, Dim] = {}
        value_type = cast.value.ty and substitute_type(cast.value.ty, known)
        unify(cast.ty, value_type, found)
        if fits(value_type, substitute_type(cast.ty, found)) is not Fit.NEVER:
            known |= {symbol: dim for symbol, dim in found.items() if told[symbol] == 1}
    changed = substitute_symbols(function, known)
    assert isinstance(changed, Function)
    return changed


def _closures(function: Function) -> list[Function]:
    """The functions within a function."""
    values = (binding.value for binding in nested_bindings(function))
    return [value for value in values if isinstance(value, Function)]


def _sequence(seq: SeqExpr, names: Names, tuples: Tuples) -> SeqExpr:
    """One pass over a sequence: what a name stands for is put in its place from there on."""
    names, tuples = names.new_child(), tuples.new_child()
    blocks = []
    for block in seq.blocks:
        plain = _without_aliases(block, names, tuples)
        while (promoted := _with_promoted_outputs(plain)) is not plain:
            plain = _without_aliases(promoted, names, tuples)
        tuples |= {b.var: _visible(b) for b in plain.bindings if isinstance(b.value, Tuple)}
        blocks.append(plain)
    tidy = kept(seq.blocks, tidy_blocks(tuple(blocks)))
    return replace(seq, blocks=tidy, body=substitute(seq.body, names))


def _without_aliases(block: BindingBlock, names: Names, tuples: Tuples) -> BindingBlock:
    """A block with `names` put in their places, and those that it gives itself; tuples are known.

    An output that is another name of what only the block sees stays.
    """
    bindings: list[Binding] = []
    for binding in block.bindings:
        changed = replace(binding, value=_value(binding.value, names, tuples))
        alias = _alias(changed, tuples)
        if alias is not None and not (_is_output(changed, block) and _is_hidden(alias)):
            names[changed.var] = alias
            continue
        if alias is not None and isinstance(changed, VarBinding):
            changed = replace(changed, value=alias)
        bindings.append(changed)
        if isinstance(changed.value, Tuple):
            tuples[changed.var] = changed.value
    return replace(block, bindings=kept(block.bindings, bindings))


def _visible(binding: Binding) -> Tuple:
    """A tuple as what comes after its block knows it: fields that are hidden are taken from it."""
    assert isinstance(binding.value, Tuple)
    fields = tuple(
        TupleGetItem(binding.var, index) if _is_hidden(field) else field
        for index, field in enumerate(binding.value.fields)
    )
    return Tuple(fields)


def _value(value: Expr, names: Names, tuples: Tuples) -> Expr:
    """`value` with what names stand for in their place, the sequences inside it canonical too."""
    if isinstance(value, Var):
        known = names.find(value)
        return value if known is None else known
    if is_call_of_leaves(value) and not uses_any(value, names):
        return value
    if isinstance(value, SeqExpr):
        return _sequence(value, names, tuples)
    return map_children(value, lambda child: _value(child, names, tuples))


def _alias(binding: Binding, tuples: Tuples) -> Expr | None:
    """What the variable of a binding is another name for, None where it is a value of its own.

    Shapes keep all their names: types may be written with them. So do values whose own type does
    not prove the declared one, which is checked where the program runs.
    """
    if isinstance(binding.var.ty, ShapeType):
        return None
    if isinstance(binding, VarBinding) and fits(binding.value.ty, binding.var.ty) is Fit.MAYBE:
        return None
    if isinstance(binding, MatchCast):
        same = binding.ty == binding.value.ty
        return binding.value if same and isinstance(binding.value, Var) else None
    match binding.value:
        case Var() | Constant() as value:
            return value
        case TupleGetItem(tuple_value=Tuple(fields=fields), index=index):
            return fields[index] if isinstance(fields[index], Var | Constant | Tuple) else None
        case TupleGetItem(tuple_value=Var() as var, index=index) if var in tuples:
            field = tuples[var].fields[index]
            return field if isinstance(field, Var | Constant | Tuple) else None
        case _:
            return None


def _is_output(binding: Binding, block: BindingBlock) -> bool:
    return isinstance(block, DataflowBlock) and not isinstance(binding.var, DataflowVar)


def _is_hidden(alias: Expr) -> bool:
    return any(isinstance(var, DataflowVar) for var in used_vars(alias))


def _with_promoted_outputs(block: BindingBlock) -> BindingBlock:
    """A dataflow block whose outputs bind their values themselves, not by a hidden variable."""
    if not isinstance(block, DataflowBlock):
        return block
    hidden = {
        b.var
        for b in block.bindings
        if isinstance(b.var, DataflowVar) and not isinstance(b.var.ty, ShapeType)
    }
    outputs: dict[Var, Expr] = {}
    for binding in block.bindings:
        source = binding.value
        if (
            isinstance(binding, VarBinding)
            and not isinstance(binding.var, DataflowVar)
            and isinstance(source, DataflowVar)
            and source in hidden
            and source not in outputs
            and source.ty == binding.var.ty
        ):
            outputs[source] = binding.var
    if not outputs:
        return block
    taken = set(outputs.values())
    bindings = []
    for binding in block.bindings:
        if binding.var in taken:
            continue
        var = outputs.get(binding.var, binding.var)
        assert isinstance(var, Var)
        bindings.append(replace(binding, var=var, value=substitute(binding.value, outputs)))
    return replace(block, bindings=tuple(bindings))
