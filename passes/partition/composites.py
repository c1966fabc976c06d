"""Composite functions: what a pattern made of several operators, and the regions around them."""

from collections.abc import Sequence

from relaxjax.ir.builder import make_function
from relaxjax.ir.expr import Call, Expr, GlobalVar, Var
from relaxjax.ir.function import Binding, BindingBlock, Function, SeqExpr, VarBinding
from relaxjax.ir.infer import infer
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.renew import renew
from relaxjax.ir.walk import global_vars, substitute


def backend_of(composite: str) -> str:
    """The backend that a pattern's name begins with."""
    return composite.partition(".")[0]


def composite_called(mod: IRModule, value: Expr) -> Function | None:
    """The composite function that a value calls, if it calls one."""
    if not isinstance(value, Call) or not isinstance(value.op, GlobalVar):
        return None
    function = mod[value.op]
    return function if "Composite" in function.attrs else None


def codegen_function(mod: IRModule, function: Function, name: str, backend: str) -> Function:
    """A region as the backend takes it: public, with the composite functions it calls inside."""
    bindings: list[Binding] = []
    closures: dict[Expr, Var] = {}
    for binding in function.body.bindings():
        composite = composite_called(mod, binding.value)
        if composite is None:
            bindings.append(binding)
            continue
        assert isinstance(binding.value, Call)
        if binding.value.op not in closures:
            local, closure = local_function(composite, binding.var.name)
            closures[binding.value.op] = local
            bindings.append(VarBinding(local, closure))
        call = infer(replace(binding.value, op=closures[binding.value.op], ty=None))
        bindings.append(replace(binding, value=call))
    return _region(function, bindings, function.body.body, name, backend)


def wrapped(function: Function, name: str) -> Function:
    """A composite function inside a region of its own."""
    outer, _ = renew(function)
    local, closure = local_function(function, "local_func")
    output = Var("output", outer.ret_ty)
    call = infer(Call(local, outer.params))
    bindings = [VarBinding(local, closure), VarBinding(output, call)]
    return _region(outer, bindings, output, name, backend_of(function.attrs["Composite"]))


def local_function(composite: Function, name: str) -> tuple[Var, Function]:
    """A composite function as a closure, and the variable to bind it to."""
    closure, _ = renew(composite.without_attr("Primitive"))
    return Var(name, closure.ty), closure


def without_uncalled_composites(mod: IRModule) -> IRModule:
    """`mod` without private composite functions that nothing calls."""
    functions = mod.relax_functions()
    called = {var.name for function in functions.values() for var in global_vars(function)}
    uncalled = [
        name
        for name, function in functions.items()
        if "Composite" in function.attrs and not function.global_symbol and name not in called
    ]
    return mod.without_functions(*uncalled)


def _region(
    function: Function, bindings: Sequence[Binding], body: Expr, name: str, backend: str
) -> Function:
    """A region with its bindings in one plain block, since it holds closures."""
    visible: dict[Var, Var] = {b.var: Var(b.var.name, b.var.ty, span=b.span) for b in bindings}
    names: dict[Var, Expr] = {**visible}
    block = BindingBlock(
        tuple(replace(b, var=visible[b.var], value=substitute(b.value, names)) for b in bindings)
    )
    seq = SeqExpr((block,), substitute(body, names))
    attrs = {"Codegen": backend, "global_symbol": name}
    return renew(make_function(function.params, seq, attrs=attrs))[0]
