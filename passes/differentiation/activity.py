"""Which variables differentiation goes through, and what stands in its way."""

from collections import ChainMap
from collections.abc import Container, Iterable, Mapping, Sequence

from relaxjax.ir.derivatives import CUSTOM_GRADIENT, CUSTOM_JVP, carries_gradient, own_derivatives
from relaxjax.ir.expr import Call, Expr, ExternFunc, GlobalVar, Var
from relaxjax.ir.function import Binding, Function, If
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import ZERO_GRADIENT, Op, operator_of
from relaxjax.ir.registry import REPLACED
from relaxjax.ir.span import excerpt_of
from relaxjax.ir.uses import values_of_kind
from relaxjax.ir.walk import used_vars
from relaxjax.ops.tangent import has_tangent_rule
from relaxjax.passes.structure.eta_expand import closure_calling

from .dependence import Dependence, Dependent, Functions
from .inlining import inline_closures


def active_vars(
    bindings: Sequence[Binding],
    targets: Iterable[Var],
    required: Mapping[Var, Dependent],
    functions: Functions,
) -> set[Var]:
    """The variables through which the targets depend on the required ones, or parts of them.

    `functions` are those around the bindings that their loops may have as bodies.
    """
    dependence = Dependence(required, functions)
    dependence.read(bindings)
    return {var for var in _reaching(bindings, targets, dependence) if var in dependence}


def in_full(variables: Iterable[Var]) -> dict[Var, Dependent]:
    """All of some variables."""
    return dict.fromkeys(variables, True)


def active_params(function: Function, args: Sequence[Expr], active: Container[Var]) -> list[int]:
    """The indices of the parameters that a call differentiates its callee by."""
    return [
        index
        for index, (param, arg) in enumerate(zip(function.params, args, strict=True))
        if carries_gradient(param.ty) and any(var in active for var in used_vars(arg))
    ]


def module_functions(mod: IRModule) -> dict[Expr, Function]:
    """The Relax functions of a module, by the variables that name them: loops may have such bodies.

    Those with a derivative of their own are called, so that it holds there too.
    """
    functions: dict[Expr, Function] = {}
    for var, function in mod.functions.items():
        if isinstance(function, Function):
            called = closure_calling(var) if own_derivatives(function) else function
            assert isinstance(called, Function)
            functions[var] = called
    return functions


def local_functions(bindings: Sequence[Binding]) -> dict[Expr, Function]:
    """The functions that bindings define on the spot, by their variables."""
    return dict(values_of_kind(bindings, Function).items())


def obstacles(
    mod: IRModule,
    target: Expr,
    bindings: Sequence[Binding],
    required: Iterable[Var],
    forward: bool = False,
) -> list[str]:
    """All that stands between `target` and the required variables and has no derivative.

    Branches are looked into, and the functions that are called; a line each, with its place.
    Forward mode has its own rules.
    """
    search = _Obstacles(mod, forward)
    search.sequence(target, bindings, in_full(required))
    return list(search.found)


class _Obstacles:
    """One search, through every function that is called, once for each way of calling it."""

    def __init__(self, mod: IRModule, forward: bool) -> None:
        self.mod = mod
        self.forward = forward
        self.found: dict[str, None] = {}
        self.functions = ChainMap(module_functions(mod))
        self.seen: set[tuple[str, tuple[int, ...]]] = set()

    def sequence(
        self, target: Expr, bindings: Sequence[Binding], required: Mapping[Var, Dependent]
    ) -> None:
        self.functions |= local_functions(bindings)
        dependence = Dependence(required, self.functions)
        dependence.read(bindings)
        reaching = _reaching(bindings, used_vars(target), dependence)
        for binding in bindings:
            if binding.var in dependence and binding.var in reaching:
                self.binding(binding, dependence)

    def binding(self, binding: Binding, dependence: Dependence) -> None:
        match binding.value:
            case Call(op=Op() as op) as call if op.facts.get("loop"):
                self.loop(binding, call, dependence)
            case Call(op=Op() as op, args=(GlobalVar() as callee, *_)) as call if op.facts.get(
                "local_view"
            ):
                self.call(binding, callee, Call(callee, tuple(call.args[1])), dependence)
            case Call(op=Op() as op) if op in REPLACED:  # rules look for operators by name
                self.report(
                    binding,
                    f"the operator {op.name}, which was declared again since: make the program "
                    "anew",
                )
            case Call(op=Op() as op) if not _has_rule(op, self.forward):
                mend = f": {op.facts['instead']}" if "instead" in op.facts else ""
                self.report(binding, f"the operator {op.name}{mend}")
            case Call(op=Op()):
                return
            case Call(op=GlobalVar() as callee) as call:
                self.call(binding, callee, call, dependence)
            case Call(op=Var() as callee):
                self.report(
                    binding,
                    f"the call of `{callee}`, which is known only where the program runs: "
                    "differentiate before LambdaLift, or call a function of the module",
                )
            case Call(op=ExternFunc(symbol=name)):
                self.report(
                    binding,
                    f"the call of `{name}`, a Python function from outside: call it in a function "
                    "that has a derivative, by CustomGradient or, in JAX, by jax.custom_vjp",
                )
            case Call(op=callee):
                self.report(binding, f"the call of `{callee}`")
            case If() as choice:
                for branch in (choice.true_branch, choice.false_branch):
                    self.sequence(branch.body, tuple(branch.bindings()), dependence.parts)

    def loop(self, binding: Binding, call: Call, dependence: Dependence) -> None:
        body = self.functions.get(call.args[0])
        if body is None:
            self.report(binding, f"the loop over `{call.args[0]}`, whose body is not known here")
            return
        if isinstance(call.args[0], GlobalVar):  # a closure was inlined with the function around it
            body = inline_closures(body)
        inputs = dependence.step_inputs(body, *call.args[1:])
        given = dependence.parts.new_child(inputs)
        self.sequence(body.body.body, tuple(body.body.bindings()), given)

    def call(self, binding: Binding, callee: GlobalVar, call: Call, dependence: Dependence) -> None:
        function = self.mod[callee.name]
        if not isinstance(function, Function):
            self.report(binding, f"the call of `{callee}`, which has no body")
            return
        if (CUSTOM_JVP if self.forward else CUSTOM_GRADIENT) in function.attrs:
            return
        indices = active_params(function, call.args, dependence)
        key = (callee.name, tuple(indices))
        if key not in self.seen:
            self.seen.add(key)
            body = inline_closures(function).body
            required = [function.params[index] for index in indices]
            self.sequence(body.body, tuple(body.bindings()), in_full(required))

    def report(self, binding: Binding, what: str) -> None:
        where = excerpt_of(binding.span)
        self.found[f"  `{binding.var.name}`: {what}{where}"] = None


def _has_rule(op: Op, forward: bool) -> bool:
    return has_tangent_rule(op) if forward else op.gradient is not None


def _reaching(
    bindings: Sequence[Binding], targets: Iterable[Var], dependence: Dependence
) -> set[Var]:
    """The variables that targets are made of, as far as they can have a derivative by them."""
    reaching = set(targets)
    for binding in reversed(bindings):
        if binding.var in reaching and binding.var in dependence:
            reaching.update(_differentiable_uses(binding))
    return reaching


def _differentiable_uses(binding: Binding) -> tuple[Var, ...]:
    """The variables of a binding's value that it can have a derivative by."""
    value = binding.value
    operator = operator_of(value)
    if operator is not None and operator.gradient is ZERO_GRADIENT:
        return ()
    return tuple(var for var in used_vars(value) if carries_gradient(var.ty))
