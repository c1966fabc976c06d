"""Reverse mode: a sequence as a forward program, which gives residuals too, and a backward one.

Branches, loops and the functions that are called become two like this: the forward program runs
where the original stood, and the backward one is given the residuals, so that nothing runs twice.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

from relaxjax.ir.builder import BlockBuilder, Names, make_function
from relaxjax.ir.dead_code import remove_all_unused
from relaxjax.ir.derivatives import CUSTOM_FORWARD, CUSTOM_GRADIENT, LINEARIZED, smooth_places
from relaxjax.ir.emit_function import emit_sequence
from relaxjax.ir.expr import Call, Expr, GlobalVar, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Binding, Function, If, SeqExpr
from relaxjax.ir.infer import infer
from relaxjax.ir.inline import recursive
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.op import Op
from relaxjax.ir.renew import renew
from relaxjax.ir.span import located
from relaxjax.ir.tuples import field_of
from relaxjax.ir.types import TensorType
from relaxjax.ir.walk import bound_vars, free_vars, substitute, used_vars

from .activity import active_params, active_vars, in_full, local_functions, module_functions
from .adjoint import Adjoint, Cotangent, GradientError, Reverse, zeros
from .checkpoints import EmitForward, Recomputation, Unmarked, without_marks
from .factorings import emit_factored, with_factors
from .inlining import inline_closures, resolve_casts, with_own_closures
from .linearize import linearize
from .local_views import LocalView, emit_local_view
from .loops import emit_loop
from .pullbacks import by_halves, by_pullback, emit_kept, pullback_of, pullback_type
from .residuals import without_fills
from .vjp import Vjp, VjpByFields, in_terms_of


@dataclass
class Forward:
    """What the backward program has to know of the forward bindings.

    `reverses` and `compound` are of bindings that are no operators' calls: their reverse rules, and
    where they stand between checkpoint marks, how to recompute them so that they have one.
    """

    unmarked: Unmarked
    active: set[Var]
    reverses: dict[Var, Reverse] = field(default_factory=dict)
    compound: dict[Var, EmitForward] = field(default_factory=dict)

    def adjoint(self, builder: BlockBuilder, lazy: bool = True) -> Adjoint:
        """The adjoints of the variables, all of them zero."""
        again = Recomputation(builder, self.unmarked, self.active, self.compound, lazy)
        return again.adjoint(self.reverses)

    def active_bindings(self) -> list[Binding]:
        """The bindings that differentiation goes through.

        The adjoints of others are not asked for, and their operators may have no derivative.
        """
        return [binding for binding in self.unmarked.bindings if binding.var in self.active]


@dataclass
class ReverseMode:
    """Differentiates sequences of one module; functions once for each way of calling them."""

    module: IRModule
    vjps: dict[tuple[str, tuple[int, ...]], tuple[GlobalVar, GlobalVar]] = field(
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
        """Emit the forward bindings, and find their reverse rules.

        What `nested` ones compute, in a loop, a branch or a function, the backward program can read
        only where it is a residual.
        """
        forward = Forward(unmarked, active)
        self.functions |= local_functions(unmarked.bindings)
        for binding in unmarked.bindings:
            emit = self._compound(binding, nested) if binding.var in active else None
            with located(binding.span), builder.origin(binding.span):
                if emit is None:
                    builder.emit_binding(binding)
                elif binding.var in unmarked.between:
                    self._emit_value(builder, binding)
                    forward.compound[binding.var] = emit
                else:
                    forward.reverses[binding.var] = emit(builder, binding, active)
        return forward

    def _compound(self, binding: Binding, nested: bool) -> EmitForward | None:
        match binding.value:
            case If():
                return self._choice
            case Call(op=GlobalVar()):
                return partial(self._call, nested=nested)
            case Call(op=Op() as op) if op.facts.get("loop"):
                return self._loop
            case Call(op=Op() as op) if op.facts.get("local_view"):
                return self._local_view
            case Call() as call if with_factors(call) is not None:
                return emit_factored
            case _:
                return None

    def _emit_value(self, builder: BlockBuilder, binding: Binding) -> None:
        """Emit a value that is computed again later: as a rule gives it, where there is one."""
        forward = self._own_forward(binding.value)
        if forward is None:
            builder.emit_binding(binding)
        else:
            assert isinstance(binding.value, Call)
            emit_kept(builder, binding, binding.value, forward)

    def _own_forward(self, value: Expr) -> GlobalVar | None:
        """What runs in the place of a call that is differentiated, by the function's rule."""
        if not isinstance(value, Call) or not isinstance(value.op, GlobalVar):
            return None
        name = self.module[value.op.name].attrs.get(CUSTOM_FORWARD)
        return None if name is None else self.module.get_global_var(name)

    def vjp(self, seq: SeqExpr, inputs: Sequence[Var]) -> Vjp:
        """The forward and the backward program of a sequence, differentiated by `inputs`."""
        return self.vjp_by_fields(seq, inputs)(None)

    def vjp_by_fields(self, seq: SeqExpr, inputs: Sequence[Var]) -> VjpByFields:
        """The programs, given which fields of the result something comes back to; by None all."""
        seq = resolve_casts(seq)
        unmarked = without_marks(tuple(seq.bindings()))
        result = substitute(seq.body, unmarked.aliases)
        active = active_vars(unmarked.bindings, used_vars(result), in_full(inputs), self.functions)
        cotangent = Var("cotangent", result.ty)
        builder = BlockBuilder()
        with builder.scope(taken=[var.name for var in (*inputs, cotangent)]):
            emitted = self.emit_forward(builder, unmarked, active, nested=True)
            forward = builder.sequence(result)

        def vjp(reached: frozenset[int] | None) -> Vjp:
            with builder.scope():
                adjoint = emitted.adjoint(builder)
                with builder.origin(result.span, getattr(result, "name", None)):
                    came: Cotangent = cotangent
                    if reached is not None:
                        came = {index: field_of(cotangent, index) for index in reached}
                    adjoint.add(result, came)
                adjoint.go_back(emitted.active_bindings())
                backward = builder.sequence(Tuple(tuple(map(adjoint.of, inputs))))
            swept = remove_all_unused(make_function((), backward)).body
            # What is recomputed between checkpoint marks may need closures, which cannot be saved.
            swept = with_own_closures(swept, local_functions(unmarked.bindings))
            defined = set(bound_vars(forward))
            residuals = tuple(var for var in free_vars(swept) if var in defined)
            body = Tuple((forward.body, Tuple(residuals)))
            found = Vjp(SeqExpr(forward.blocks, body), swept, cotangent, residuals)
            return without_fills(found)

        return vjp

    def _loop(self, builder: BlockBuilder, binding: Binding, active: set[Var]) -> Reverse:
        assert isinstance(binding.value, Call)
        step = binding.value.args[0]
        body = self.functions[step]
        if isinstance(step, GlobalVar):  # a closure was inlined with the function around it
            body = inline_closures(body)
        return emit_loop(builder, binding, body, active, self.functions, self.vjp)

    def _choice(self, builder: BlockBuilder, binding: Binding, active: set[Var]) -> Reverse:
        """A branch gives its residuals, too; the reverse is a choice between backward programs."""
        choice = binding.value
        assert isinstance(choice, If)
        inputs = [var for var in free_vars(choice) if var in active]
        branches = (choice.true_branch, choice.false_branch)
        by_fields = [self.vjp_by_fields(branch, inputs) for branch in branches]
        true, false = (vjp(None) for vjp in by_fields)
        forward = replace(
            choice,
            true_branch=_with_residuals(true, true.residuals, _zeros_of(false.residuals)),
            false_branch=_with_residuals(false, _zeros_of(true.residuals), false.residuals),
            ty=None,
        )
        kept = builder.emit(forward, f"{binding.var.name}_kept")
        builder.emit_binding(replace(binding, value=TupleGetItem(kept, 0)))

        def reverse(adjoint: Adjoint, cotangent: Var) -> None:
            reached = adjoint.some_fields(binding.var)
            sides = []
            for side, whole in enumerate((true, false)):
                saved = adjoint.leaf(TupleGetItem(TupleGetItem(kept, 1), side))
                fields = {v: TupleGetItem(saved, i) for i, v in enumerate(whole.residuals)}
                vjp = whole if reached is None else by_fields[side](reached)
                # A zero may read the shape of a value that was not saved: then zeros come back.
                vjp = vjp if fields.keys() >= set(vjp.residuals) else whole
                sides.append(_backward_of(adjoint, vjp, cotangent, fields))
            backward = replace(choice, true_branch=sides[0], false_branch=sides[1], ty=None)
            result = adjoint.builder.emit(infer(backward), f"{binding.var.name}_inputs_adjoint")
            for index, var in enumerate(inputs):
                adjoint.add(var, TupleGetItem(result, index))

        return reverse

    def _call(
        self, builder: BlockBuilder, binding: Binding, active: set[Var], nested: bool
    ) -> Reverse:
        """Call the forward program of a function; the reverse calls its backward program."""
        call = binding.value
        assert isinstance(call, Call)
        assert isinstance(call.op, GlobalVar)
        function = self.module[call.op.name]
        indices = active_params(function, call.args, active)
        if CUSTOM_GRADIENT in function.attrs:
            able = smooth_places(function)
            own = function.attrs[CUSTOM_GRADIENT]
            whole = self.module.get_global_var(own)
            if (first := self._own_forward(call)) is not None:
                return by_halves(builder, binding, call, first, whole, indices, able)
            residuals, transposed = self._linearized(own) if nested else (None, whole)
            return by_pullback(builder, binding, call, transposed, indices, able, residuals)
        if call.op.name in self.recursive:
            pullback = self._pullback(call.op.name, tuple(indices))
            return by_pullback(builder, binding, call, pullback, indices, indices)
        forward, backward = self._vjp_functions(call.op.name, tuple(indices))
        kept = builder.emit(Call(forward, call.args), f"{binding.var.name}_kept")
        builder.emit_binding(replace(binding, value=TupleGetItem(kept, 0)))

        def reverse(adjoint: Adjoint, cotangent: Var) -> None:
            saved = adjoint.leaf(TupleGetItem(kept, 1))
            back = Call(backward, (*call.args, saved, cotangent))
            result = adjoint.builder.emit(back, f"{binding.var.name}_inputs_adjoint")
            for position, index in enumerate(indices):
                adjoint.add(call.args[index], TupleGetItem(result, position))

        return reverse

    def _local_view(self, builder: BlockBuilder, binding: Binding, active: set[Var]) -> Reverse:
        assert isinstance(binding.value, Call)
        view = LocalView(binding.value)
        inside = view.call_inside(self.module)
        name = self._plainly_called(view.function.name)
        indices = active_params(self.module[name], inside.args, active)
        vjp = self._vjp_functions(name, tuple(indices))
        return emit_local_view(builder, binding, view, indices, vjp, self._added)

    def _plainly_called(self, name: str) -> str:
        """A function that is differentiated by its body: one that calls it where it is not."""
        function = self.module[name]
        if CUSTOM_GRADIENT not in function.attrs and name not in self.recursive:
            return name
        params = [Var(param.name, param.ty) for param in function.params]
        builder = BlockBuilder()
        with builder.scope(taken=[param.name for param in params]):
            call = Call(self.module.get_global_var(name), tuple(params))
            body = builder.sequence(builder.emit(call, "result"))
        return self._added(f"{name}_called", renew(make_function(params, body))[0]).name

    def _pullback(self, name: str, indices: tuple[int, ...]) -> GlobalVar:
        """The pullback of a recursive function, which may be in the making."""
        key = (name, indices)
        if key not in self.pullbacks:
            function = self.module[name]
            unique = Names([*self.module]).unique(f"{name}_pullback")
            self.pullbacks[key] = GlobalVar(unique, ty=pullback_type(function, indices))
            self.module = self.module.with_function(unique, function)  # holds the name
            pulled = pullback_of(function, indices, self.vjp)
            self.module = self.module.with_function(unique, remove_all_unused(pulled))
        return self.pullbacks[key]

    def _vjp_functions(self, name: str, indices: tuple[int, ...]) -> tuple[GlobalVar, GlobalVar]:
        """The forward and the backward program of a function, as functions of the module."""
        key = (name, indices)
        if key not in self.vjps:
            function = self.module[name]
            forward, _ = renew(inline_closures(function), visible=True)
            vjp = self.vjp(forward.body, [forward.params[index] for index in indices])
            forward = _private(function, forward.params, vjp.forward)
            saved = Var("saved", Tuple(vjp.residuals).ty)
            params = (*forward.params, saved, vjp.cotangent)
            fields = {var: TupleGetItem(saved, i) for i, var in enumerate(vjp.residuals)}
            backward, _ = renew(_private(function, params, in_terms_of(vjp.backward, fields)))
            self.vjps[key] = (
                self._added(f"{name}_forward", forward),
                self._added(f"{name}_backward", backward),
            )
        return self.vjps[key]

    def _linearized(self, name: str) -> tuple[GlobalVar | None, GlobalVar]:
        """The function that gives the residuals of a rule, if it has any, and its transpose."""
        if name not in self.rules:
            rule = self.module[name]
            linear = linearize(rule) if rule.attrs.get(LINEARIZED) else None
            if linear is None:
                self.rules[name] = None, self.module.get_global_var(name)
            else:
                residuals = self._added(f"{name}_ready", linear.residuals)
                self.rules[name] = residuals, self._added(f"{name}_rest", linear.transposed)
        return self.rules[name]

    def _added(self, name: str, function: Function) -> GlobalVar:
        unique = Names([*self.module]).unique(name)
        self.module = self.module.with_function(unique, function)
        return self.module.get_global_var(unique)


def _private(function: Function, params: Sequence[Var], body: SeqExpr) -> Function:
    """A private function, of the purity and from the index of the one that it is made of."""
    attrs = function.attrs.without("global_symbol")
    return make_function(params, body, pure=function.pure, attrs=attrs, span=function.span)


def _zeros_of(residuals: Sequence[Var]) -> tuple[Expr, ...]:
    """What stands for them where the other branch runs; of open shape, nothing can."""
    for var in residuals:
        if isinstance(var.ty, TensorType) and not isinstance(var.ty.shape, tuple):
            raise GradientError(
                f"the way back through a branch needs `{var.name}`, in whose place the other "
                f"branch gives zeros, so its shape must be known there: found {var.ty}; give what "
                "it is computed from its shape before the branch, as by R.match_cast"
            )
    return tuple(zeros(var.ty) for var in residuals)


def _with_residuals(vjp: Vjp, true: Sequence[Expr], false: Sequence[Expr]) -> SeqExpr:
    """The forward program of a branch: its result, and the residuals of either branch."""
    builder = BlockBuilder()
    with builder.scope(taken=[var.name for var in bound_vars(vjp.forward)]):
        emit_sequence(builder, vjp.forward)
        return builder.sequence((vjp.result, Tuple((Tuple(tuple(true)), Tuple(tuple(false))))))


def _backward_of(adjoint: Adjoint, vjp: Vjp, cotangent: Var, saved: Mapping[Var, Expr]) -> SeqExpr:
    """The backward program of a branch, in terms of its cotangent and what was saved."""
    fields: dict[Var, Expr] = {var: adjoint.leaf(saved[var]) for var in vjp.residuals}
    return in_terms_of(vjp.backward, {**fields, vjp.cotangent: cotangent})
