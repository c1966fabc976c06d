"""Random keys for operators that draw numbers in training: one comes in, a new one goes out."""

from collections.abc import Container, Iterable
from itertools import count

from relaxjax.ir.builder import Names, make_function
from relaxjax.ir.derivatives import own_derivatives
from relaxjax.ir.expr import Call, Expr, GlobalVar, Tuple, Var
from relaxjax.ir.function import Function, SeqExpr, VarBinding
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.op import Op, arguments
from relaxjax.ir.tuples import fields_or_self
from relaxjax.ir.types import FuncType, ObjectType, TensorType, TupleType
from relaxjax.ir.walk import all_vars, global_vars, post_order

from .drawing import folded, with_keys_of_calls

KEY = TensorType((), "key<fry>")


def with_keys(mod: IRModule, names: Iterable[str]) -> IRModule:
    """The module with the operators that draw, in the named functions, in their training form.

    Such a function takes a random key more, as its last parameter, and returns a new one after its
    results, unless it is private; a caller does so too, and hands on a key. Each call draws
    with a key of its own, made of that one and the number of the call, and of a loop's step. Where
    nothing draws, the result is the very module.
    """
    named = set(names)
    keyed = {name: _keyed_var(mod, name) for name in _drawing(mod, named)}
    _check_own_derivatives(mod, keyed)
    _check_calls(mod, keyed)
    changes = {name: _with_key(mod, name, name in named, keyed) for name in keyed}
    return mod.with_functions(changes) if changes else mod


def _check_own_derivatives(mod: IRModule, keyed: Container[str]) -> None:
    """A function and its derivatives take the same, so that none can be given a key."""
    for name, function in mod.relax_functions().items():
        derivatives = own_derivatives(function)
        changed = [one for one in (name, *derivatives) if one in keyed]
        if derivatives and changed:
            raise ValueError(
                f"`{changed[0]}` draws random numbers in training, and `{derivatives[0]}` is a "
                f"derivative of `{name}`'s own, which knows nothing of a key: draw the numbers "
                "outside, and let both take them as a parameter"
            )


def _check_calls(mod: IRModule, keyed: Container[str]) -> None:
    """A function that is a value, as what LambdaLift makes of closures, is handed no key."""
    for function in mod.relax_functions().values():
        for call in (expr for expr in post_order(function) if isinstance(expr, Call)):
            passed = [v.name for v in call.args if isinstance(v, GlobalVar) and v.name in keyed]
            if passed:
                raise ValueError(
                    f"`{passed[0]}` draws random numbers in training, and is handed to {call.op} "
                    "as a value, which gives it no key: apply LambdaLift after the passes for "
                    "training, or let a closure call it"
                )


def draws(function: Function) -> bool:
    """Whether a function calls an operator whose training form takes a random key."""
    return any(isinstance(expr, Call) and takes_key(expr) for expr in post_order(function))


def _drawing(mod: IRModule, named: set[str]) -> list[str]:
    """The functions that come to draw: named ones, and those that call one that does."""
    functions = mod.relax_functions()
    callees = {name: {v.name for v in global_vars(f)} for name, f in functions.items()}
    found = {name for name, f in functions.items() if name in named and draws(f)}
    while more := {n for n, called in callees.items() if n not in found and called & found}:
        found |= more
    return [name for name in functions if name in found]


def _keyed_var(mod: IRModule, name: str) -> GlobalVar:
    """The function with a key, as those who call it see it."""
    function: Function = mod[name]
    taken = tuple(param.ty or ObjectType() for param in function.params)
    given = function.ret_ty
    if _is_private(function):
        return GlobalVar(name, ty=FuncType((*taken, KEY), given, function.pure))
    is_listed = isinstance(function.body.body, Tuple)
    results = given.fields if is_listed and isinstance(given, TupleType) else (given,)
    ty = FuncType((*taken, KEY), TupleType((*results, KEY)), function.pure)
    return GlobalVar(name, ty=ty)


def _with_key(mod: IRModule, name: str, is_named: bool, keyed: dict[str, GlobalVar]) -> Function:
    function = mod[name]
    key, numbers = _key_for(function), count()

    def draws(call: Call) -> bool:
        calls_keyed = isinstance(call.op, GlobalVar) and call.op.name in keyed
        return calls_keyed or (is_named and takes_key(call))

    def drawn(call: Call, own: Expr) -> Expr | None:
        if isinstance(call.op, GlobalVar):
            return _called(mod, call, keyed[call.op.name], own)
        assert isinstance(call.op, Op)
        assert call.op.training_form is not None
        args, attrs = arguments(call)
        return call.op.training_form(*args, **attrs, key=own)

    drawing = with_keys_of_calls(function, key, numbers, draws, drawn)
    if _is_private(function):
        return replace(drawing, params=(*drawing.params, key))
    return _returning(drawing, key, folded(key, next(numbers)))


def _called(mod: IRModule, call: Call, callee: GlobalVar, key: Expr) -> Expr:
    """A call of a function that takes a key now: its results without the new key."""
    result = Call(callee, (*call.args, key), span=call.span)
    if _is_private(mod[callee]):
        return result
    if isinstance(mod[callee].body.body, Tuple):
        return Tuple(tuple(result[i] for i in range(len(_outputs(mod[callee])))))
    return result[0]


def with_unused_key(function: Function) -> Function:
    """The function with a random key more, which it returns as it is."""
    key = _key_for(function)
    return _returning(function, key, key)


def takes_key(call: Call) -> bool:
    """Whether the training form of a call's operator draws, by a keyword `key` of its rule."""
    return isinstance(call.op, Op) and call.op.draws


def _key_for(function: Function) -> Var:
    taken = [var.name for var in (*all_vars(function), *function.params)]
    return Var(Names(taken).unique("key"), KEY)


def _returning(function: Function, key: Var, new_key: Expr) -> Function:
    """The function with `key` as its last parameter, and `new_key` as its last result."""
    body, outputs = function.body, _outputs(function)
    blocks = body.blocks
    if new_key is not key:
        result = Var(f"{key.name}_new", KEY)
        last = replace(blocks[-1], bindings=(*blocks[-1].bindings, VarBinding(result, new_key)))
        blocks, new_key = (*blocks[:-1], last), result
    params = (*function.params, key)
    new_body = SeqExpr(blocks, Tuple((*outputs, new_key)))
    return make_function(params, new_body, pure=function.pure, attrs=function.attrs)


def _outputs(function: Function) -> tuple[Expr, ...]:
    result = function.body.body
    return fields_or_self(result)


def _is_private(function: Function) -> bool:
    """Whether only functions of the module call it, each with a key of its own."""
    return function.global_symbol is None
