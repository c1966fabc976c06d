"""Continuation-passing style: a function hands its result on instead of returning it."""

from collections.abc import Mapping, Sequence

from relaxjax.ir.builder import Names
from relaxjax.ir.dataflow import without_dataflow
from relaxjax.ir.dead_code import remove_all_unused
from relaxjax.ir.expr import Call, Expr, GlobalVar, Var
from relaxjax.ir.function import Binding, BindingBlock, Function, If, MatchCast, SeqExpr, VarBinding
from relaxjax.ir.infer import infer
from relaxjax.ir.module import IRModule, check_function
from relaxjax.ir.node import replace
from relaxjax.ir.renew import Renewal, renew
from relaxjax.ir.types import FuncType, ObjectType, Type
from relaxjax.ir.walk import all_vars, bound_vars
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.infrastructure.error_notes import in_function

SUFFIX = "_cps"


@pass_factory(opt_level=1)
def ToCPS(mod: IRModule) -> IRModule:
    """Add to each function `f` its form in continuation-passing style, `f_cps`.

    It takes a further parameter, the continuation, and hands its result to that; what follows the
    call of a function or of a closure is a closure that is handed to the callee. A choice gives its
    value back, so that what follows is there once: only its branches are in this style. Functions
    that are values, as the body of a loop is, stay in direct style, and so does `f`.
    """
    functions = mod.relax_functions()
    own = [name for name in functions if not name.endswith(SUFFIX)]
    names = {name: name + SUFFIX for name in own if name + SUFFIX not in functions}
    callees = {name: name + SUFFIX for name in own}
    added: dict[str, Function] = {}
    for name, new in names.items():
        with in_function(name, functions[name]):
            public = {"global_symbol": new} if functions[name].global_symbol else {}
            added[new] = _converted(functions[name], callees).with_attrs(public)
    return mod.with_functions(added)


def to_cps(func: Function, mod: IRModule | None = None) -> Function:
    """A function in continuation-passing style, as ToCPS writes it.

    With `mod`, what it calls of the module is called as `<name>_cps`, which ToCPS adds; otherwise
    the functions of the module are called directly, as operators are.
    """
    check_function(func, "`to_cps`", ", or call ToCPS()(mod)")
    names = [] if mod is None else [n for n in mod.relax_functions() if not n.endswith(SUFFIX)]
    return _converted(func, {name: name + SUFFIX for name in names})


def un_cps(func: Function) -> Function:
    """The function in direct style that calls one in continuation-passing style.

    Its continuation hands the result back as it is.
    """
    check_function(func, "`un_cps`")
    ty = func.params[-1].ty if func.params else None
    if not isinstance(ty, FuncType) or ty.params is None or len(ty.params) != 1:
        raise ValueError(
            "the function is not in continuation-passing style: its last parameter must be a "
            f"function of one argument, found {ty}"
        )
    (result,) = ty.params
    own, _ = renew(func.without_attr("global_symbol"))
    params = func.params[:-1]
    inner, identity = Var("cps", own.ty), Var("identity", ty)
    answer, value = Var("answer", ObjectType()), Var("result", result)
    bindings = (
        VarBinding(inner, own),
        VarBinding(identity, _identity(ty)),
        VarBinding(answer, infer(Call(inner, (*params, identity)))),
        MatchCast(value, answer, result),
    )
    body = SeqExpr((BindingBlock(bindings),), value)
    symbol = func.global_symbol
    named = {} if symbol is None else {"global_symbol": symbol.removesuffix(SUFFIX)}
    attrs = func.attrs.updated(**named)
    direct, _ = renew(Function(params, body, result, func.pure, attrs))
    return direct


def _identity(ty: FuncType) -> Function:
    """The continuation that gives back what it is handed."""
    assert ty.params is not None
    value = Var("value", ty.params[0])
    return Function((value,), SeqExpr((), value), ty.ret, ty.pure)


def _converted(function: Function, callees: Mapping[str, str]) -> Function:
    plain, _ = renew(without_dataflow(function))
    return remove_all_unused(_Conversion(plain, callees).function(plain))


class _Conversion:
    """Converts one function; `closures` leads from closures to their forms in the new style."""

    def __init__(self, function: Function, callees: Mapping[str, str]) -> None:
        self.names = Names([var.name for var in all_vars(function)])
        self.callees = callees
        self.closures: dict[Var, Var] = {}

    def function(self, function: Function) -> Function:
        continuation = self.var("k", _continuation_type(function.ret_ty, function.pure))
        body = self.tail(list(function.body.bindings()), function.body.body, continuation)
        params = (*function.params, continuation)
        return replace(function, params=params, body=body, ret_ty=ObjectType())

    def tail(self, bindings: Sequence[Binding], result: Expr, continuation: Var) -> SeqExpr:
        """Bindings, the last of which hands `result` on."""
        done: list[Binding] = []
        for index, binding in enumerate(bindings):
            value = binding.value
            if isinstance(value, Function) and isinstance(binding, VarBinding):
                done += self.closure(binding, value)
            elif isinstance(value, If):
                done.append(replace(binding, value=self.choice(value)))
            elif isinstance(value, Call) and (callee := self.callee(value.op)) is not None:
                rest = bindings[index + 1 :]
                return self.call(
                    done, replace(value, op=callee), binding, rest, result, continuation
                )
            else:
                done.append(binding)
        answer = self.var("answer", ObjectType())
        done.append(VarBinding(answer, infer(Call(continuation, (result,)))))
        return SeqExpr((BindingBlock(tuple(done)),), answer)

    def call(
        self,
        done: list[Binding],
        call: Call,
        binding: Binding,
        rest: Sequence[Binding],
        result: Expr,
        continuation: Var,
    ) -> SeqExpr:
        """The call of a function, which is handed a closure of all that follows."""
        then = continuation
        if rest or result is not binding.var or isinstance(binding, MatchCast):
            given = call.ty if isinstance(binding, MatchCast) else binding.var.ty
            then = self.var("then", _continuation_type(given or ObjectType()))
            done.append(VarBinding(then, self.following(call, binding, rest, result, continuation)))
        answer = self.var("answer", ObjectType())
        whole = replace(call, args=(*call.args, then), ty=ObjectType())
        done.append(VarBinding(answer, whole, span=binding.span))
        return SeqExpr((BindingBlock(tuple(done)),), answer)

    def following(
        self, call: Call, binding: Binding, rest: Sequence[Binding], result: Expr, continuation: Var
    ) -> Function:
        """What follows a call, as a function of its result."""
        param = binding.var
        if isinstance(binding, MatchCast):
            param = self.var("value", call.ty or ObjectType())
            rest = [replace(binding, value=param), *rest]
        return Function((param,), self.tail(rest, result, continuation), ObjectType())

    def choice(self, choice: If) -> If:
        """A choice whose branches hand their values to continuations that give them back."""
        branches = (choice.true_branch, choice.false_branch)
        true, false = (self.branch(branch) for branch in branches)
        return replace(choice, true_branch=true, false_branch=false)

    def branch(self, branch: SeqExpr) -> SeqExpr:
        """A branch as it is, where it calls nothing, else a local continuation in it."""
        ty = branch.body.ty or ObjectType()
        done = self.var("done", _continuation_type(ty))
        converted = self.tail(list(branch.bindings()), branch.body, done)
        last = list(converted.bindings())[-1].value
        if isinstance(last, Call) and last.op is done:
            *kept, _ = converted.bindings()
            return replace(branch, blocks=(BindingBlock(tuple(kept)),) if kept else ())
        assert isinstance(done.ty, FuncType)
        value = self.var("value", ty)
        bindings = (
            VarBinding(done, _identity(done.ty)),
            *converted.bindings(),
            MatchCast(value, converted.body, ty),
        )
        return SeqExpr((BindingBlock(bindings),), value)

    def closure(self, binding: VarBinding, closure: Function) -> list[Binding]:
        """A closure in both styles; which of them is used, the sweep at the end finds out."""
        ty = closure.ty
        assert isinstance(ty, FuncType)
        params = (*(ty.params or ()), _continuation_type(ty.ret, ty.pure))
        converted = self.var(binding.var.name + SUFFIX, FuncType(params, ObjectType(), ty.pure))
        self.closures[binding.var] = converted
        # Its dimensions may be those of the function around it: only its variables are new.
        own = Renewal({}, frozenset(bound_vars(closure))).expr(closure)
        assert isinstance(own, Function)
        return [binding, VarBinding(converted, self.function(own), span=binding.span)]

    def callee(self, op: Expr) -> Expr | None:
        """What is called instead of a function, None where it is called directly."""
        if isinstance(op, Var):
            return self.closures.get(op)
        if not isinstance(op, GlobalVar) or op.name not in self.callees:
            return None
        ty = op.ty
        assert isinstance(ty, FuncType)
        params = (*(ty.params or ()), _continuation_type(ty.ret, ty.pure))
        return GlobalVar(self.callees[op.name], ty=FuncType(params, ObjectType(), ty.pure))

    def var(self, name: str, ty: Type) -> Var:
        return Var(self.names.unique(name), ty)


def _continuation_type(ty: Type, pure: bool = True) -> FuncType:
    return FuncType((ty,), ObjectType(), pure)
