"""Weights that a program asks for one by one."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from relaxjax.ir.blocks import tidy_blocks
from relaxjax.ir.builder import Names
from relaxjax.ir.dims import SymbolicVar
from relaxjax.ir.expr import Call, DataflowVar, Expr, PrimExpr, StringImm, Var
from relaxjax.ir.function import (
    Binding,
    BindingBlock,
    DataflowBlock,
    Function,
    If,
    MatchCast,
    SeqExpr,
    VarBinding,
)
from relaxjax.ir.infer import said_outside
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.types import ObjectType
from relaxjax.ir.walk import (
    all_vars,
    bound_vars,
    definable_symbols,
    expr_symbols,
    free_vars,
    substitute,
    type_symbols,
    type_vars,
)
from relaxjax.passes.infrastructure.base import pass_factory

from .new_signatures import number_taker, with_new_signatures


@pass_factory(opt_level=0)
def LazyGetInput(mod: IRModule) -> IRModule:
    """Let public functions ask for their weights, one by one, where they first use them.

    The weights are the parameters behind the first `num_input` ones, and all parameters where a
    function has no such attribute. In their place it takes a function `fget_param(number, name)`,
    which gives the weight of that number. One that is loaded in a dataflow block or in a branch is
    loaded again where it is used outside.
    """
    return with_new_signatures(mod, "LazyGetInput", _asking)


def _asking(function: Function) -> Function:
    count = int(function.attrs.get("num_input", 0))
    inputs, weights = function.params[:count], function.params[count:]
    names = Names([var.name for var in all_vars(function) if var not in weights])
    getter = number_taker(names.unique("fget_param"), ObjectType())
    told = {symbol for param in inputs for symbol in definable_symbols(param.ty)}
    seen = _Seen(_Weights(getter, weights, names), {}, told)
    first = _named_by_types(function, seen)
    body, params = _sequence(function.body, seen), (*inputs, getter)
    body = replace(body, blocks=tidy_blocks((BindingBlock(tuple(first)), *body.blocks)))
    ret = said_outside(function.ret_ty, body, params)
    changed = replace(function, params=params, body=body, ret_ty=ret, ty=None)
    return changed.with_attr("num_input", count + 1)


def _named_by_types(function: Function, seen: "_Seen") -> list[Binding]:
    """Load the weights that types name, which are shapes, first: each stays the same variable."""
    named = {var for bound in bound_vars(function.body) for var in type_vars(bound.ty)}
    bindings = seen.loads(named, (), Var)
    own = {seen.loaded[weight]: weight for weight in seen.loaded}
    seen.loaded.update((weight, weight) for weight in own.values())
    return [replace(b, var=own[b.var]) if b.var in own else b for b in bindings]


@dataclass
class _Weights:
    """What is asked for, by whom, and the names that are taken."""

    getter: Var
    weights: tuple[Var, ...]
    names: Names

    def load(self, weight: Var, kind: type[Var]) -> tuple[Binding, Binding]:
        """The call that gives a weight, and the cast to its type."""
        number = PrimExpr(self.weights.index(weight), "int64")
        call = Call(self.getter, (number, StringImm(weight.name)), ty=ObjectType())
        untyped = kind(self.names.unique(f"{weight.name}_untyped"), ObjectType())
        var = kind(self.names.unique(weight.name), weight.ty, span=weight.span)
        assert weight.ty is not None
        return VarBinding(untyped, call), MatchCast(var, untyped, weight.ty)


@dataclass
class _Seen:
    """What is known at a place: the variables of loaded weights, and the sizes."""

    source: _Weights
    loaded: dict[Var, Expr]
    sizes: set[SymbolicVar]

    def inside(self, branch: bool = True) -> "_Seen":
        """A place of its own, whose loads are not seen outside; sizes are, but for a branch's."""
        return _Seen(self.source, dict(self.loaded), set(self.sizes) if branch else self.sizes)

    def loads(
        self, used: Collection[Var], sizes: Collection[SymbolicVar], kind: type[Var]
    ) -> list[Binding]:
        """Load the weights that are used, and those that tell the sizes that are."""
        missing = [var for var in self.source.weights if var in used and var not in self.loaded]
        new: list[Binding] = []
        for weight in self._in_order(missing, sizes):
            new += self.source.load(weight, kind)
            self.loaded[weight] = new[-1].var
        return new

    def _in_order(self, wanted: Sequence[Var], sizes: Collection[SymbolicVar]) -> list[Var]:
        """The wanted weights and those that tell sizes, each behind those whose sizes it needs."""
        found: list[Var] = []

        def tell(symbols: Iterable[SymbolicVar], before: tuple[Var, ...] = ()) -> None:
            for symbol in symbols:
                tellers = [w for w in self.source.weights if symbol in definable_symbols(w.ty)]
                if symbol not in self.sizes and tellers:
                    add(tellers[0], before)

        def add(weight: Var, before: tuple[Var, ...] = ()) -> None:
            if weight in before:
                raise ValueError(
                    f"the weights {', '.join(f'`{var.name}`' for var in before)} tell the sizes "
                    "of one another, so none can be loaded first: let one be an input"
                )
            own = definable_symbols(weight.ty)
            tell((s for s in type_symbols(weight.ty) if s not in own), (*before, weight))
            found.append(weight)
            self.sizes.update(own)

        for weight in wanted:
            if weight not in found:
                add(weight)
        tell(sizes)
        return found


def _sequence(seq: SeqExpr, seen: _Seen) -> SeqExpr:
    seen = seen.inside()
    blocks = [_block(block, seen) for block in seq.blocks]
    last = seen.loads(free_vars(seq.body), expr_symbols(seq.body), Var)
    body = substitute(seq.body, seen.loaded)
    return replace(seq, blocks=tidy_blocks((*blocks, BindingBlock(tuple(last)))), body=body)


def _block(block: BindingBlock, seen: _Seen) -> BindingBlock:
    dataflow = isinstance(block, DataflowBlock)
    here, kind = (seen.inside(branch=False), DataflowVar) if dataflow else (seen, Var)
    bindings: list[Binding] = []
    for binding in block.bindings:
        value = binding.value
        read = value.cond if isinstance(value, If) else value
        if not isinstance(value, Function):
            sizes = (*expr_symbols(read), *_own_sizes(binding))
            bindings += here.loads(free_vars(read), sizes, kind)
        bindings.append(replace(binding, value=_value(value, here)))
        here.sizes.update(_own_sizes(binding))
    return replace(block, bindings=tuple(bindings))


def _own_sizes(binding: Binding) -> tuple[SymbolicVar, ...]:
    return type_symbols(binding.var.ty)


def _value(value: Expr, seen: _Seen) -> Expr:
    match value:
        case If(cond=cond, true_branch=true, false_branch=false):
            return replace(
                value,
                cond=substitute(cond, seen.loaded),
                true_branch=_sequence(true, seen),
                false_branch=_sequence(false, seen),
            )
        case Function(body=body):
            return replace(value, body=_sequence(body, seen))
        case _:
            return substitute(value, seen.loaded)
