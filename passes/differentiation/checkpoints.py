"""Checkpoint marks: which forward values the backward program keeps, and which it recomputes."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Call, DataflowVar, Expr, Var
from relaxjax.ir.function import Binding, Function
from relaxjax.ir.node import replace
from relaxjax.ir.op import get_op
from relaxjax.ir.renew import Renewal
from relaxjax.ir.types import TensorType
from relaxjax.ir.walk import bound_vars, substitute, used_vars
from relaxjax.ops.decisions import decisions

from .adjoint import Adjoint, Reverse, WrittenOut
from .near_turns import near_turns

# Emits a compound binding (a branch, a loop, or a call of a function) so that it can be transposed.
EmitForward = Callable[[BlockBuilder, Binding, set[Var]], Reverse]


@dataclass(frozen=True)
class Unmarked:
    """The bindings of a sequence without their checkpoint marks, and the variables between marks.

    What depends on a value through its `start_checkpoint` is recomputed for the backward program,
    up to `end_checkpoint`; everything else is kept, the started values themselves too. So are
    decisions, such as which element is the largest: recomputed, they might be others.
    """

    bindings: tuple[Binding, ...]
    between: frozenset[Var]
    aliases: dict[Var, Expr]  # what the variable of each mark stands for

    @cached_property
    def near_turns(self) -> frozenset[Var]:
        """The variables that may lie where slopes jump by how they are made."""
        return near_turns(self.bindings)


def without_marks(bindings: Sequence[Binding], asked_for: Collection[Var] = ()) -> Unmarked:
    """The bindings with every variable of a mark replaced by what was marked.

    It stays as another name where it is asked for itself, or seen where what it marks is not.
    """
    start, end = get_op("relax.grad.start_checkpoint"), get_op("relax.grad.end_checkpoint")
    aliases: dict[Var, Expr] = {}
    started: set[Var] = set()
    between: set[Var] = set()
    kept: list[Binding] = []
    for binding in bindings:
        value = binding.value
        if isinstance(value, Call) and value.op in (start, end):
            marked = substitute(value.args[0], aliases)
            hidden = isinstance(marked, DataflowVar) and not isinstance(binding.var, DataflowVar)
            if hidden or binding.var in asked_for:
                kept.append(replace(binding, value=marked))
            else:
                aliases[binding.var] = marked
            if value.op is start:
                started.add(binding.var)
                between -= {marked}
            continue
        ended = {var for var in aliases if var not in started}
        if any(var in started or var in between for var in set(used_vars(value)) - ended):
            between.add(binding.var)
        kept.append(replace(binding, value=substitute(value, aliases)))
    return Unmarked(tuple(kept), frozenset(between - decisions(kept, ())), aliases)


@dataclass
class Recomputation:
    """Recomputes forward values between checkpoint marks, each once, where the backward reads it.

    `compound` says how to emit those that are no operators' calls, so that they can be transposed.
    Where it is `lazy`, what is recomputed waits for the adjoint that reads it: otherwise it would
    be merged with the first by whoever looks for common subexpressions.
    """

    builder: BlockBuilder
    unmarked: Unmarked
    active: set[Var]
    compound: dict[Var, EmitForward]
    lazy: bool
    copies: dict[Var, Var] = field(default_factory=dict)
    originals: dict[Var, Var] = field(default_factory=dict)
    reverses: dict[Var, Reverse] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.bindings = {
            binding.var: binding
            for binding in self.unmarked.bindings
            if binding.var in self.unmarked.between and not isinstance(binding.value, Function)
        }

    def adjoint(self, reverses: dict[Var, Reverse]) -> Adjoint:
        """The adjoints of the sequence, all of them zero."""
        later = {var: partial(self._reverse, var) for var in self.compound}
        kind = Adjoint if self.lazy else WrittenOut
        rules: dict[Var, Reverse] = {**reverses, **later}
        turns = self.unmarked.near_turns
        self.adjoints = kind(self.builder, rules, self, self.originals, self.active, turns)
        return self.adjoints

    def __call__(self, expr: Expr) -> Expr:
        """`expr` in terms of kept values and copies."""
        needed = [var for var in used_vars(expr) if var in self.bindings]
        return substitute(expr, {var: self.copy(var) for var in needed})

    def copy(self, var: Var) -> Var:
        """The variable that holds a forward value again, after those that it is computed from."""
        waiting = [var]
        while waiting:
            uses = used_vars(self.bindings[waiting[-1]].value)
            missing = next((v for v in uses if v in self.bindings and v not in self.copies), None)
            if missing is not None:
                waiting.append(missing)
            elif (ready := waiting.pop()) not in self.copies:
                self._emit_copy(ready)
        return self.copies[var]

    def _emit_copy(self, var: Var) -> None:
        binding = self.bindings[var]
        value = self._delayed(_with_own_variables(self(binding.value)))
        copy = type(var)(self.builder.get_unique_name(f"{var.name}_cp"), var.ty)
        self.copies[var], self.originals[copy] = copy, var
        again = replace(binding, var=copy, value=value, derived_from=var.name)
        if var in self.compound:
            active = self.active | {c for c, v in self.originals.items() if v in self.active}
            self.reverses[var] = self.compound[var](self.builder, again, active)
        else:
            self.builder.emit_binding(again)

    def _delayed(self, value: Expr) -> Expr:
        """`value` of a tensor that waits for the adjoint, unless copies in it do so already."""
        inputs, moment = used_vars(value), self.adjoints.moment
        tensors = [var for var in inputs if _can_wait(var)]
        if (
            not self.lazy
            or moment is None
            or not tensors
            or any(v in self.originals for v in inputs)
        ):
            return value
        kept = tensors[0]
        late = self.builder.emit(get_op("relax.grad.delay")(kept, moment), f"{kept.name}_late")
        self.originals[late] = kept
        return substitute(value, {kept: late})

    def _reverse(self, var: Var, adjoint: Adjoint, cotangent: Var) -> None:
        """Recompute a compound binding, then apply its reverse rule."""
        self.copy(var)
        self.reverses[var](adjoint, cotangent)


def _can_wait(var: Var) -> bool:
    return isinstance(var.ty, TensorType) and not (var.ty.dtype or "key<").startswith("key<")


def _with_own_variables(value: Expr) -> Expr:
    """A copy of a value that binds no variable which the value itself binds."""
    return Renewal({}, frozenset(bound_vars(value))).expr(value)
