"""The two halves of a sequence: forward, which also gives what the backward needs, and backward.

Branches and the functions that are called are parted like this: the forward half runs where the
original stood, and what it saved is handed to the backward half, so that nothing runs twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from operator import is_

from relaxjax.ir.builder import BlockBuilder, Names, make_function
from relaxjax.ir.dead_code import remove_all_unused
from relaxjax.ir.derivatives import CUSTOM_GRADIENT, LINEARIZED, carries_gradient
from relaxjax.ir.expr import Call, Expr, GlobalVar, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Binding, Function, If, SeqExpr
from relaxjax.ir.infer import infer
from relaxjax.ir.inline import recursive
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.op import Op
from relaxjax.ir.renew import renew
from relaxjax.ir.span import located
from relaxjax.ir.types import TensorType, TupleType, Type
from relaxjax.ir.walk import bound_vars, free_vars, substitute, used_vars

from .activity import (
    active_params,
    active_vars,
    in_full,
    local_functions,
    module_functions,
)
from .adjoint import Adjoint, GradientError, Reverse, item, zeros
from .checkpoints import Part, Recomputation, Unmarked, without_marks
from .inlining import inline_closures, resolve_casts, with_own_closures
from .linearized import linearized
from .loops import emit_loop
from .parts import Halves, in_terms_of
from .recursion import pullback_of, pullback_type
from .unsaved import with_own_fills


@dataclass
class Forward:
    """What the forward bindings leave to those that go back.

    `reverses` and `parts` are of bindings that are no operators' calls: how to go back through
    them, or where they stand between checkpoint marks, how to compute them again for that.
    """

    unmarked: Unmarked
    active: set[Var]
    reverses: dict[Var, Reverse] = field(default_factory=dict)
    parts: dict[Var, Part] = field(default_factory=dict)

    def way_back(self, builder: BlockBuilder, lazy: bool = True) -> Adjoint:
        again = Recomputation(builder, self.unmarked, self.active, self.parts, lazy)
        return again.adjoint(self.reverses)

    def to_go_back(self) -> list[Binding]:
        """The bindings that differentiation goes through.

        What comes back to others is not asked for, and their operators may have no derivative.
        """
        return [binding for binding in self.unmarked.bindings if binding.var in self.active]


@dataclass
class Differentiator:
    """Parts the sequences of one module; functions are parted once for each way of calling them."""

    module: IRModule
    calls: dict[tuple[str, tuple[int, ...]], tuple[GlobalVar, GlobalVar]] = field(
        default_factory=dict
    )
    pullbacks: dict[tuple[str, tuple[int, ...]], GlobalVar] = field(default_factory=dict)
    rules: dict[str, tuple[GlobalVar | None, GlobalVar]] = field(default_factory=dict)
    functions: dict[Expr, Function] = field(init=False)

    def __post_init__(self) -> None:
        self.functions = module_functions(self.module)

    @cached_property
    def recursive(self) -> frozenset[str]:
        """The functions of the module that call themselves, directly or through others."""
        return frozenset(recursive(self.module.relax_functions()))

    def emit_forward(
        self, builder: BlockBuilder, unmarked: Unmarked, active: set[Var], nested: bool = False
    ) -> Forward:
        """Emit the forward bindings, and find how to go back through them.

        What `nested` ones compute, in a loop, a branch or a function, is then at hand only if it
        is kept.
        """
        forward = Forward(unmarked, active)
        self.functions |= local_functions(unmarked.bindings)
        for binding in unmarked.bindings:
            part = self._part(binding, nested) if binding.var in active else None
            with located(binding.span), builder.origin(binding.span):
                if part is None:
                    builder.emit_binding(binding)
                elif binding.var in unmarked.between:
                    builder.emit_binding(binding)
                    forward.parts[binding.var] = part
                else:
                    forward.reverses[binding.var] = part(builder, binding, active)
        return forward

    def _part(self, binding: Binding, nested: bool) -> Part | None:
        match binding.value:
            case If():
                return self._choice
            case Call(op=GlobalVar()):
                return partial(self._call, nested=nested)
            case Call(op=Op() as op) if op.facts.get("loop"):
                return self._loop
            case _:
                return None

    def halves(self, seq: SeqExpr, inputs: Sequence[Var]) -> Halves:
        """The two halves of a sequence, differentiated by `inputs`."""
        seq = resolve_casts(seq)
        unmarked = without_marks(tuple(seq.bindings()))
        result = substitute(seq.body, unmarked.aliases)
        active = active_vars(unmarked.bindings, used_vars(result), in_full(inputs), self.functions)
        cotangent = Var("cotangent", result.ty)
        builder = BlockBuilder()
        with builder.scope(taken=[var.name for var in (*inputs, cotangent)]):
            way = self.emit_forward(builder, unmarked, active, nested=True)
            forward = builder.sequence(result)
        with builder.scope():
            adjoint = way.way_back(builder)
            with builder.origin(result.span, getattr(result, "name", None)):
                adjoint.add(result, cotangent)
            adjoint.go_back(way.to_go_back())
            backward = builder.sequence(Tuple(tuple(map(adjoint.of, inputs))))
        swept = remove_all_unused(make_function((), backward)).body
        # What runs again between checkpoint marks may need closures, which cannot be saved.
        swept = with_own_closures(swept, local_functions(unmarked.bindings))
        defined = set(bound_vars(forward))
        saved = tuple(var for var in free_vars(swept) if var in defined)
        body = Tuple((forward.body, Tuple(saved)))
        half = Halves(SeqExpr(forward.blocks, body), swept, cotangent, saved)
        return with_own_fills(half)

    def _loop(self, builder: BlockBuilder, binding: Binding, active: set[Var]) -> Reverse:
        assert isinstance(binding.value, Call)
        step = binding.value.args[0]
        body = self.functions[step]
        if isinstance(step, GlobalVar):  # a closure was inlined with the function around it
            body = inline_closures(body)
        return emit_loop(builder, binding, body, active, self.functions, self.halves)

    def _choice(self, builder: BlockBuilder, binding: Binding, active: set[Var]) -> Reverse:
        """Keep what a branch saves on its way; the reverse goes back through that branch."""
        choice = binding.value
        assert isinstance(choice, If)
        inputs = [var for var in free_vars(choice) if var in active]
        true = self.halves(choice.true_branch, inputs)
        false = self.halves(choice.false_branch, inputs)
        forward = replace(
            choice,
            true_branch=_with_saved(true, true.saved, _zeros_of(false.saved)),
            false_branch=_with_saved(false, _zeros_of(true.saved), false.saved),
            ty=None,
        )
        kept = builder.emit(forward, f"{binding.var.name}_kept")
        builder.emit_binding(replace(binding, value=TupleGetItem(kept, 0)))

        def reverse(adjoint: Adjoint, cotangent: Var) -> None:
            saved = [adjoint.leaf(TupleGetItem(TupleGetItem(kept, 1), side)) for side in (0, 1)]
            backward = replace(
                choice,
                true_branch=_opened(adjoint, true, cotangent, saved[0]),
                false_branch=_opened(adjoint, false, cotangent, saved[1]),
                ty=None,
            )
            result = adjoint.builder.emit(infer(backward), f"{binding.var.name}_inputs_adjoint")
            for index, var in enumerate(inputs):
                adjoint.add(var, TupleGetItem(result, index))

        return reverse

    def _call(
        self, builder: BlockBuilder, binding: Binding, active: set[Var], nested: bool
    ) -> Reverse:
        """Call the forward half of a function; the reverse calls its backward half."""
        call = binding.value
        assert isinstance(call, Call)
        assert isinstance(call.op, GlobalVar)
        function = self.module[call.op.name]
        places = active_params(function, call.args, active)
        if CUSTOM_GRADIENT in function.attrs:
            able = [i for i, param in enumerate(function.params) if carries_gradient(param.ty)]
            own = function.attrs[CUSTOM_GRADIENT]
            whole = self.module.get_global_var(own)
            ready, rest = self._linearized(own) if nested else (None, whole)
            return _by_pullback(builder, binding, call, rest, places, able, ready)
        if call.op.name in self.recursive:
            pullback = self._pullback(call.op.name, tuple(places))
            return _by_pullback(builder, binding, call, pullback, places, places)
        forward, backward = self._parted(call.op.name, tuple(places))
        kept = builder.emit(Call(forward, call.args), f"{binding.var.name}_kept")
        builder.emit_binding(replace(binding, value=TupleGetItem(kept, 0)))

        def reverse(adjoint: Adjoint, cotangent: Var) -> None:
            saved = adjoint.leaf(TupleGetItem(kept, 1))
            back = Call(backward, (*call.args, saved, cotangent))
            result = adjoint.builder.emit(back, f"{binding.var.name}_inputs_adjoint")
            for index, place in enumerate(places):
                adjoint.add(call.args[place], TupleGetItem(result, index))

        return reverse

    def _pullback(self, name: str, places: tuple[int, ...]) -> GlobalVar:
        """The function that goes back through a recursive one, which may be in the making."""
        key = (name, places)
        if key not in self.pullbacks:
            function = self.module[name]
            unique = Names([*self.module]).unique(f"{name}_pullback")
            self.pullbacks[key] = GlobalVar(unique, ty=pullback_type(function, places))
            self.module = self.module.with_function(unique, function)  # holds the name
            pulled = pullback_of(function, places, self.halves)
            self.module = self.module.with_function(unique, remove_all_unused(pulled))
        return self.pullbacks[key]

    def _parted(self, name: str, places: tuple[int, ...]) -> tuple[GlobalVar, GlobalVar]:
        """The forward and the backward half of a function of the module, as functions of it."""
        key = (name, places)
        if key not in self.calls:
            function = self.module[name]
            forward, _ = renew(inline_closures(function), visible=True)
            halves = self.halves(forward.body, [forward.params[place] for place in places])
            forward = _half(function, forward.params, halves.forward)
            saved = Var("saved", Tuple(halves.saved).ty)
            params = (*forward.params, saved, halves.cotangent)
            fields = {var: TupleGetItem(saved, i) for i, var in enumerate(halves.saved)}
            backward, _ = renew(_half(function, params, in_terms_of(halves.backward, fields)))
            self.calls[key] = (
                self._added(f"{name}_forward", forward),
                self._added(f"{name}_backward", backward),
            )
        return self.calls[key]

    def _linearized(self, name: str) -> tuple[GlobalVar | None, GlobalVar]:
        """The function that gives what a rule needs of the arguments, if any, and what is left."""
        if name not in self.rules:
            rule = self.module[name]
            parts = linearized(rule) if rule.attrs.get(LINEARIZED) else None
            if parts is None:
                self.rules[name] = None, self.module.get_global_var(name)
            else:
                ready = self._added(f"{name}_ready", parts.ready)
                self.rules[name] = ready, self._added(f"{name}_rest", parts.rest)
        return self.rules[name]

    def _added(self, name: str, function: Function) -> GlobalVar:
        unique = Names([*self.module]).unique(name)
        self.module = self.module.with_function(unique, function)
        return self.module.get_global_var(unique)


def _by_pullback(
    builder: BlockBuilder,
    binding: Binding,
    call: Call,
    pullback: GlobalVar,
    places: Sequence[int],
    able: Sequence[int],
    ready: GlobalVar | None = None,
) -> Reverse:
    """The call as it is; the reverse calls a function that gives the gradients at `able`.

    What a function `ready` gives of the arguments, that one is given beside them.
    """
    builder.emit_binding(binding)
    name = f"{binding.var.name}_ready"
    saved = () if ready is None else (builder.emit(Call(ready, call.args), name),)

    def reverse(adjoint: Adjoint, cotangent: Var) -> None:
        back = Call(pullback, (*call.args, *saved, cotangent))
        result = adjoint.builder.emit(back, f"{binding.var.name}_inputs_adjoint")
        for place in places:
            arg = call.args[place]
            partial = _of_floats(TupleGetItem(result, able.index(place)), arg.ty)
            adjoint.add(arg, partial)

    return reverse


def _of_floats(adjoint: Expr, ty: Type | None) -> Expr:
    """An adjoint with zeros for its integers, whatever a rule of one's own gives for them."""
    if not isinstance(ty, TupleType):
        return adjoint if carries_gradient(ty) else zeros(ty)
    fields = [item(adjoint, index) for index in range(len(ty.fields))]
    parts = list(map(_of_floats, fields, ty.fields))
    return adjoint if all(map(is_, parts, fields)) else Tuple(tuple(parts))


def _half(function: Function, params: Sequence[Var], body: SeqExpr) -> Function:
    """A private function for one half, of the purity and from the place of the whole."""
    attrs = function.attrs.without("global_symbol")
    return make_function(params, body, pure=function.pure, attrs=attrs, span=function.span)


def _zeros_of(saved: Sequence[Var]) -> tuple[Expr, ...]:
    """What stands for them where the other branch runs; of open shape, nothing can."""
    for var in saved:
        if isinstance(var.ty, TensorType) and not isinstance(var.ty.shape, tuple):
            raise GradientError(
                f"the way back through a branch needs `{var.name}`, in whose place the other "
                f"branch gives zeros, so its shape must be known there: found {var.ty}; give what "
                "it is computed from its shape before the branch, as by R.match_cast"
            )
    return tuple(zeros(var.ty) for var in saved)


def _with_saved(half: Halves, true: Sequence[Expr], false: Sequence[Expr]) -> SeqExpr:
    """The forward half of a branch, its result beside what either branch saves."""
    builder = BlockBuilder()
    with builder.scope(taken=[var.name for var in bound_vars(half.forward)]):
        assert isinstance(half.forward.body, Tuple)
        for binding in half.forward.bindings():
            builder.emit_binding(binding)
        result = half.forward.body.fields[0]
        return builder.sequence((result, Tuple((Tuple(tuple(true)), Tuple(tuple(false))))))


def _opened(adjoint: Adjoint, half: Halves, cotangent: Var, saved: Expr) -> SeqExpr:
    """The backward half of a branch, in terms of the adjoint of its result and what was saved."""
    fields: dict[Var, Expr] = {
        var: adjoint.leaf(TupleGetItem(saved, index)) for index, var in enumerate(half.saved)
    }
    return in_terms_of(half.backward, {**fields, half.cotangent: cotangent})
