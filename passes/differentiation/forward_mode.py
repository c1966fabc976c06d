"""Forward mode: each binding is followed by that of its tangent."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property

from relaxjax.ir.builder import BlockBuilder, Names, make_function
from relaxjax.ir.dead_code import remove_all_unused
from relaxjax.ir.derivatives import CUSTOM_JVP, TANGENTS, carries_gradient
from relaxjax.ir.expr import Call, Expr, GlobalVar, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Binding, Function, If, MatchCast, SeqExpr, VarBinding
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.op import Op, arguments
from relaxjax.ir.renew import renew
from relaxjax.ir.span import located
from relaxjax.ir.tuples import Path, at, field_of
from relaxjax.ir.types import FuncType, TensorType, TupleType
from relaxjax.ir.walk import all_vars, free_vars, used_vars
from relaxjax.ops.tangent import tangent_of_call, without_tangent

from .activity import active_vars, in_full, local_functions, module_functions
from .adjoint import zeros_of
from .dependence import Dependence
from .factorings import emit_whole, with_factors
from .inlining import inline_closures, resolve_casts
from .local_views import LocalView, flat_results
from .tuple_paths import by_path, dependent_paths, packed, unpacked
from .vjp import is_flat

Tangents = dict[Var, Expr]


@dataclass
class ForwardMode:
    """Differentiates functions of one module, once for each way of calling them.

    None of their derivatives is called `reserved`, as what calls them first will be.
    """

    module: IRModule
    reserved: str
    calls: dict[tuple[str, tuple[int, ...]], GlobalVar] = field(default_factory=dict)
    functions: dict[Expr, Function] = field(init=False)

    def __post_init__(self) -> None:
        self.functions = module_functions(self.module)

    def function(self, function: Function, indices: tuple[int, ...]) -> Function:
        """`function` of its parameters and of tangents of those at `indices`."""
        whole = remove_all_unused(inline_closures(function))
        flat = is_flat(whole)
        copy, _ = renew(whole, visible=not flat)
        names = Names([var.name for var in all_vars(copy)])
        wrt = [copy.params[index] for index in indices]
        tangents = [Var(names.unique(f"{var.name}_tangent"), var.ty) for var in wrt]
        env: Tangents = dict(zip(wrt, tangents, strict=True))
        builder = BlockBuilder()
        with builder.scope(taken=list(names.taken)):
            body = self.sequence(builder, copy.body, env, flat)
        attrs = function.attrs.without("global_symbol")
        params = (*copy.params, *tangents)
        jvp = make_function(params, body, pure=function.pure, attrs=attrs, span=function.span)
        return renew(jvp)[0]

    def sequence(
        self, builder: BlockBuilder, seq: SeqExpr, tangents: Tangents, flat: bool = False
    ) -> SeqExpr:
        """The sequence with its tangents; it ends in `(result, tangent)`."""
        tangents = dict(tangents)
        self.functions |= local_functions(tuple(seq.bindings()))
        bindings = tuple(seq.bindings())
        active = active_vars(bindings, used_vars(seq.body), in_full(tangents), self.functions)
        with builder.dataflow() if flat else nullcontext():
            for binding in bindings:
                origin = builder.origin(binding.span, binding.var.name)
                with located(binding.span), origin:
                    if binding.var not in active:
                        builder.emit_binding(binding)
                    elif (tangent := self.binding(builder, binding, tangents)) is not None:
                        tangents[binding.var] = tangent
            result = _whole(seq.body, tangents)
            if flat:
                result = builder.emit_output(result, "tangent_out")
        return builder.sequence((seq.body, result))

    def binding(self, builder: BlockBuilder, binding: Binding, tangents: Tangents) -> Expr | None:
        """Emit a binding and that of its tangent; None where the tangent is zero."""
        value, hint = binding.value, f"{binding.var.name}_tangent"
        if isinstance(value, If | Function | Call):
            given = self.compound(builder, binding, value, tangents)
        else:
            builder.emit_binding(binding)
            given = _tangent(value, tangents)
        if given is None or not carries_gradient(binding.var.ty):
            return None
        if isinstance(binding, MatchCast):
            return builder.match_cast(given, binding.ty, hint)
        return builder.emit(given, hint)

    def compound(
        self, builder: BlockBuilder, binding: Binding, value: Expr, tangents: Tangents
    ) -> Expr | None:
        is_dependent = any(var in tangents for var in _inputs(value, self.functions))
        match value:
            case If() as choice if is_dependent:
                both = self.choice(builder, choice, tangents)
            case Call(op=Op() as op) as call if is_dependent and op.facts.get("loop"):
                return self.loop(builder, binding, call, tangents)
            case Call(op=Op() as op) as call if is_dependent and op.facts.get("local_view"):
                both = self.local_view(builder, LocalView(call), tangents)
            case Call(op=Op() as op) as call if is_dependent and with_factors(call) is not None:
                known = emit_whole(builder, binding)
                tangent = _of_call(op, call, binding.var, tangents)
                return None if tangent is None else known(tangent)
            case Call(op=Op() as op) as call if is_dependent:
                builder.emit_binding(binding)
                return None if without_tangent(op) else _of_call(op, call, binding.var, tangents)
            case Call(op=GlobalVar() as callee) as call if is_dependent:
                both = self.call(callee, call, tangents)
            case _:
                builder.emit_binding(binding)
                return None
        kept = builder.emit(both, f"{binding.var.name}_moving")
        builder.emit_binding(replace(binding, value=TupleGetItem(kept, 0)))
        return TupleGetItem(kept, 1)

    def choice(self, builder: BlockBuilder, choice: If, tangents: Tangents) -> Expr:
        branches = []
        for branch in (choice.true_branch, choice.false_branch):
            with builder.scope():
                branches.append(self.sequence(builder, resolve_casts(branch), tangents))
        return If(choice.cond, *branches)

    def call(self, callee: GlobalVar, call: Call, tangents: Tangents) -> Expr:
        """The call of the derivative of a function, which may be in the making: it may recur."""
        function = self.module[callee.name]
        if CUSTOM_JVP in function.attrs:
            own = self.module.get_global_var(function.attrs[CUSTOM_JVP])
            pairs = zip(function.params, call.args, strict=True)
            able = (_whole(arg, tangents) for param, arg in pairs if carries_gradient(param.ty))
            return Call(own, (*call.args, *able))
        given = [_tangent(arg, tangents) for arg in call.args]
        indices = tuple(
            index
            for index, param in enumerate(function.params)
            if given[index] is not None and carries_gradient(param.ty)
        )
        key = (callee.name, indices)
        if key not in self.calls:
            name = Names([*self.module, self.reserved]).unique(f"{callee.name}{TANGENTS}")
            params = [param.ty for param in function.params]
            ty = (*params, *(params[index] for index in indices))
            ret = TupleType((function.ret_ty, function.ret_ty))
            self.calls[key] = GlobalVar(name, ty=FuncType(ty, ret, function.pure))
            self.module = self.module.with_function(name, function)  # holds the name
            jvp = self.function(function, indices)
            self.module = self.module.with_function(name, jvp)
        known = [tangent for index in indices if (tangent := given[index]) is not None]
        return Call(self.calls[key], (*call.args, *known))

    def local_view(self, builder: BlockBuilder, view: LocalView, tangents: Tangents) -> Expr:
        """A call on each device of the derivative of a function: the results, their tangents."""
        function = self.module[view.function.name]
        inside = self.call(view.function, view.call_inside(self.module), tangents)
        assert isinstance(inside, Call)
        assert isinstance(inside.op, GlobalVar)
        moving = [
            placement
            for placement, arg, param in zip(view.ins, view.args, function.params, strict=True)
            if carries_gradient(param.ty)
            and (CUSTOM_JVP in function.attrs or _tangent(arg, tangents) is not None)
        ]
        assert isinstance(inside.op.ty, FuncType)
        types = inside.op.ty.params or ()
        name = Names([*self.module, self.reserved]).unique(f"{view.function.name}_parts{TANGENTS}")
        self.module = self.module.with_function(name, flat_results(inside.op, types))
        call = view.called(
            self.module.get_global_var(name),
            [builder.normalize_leaf(arg) for arg in inside.args],
            [*view.ins, *moving],
            [*view.outs, *view.outs],
        )
        found, count = builder.emit(call, f"{view.function.name}_moving"), len(view.outs)
        fields = [TupleGetItem(found, index) for index in range(2 * count)]
        if not isinstance(view.call.ty, TupleType):
            return Tuple(tuple(fields))
        return Tuple((Tuple(tuple(fields[:count])), Tuple(tuple(fields[count:]))))

    def loop(self, builder: BlockBuilder, binding: Binding, call: Call, tangents: Tangents) -> Expr:
        """The same loop over pairs: the carry with the tangents of its dependent parts; so each x.

        It gives such a carry, and stacks of each y and its tangent.
        """
        assert isinstance(call.op, Op)
        step, init, xs = call.args
        function = self.functions[step]
        if isinstance(step, GlobalVar):  # a closure was inlined with the function around it
            function = remove_all_unused(inline_closures(function))
        body, _ = renew(function, visible=True)
        dependence = Dependence(in_full(tangents), self.functions)
        inputs = dependence.step_inputs(body, init, xs)
        seq, given = resolve_casts(body.body), list[_Given]()
        for param, parts in inputs.items():
            seq, tensors = unpacked(seq, param)
            given.append(_Given(param, tensors, dependent_paths(tensors, parts)))
        stepped = builder.emit(self.step(seq, given, tangents), f"{binding.var.name}_step")
        pairs = (
            Tuple((arg, Tuple(tuple(at(_whole(arg, tangents), path) for path in one.dependent))))
            for arg, one in zip((init, xs), given, strict=True)
        )
        args = (stepped, *map(builder.normalize_leaf, pairs))
        done = builder.emit(call.op(*args, **call.attrs), f"{binding.var.name}_moving")
        last, ys = (builder.emit(TupleGetItem(done, part)) for part in (0, 1))
        result = Tuple((TupleGetItem(last, 0), TupleGetItem(ys, 0)))
        builder.emit_binding(replace(binding, value=result))
        carried = by_path(TupleGetItem(last, 1), given[0].dependent)
        return Tuple((packed(carried, (), init.ty), TupleGetItem(ys, 1)))

    def step(self, seq: SeqExpr, given: Sequence["_Given"], tangents: Tangents) -> Function:
        """`body((carry, tangents), (x, tangents)) -> ((carry, tangents), (y, tangent))`."""
        builder, params = BlockBuilder(), [one.pair for one in given]
        with builder.scope(taken=[var.name for var in (*all_vars(seq), *params)]):
            inside = dict(tangents)
            for one in given:
                value, known = (builder.emit(TupleGetItem(one.pair, part)) for part in (0, 1))
                for path, var in one.tensors.items():
                    builder.emit_binding(VarBinding(var, at(value, path)))
                for index, path in enumerate(one.dependent):
                    var = one.tensors[path]
                    inside[var] = builder.emit(TupleGetItem(known, index), f"{var.name}_tangent")
            with builder.scope():
                jvp = self.sequence(builder, seq, inside)
            for inner in jvp.bindings():
                builder.emit_binding(inner)
            assert isinstance(jvp.body, Tuple)
            result, tangent = map(builder.normalize_leaf, jvp.body.fields)
            carried = Tuple(tuple(at(tangent, (0, *path)) for path in given[0].dependent))
            carry, y = (
                Tuple((field_of(result, 0), carried)),
                Tuple((field_of(result, 1), field_of(tangent, 1))),
            )
            whole = builder.sequence((carry, y))
        return renew(make_function(params, whole, ret_ty=whole.ty))[0]


@dataclass(frozen=True)
class _Given:
    """A parameter of a step: the tensors in it, and the paths to the dependent ones."""

    param: Var
    tensors: Mapping[Path, Var]
    dependent: Sequence[Path]

    @cached_property
    def pair(self) -> Var:
        """The parameter with the tangents of what is dependent in it."""
        tangents = Tuple(tuple(self.tensors[path] for path in self.dependent))
        return Var(self.param.name, Tuple((self.param, tangents)).ty)


def _tangent(value: Expr, tangents: Tangents) -> Expr | None:
    """The tangent of a leaf or of a field of one; None where it is zero."""
    match value:
        case Var():
            return tangents.get(value)
        case Tuple(fields=fields):
            found = [_tangent(part, tangents) for part in fields]
            if all(tangent is None for tangent in found):
                return None
            pairs = zip(fields, found, strict=True)
            return Tuple(tuple(_zero(part) if t is None else t for part, t in pairs))
        case TupleGetItem(tuple_value=inner, index=index):
            whole = _tangent(inner, tangents)
            return None if whole is None else field_of(whole, index)
        case _:
            return None


def _whole(value: Expr, tangents: Tangents) -> Expr:
    """The tangent of a leaf with its zeros written out."""
    tangent = _tangent(value, tangents)
    return _zero(value) if tangent is None else tangent


def _zero(value: Expr) -> Expr:
    """The zero tangent of a value; what is no tensor stands for itself."""
    match value.ty:
        case TupleType():
            return Tuple(tuple(map(_zero, value)))
        case TensorType():
            return zeros_of(value)
        case _:
            return value


def _of_call(op: Op, call: Call, out: Var, tangents: Tangents) -> Expr | None:
    args, attrs = arguments(call)
    given = [None if arg is None else _tangent(arg, tangents) for arg in args]
    if all(tangent is None for tangent in given):
        return None
    return tangent_of_call(op, given, out, args, attrs)


def _inputs(value: Expr, functions: Mapping[Expr, Function]) -> set[Var]:
    """The variables that a value is made of; those of a loop are also those that its body uses."""
    found = set(free_vars(value))
    return found.union(*(free_vars(functions[var]) for var in found if var in functions))
