"""Taking groups of bindings out of functions, each into a function of its own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from relaxjax.ir.blocks import in_order
from relaxjax.ir.builder import Names, make_function
from relaxjax.ir.expr import (
    Call,
    Constant,
    DataflowVar,
    Expr,
    GlobalVar,
    ShapeExpr,
    TupleGetItem,
    Var,
)
from relaxjax.ir.function import Binding, BindingBlock, DataflowBlock, Function, SeqExpr, VarBinding
from relaxjax.ir.infer import infer
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.op import Op
from relaxjax.ir.renew import renew
from relaxjax.ir.structural import structural_equal, structural_hash
from relaxjax.ir.tuples import one_or_tuple
from relaxjax.ir.types import ShapeType
from relaxjax.ir.uses import count_uses
from relaxjax.ir.walk import (
    definable_symbols,
    expr_symbols,
    map_blocks,
    rewrite,
    substitute,
    type_symbols,
    type_vars,
    used_vars,
)

# A function with one of these attributes is the outcome of grouping, and is not grouped again.
OUTCOMES = ("Primitive", "Composite", "Codegen")

# How many operators the name of a group tells.
NAMED_OPERATORS = 6


@dataclass(frozen=True)
class Group:
    """Bindings of one block, in order, and what the function that they become is called.

    That function takes what the group needs and returns what others need of it; `finish` may change
    it. With `lift_constants` it takes the constants in it, too.
    """

    bindings: tuple[Binding, ...]
    name: str
    attrs: Mapping[str, Any] = field(default_factory=dict)
    finish: Callable[[Function, str], Function] = lambda function, name: function
    lift_constants: bool = False

    def variables(self) -> set[Var]:
        return {binding.var for binding in self.bindings}


def group_name(bindings: Sequence[Binding]) -> str:
    """`fused_` and the names of the operators, as TVM has it; of a long group, the first ones."""
    calls = [b.value.op for b in bindings if isinstance(b.value, Call)]
    names = [callee_name(op) for op in calls]
    more = len(names) - NAMED_OPERATORS
    rest = [f"and_{more}_more"] if more > 0 else []
    return "_".join(("fused", *names[:NAMED_OPERATORS], *rest))


def callee_name(op: Expr) -> str:
    """The name of an operator or a function, as a part of a function's name."""
    text = op.name if isinstance(op, Op | GlobalVar) else "call"
    return text.replace(".", "_").replace("-", "_").removeprefix("fused_")


def may_be_grouped(binding: Binding) -> bool:
    """Whether a binding is a call of a pure operator, of a type that mentions no variable."""
    value = binding.value
    return (
        isinstance(binding, VarBinding)
        and isinstance(value, Call)
        and isinstance(value.op, Op)
        and value.op.pure
        and "data_dependent" not in value.op.facts
        and not any(type_vars(item.ty) for item in (value, *used_vars(value)))
    )


def outlined(
    mod: IRModule, groups_of: Callable[[Function], Sequence[Group]], only: Sequence[str] = ()
) -> IRModule:
    """`mod` with groups of bindings taken out of its functions, `mod` itself where there are none.

    `groups_of` names the groups of one function: bindings of one block each, such that nothing
    outside a group both needs it and is needed by it. `only` names the functions to look at.
    """
    outlining = _Outlining(mod)
    for name, function in mod.relax_functions().items():
        if (only and name not in only) or any(key in function.attrs for key in OUTCOMES):
            continue
        groups = groups_of(function)
        if groups:
            outlining.change(name, function, groups)
    return mod.with_functions(outlining.functions)


class _Outlining:
    """What changes in a module: functions lose groups, and those are added."""

    def __init__(self, mod: IRModule) -> None:
        self.functions: dict[str, Function] = {}
        self.names = Names(list(mod))
        self.made: dict[tuple[str, int], list[tuple[Function, str]]] = {}

    def change(self, name: str, function: Function, groups: Sequence[Group]) -> None:
        by_last = {group.bindings[-1].var: group for group in groups}
        inside = {var: group for group in groups for var in group.variables()}
        totals = count_uses(function)

        def on_block(block: BindingBlock) -> BindingBlock:
            if not any(binding.var in inside for binding in block.bindings):
                return block
            hidden = isinstance(block, DataflowBlock)
            bindings: list[Binding] = []
            for binding in block.bindings:
                if binding.var in by_last:
                    bindings += self.taken_out(by_last[binding.var], totals, hidden)
                elif binding.var not in inside:
                    bindings.append(binding)
            return replace(block, bindings=in_order(bindings))

        self.functions[name] = map_blocks(function, on_block)

    def taken_out(self, group: Group, totals: Mapping[Var, int], hidden: bool) -> Sequence[Binding]:
        """The call of the function that a group becomes, and what is read off its result."""
        inner: dict[Var, int] = {}
        for binding in group.bindings:
            for var, count in count_uses(binding.value).items():
                inner[var] = inner.get(var, 0) + count
        outputs = [b.var for b in group.bindings if totals.get(b.var, 0) > inner.get(b.var, 0)] or [
            group.bindings[-1].var
        ]
        bindings, constants = _lifted(group) if group.lift_constants else (group.bindings, {})
        function, args = region_function(bindings, outputs, group.attrs)
        args = tuple(constants.get(arg, arg) for arg in args)
        call = infer(Call(self.added(group, function), args))
        last = group.bindings[-1]
        if len(outputs) == 1:
            return [replace(last, var=outputs[0], value=call)]
        pair = (DataflowVar if hidden else Var)(last.var.name, call.ty, span=last.span)
        parts = [
            VarBinding(var, TupleGetItem(pair, index), span=var.span)
            for index, var in enumerate(outputs)
        ]
        return [VarBinding(pair, call, span=last.span), *parts]

    def added(self, group: Group, function: Function) -> GlobalVar:
        """The function that a group becomes, the same one for groups that are alike."""
        made = self.made.setdefault((group.name, structural_hash(function)), [])
        name = next((name for other, name in made if structural_equal(other, function)), None)
        if name is None:
            name = self.names.unique(group.name)
            made.append((function, name))
            self.functions[name] = group.finish(function, name)
        return GlobalVar(name, ty=self.functions[name].ty)


def _lifted(group: Group) -> tuple[Sequence[Binding], dict[Expr, Expr]]:
    """The bindings of a group with variables for their constants, and those constants."""
    constants: dict[Expr, Expr] = {}

    def rule(expr: Expr) -> Expr:
        if not isinstance(expr, Constant):
            return expr
        param = Var(f"param_{len(constants)}", expr.ty)
        constants[param] = expr
        return param

    return [replace(b, value=rewrite(b.value, rule)) for b in group.bindings], constants


def region_function(
    bindings: Sequence[Binding], outputs: Sequence[Var], attrs: Mapping[str, Any]
) -> tuple[Function, tuple[Expr, ...]]:
    """A function of some bindings that shares no variable with them, and the arguments it needs.

    Its parameters are the variables that the bindings use, in order, and a shape that tells
    symbolic dimensions if no other parameter does.
    """
    own = {binding.var for binding in bindings}
    used = dict.fromkeys(var for b in bindings for var in used_vars(b.value))
    args = [var for var in used if var not in own]
    params = {var: Var(var.name, var.ty) for var in args}
    results = {var: Var(var.name, var.ty, span=var.span) for var in outputs}
    hidden = {var: DataflowVar(var.name, var.ty, span=var.span) for var in own}
    inner: dict[Var, Var] = {**hidden, **results}
    renamed: dict[Var, Expr] = {**params, **inner}
    block = DataflowBlock(
        tuple(replace(b, var=inner[b.var], value=substitute(b.value, renamed)) for b in bindings)
    )
    values = [results[var] for var in outputs]
    body = SeqExpr((block,), one_or_tuple(values))
    unknown = _untold_symbols(body, list(params.values()))
    taken = list(params.values())
    given: list[Expr] = list(args)
    if unknown:
        taken.append(Var("dims", ShapeType(unknown)))
        given.append(ShapeExpr(unknown))
    function = make_function(taken, body, attrs=dict(attrs))
    return renew(function)[0], tuple(given)


def _untold_symbols(body: SeqExpr, params: Sequence[Var]) -> tuple[Any, ...]:
    """The symbolic dimensions of a body that no parameter tells."""
    told = {symbol for param in params for symbol in definable_symbols(param.ty)}
    used = [*expr_symbols(body), *(s for param in params for s in type_symbols(param.ty))]
    return tuple(dict.fromkeys(symbol for symbol in used if symbol not in told))
