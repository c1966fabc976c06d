"""Checkpoint marks: which forward values the backward keeps, and which it computes again."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Call, DataflowVar, Expr, Var
from relaxjax.ir.function import Binding, Function
from relaxjax.ir.node import replace
from relaxjax.ir.op import get_op
from relaxjax.ir.renew import Renewal
from relaxjax.ir.types import TensorType
from relaxjax.ir.walk import bound_vars, substitute, used_vars
from relaxjax.ops.decisions import decisions

from .adjoint import Adjoint, Reverse
from .written_out import WrittenOut

# Emits a binding that is no operator's call, and gives the way back through it.
Part = Callable[[BlockBuilder, Binding, set[Var]], Reverse]


@dataclass(frozen=True)
class Unmarked:
    """The bindings of a sequence without their checkpoint marks, and the variables between marks.

    What depends on a value through its `start_checkpoint` is computed again for the backward
    program, up to `end_checkpoint`; everything else is kept, the started values themselves too. So
    are decisions, such as which element is the largest: computed again, they might be others.
    """

    bindings: tuple[Binding, ...]
    between: frozenset[Var]
    aliases: dict[Var, Expr]  # what the variable of each mark stands for


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
    """Computes forward values between checkpoints again, each once, where the backward asks.

    `parts` says how to compute those that are no operators' calls, so that there is a way back.
    Where it is `late`, what is computed again waits for the adjoint that asks for it: otherwise
    it would be merged with the first by whoever looks for common values.
    """

    builder: BlockBuilder
    unmarked: Unmarked
    active: set[Var]
    parts: dict[Var, Part]
    late: bool
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
        """The way back over the sequence, from nothing on."""
        later = {var: partial(self._go_back, var) for var in self.parts}
        kind = Adjoint if self.late else WrittenOut
        self.way = kind(self.builder, {**reverses, **later}, self, self.originals)
        return self.way

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
        if var in self.parts:
            active = self.active | {c for c, v in self.originals.items() if v in self.active}
            self.reverses[var] = self.parts[var](self.builder, again, active)
        else:
            self.builder.emit_binding(again)

    def _delayed(self, value: Expr) -> Expr:
        """`value` of a tensor that is late, unless it is so already, being made of copies."""
        inputs, moment = used_vars(value), self.way.moment
        tensors = [var for var in inputs if _can_be_late(var)]
        if (
            not self.late
            or moment is None
            or not tensors
            or any(v in self.originals for v in inputs)
        ):
            return value
        kept = tensors[0]
        late = self.builder.emit(get_op("relax.grad.delay")(kept, moment), f"{kept.name}_late")
        self.originals[late] = kept
        return substitute(value, {kept: late})

    def _go_back(self, var: Var, adjoint: Adjoint, cotangent: Var) -> None:
        """Compute what is no operator's call again, then go back through it."""
        self.copy(var)
        self.reverses[var](adjoint, cotangent)


def _can_be_late(var: Var) -> bool:
    return isinstance(var.ty, TensorType) and not (var.ty.dtype or "key<").startswith("key<")


def _with_own_variables(value: Expr) -> Expr:
    """A copy of a value that binds no variable which the value itself binds."""
    return Renewal({}, frozenset(bound_vars(value))).expr(value)
