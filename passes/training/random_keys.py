"""Random keys for operators that draw numbers in training: one comes in, a new one goes out."""

import inspect
from itertools import count

from relaxjax.ir.builder import Names, make_function
from relaxjax.ir.expand import expand_calls
from relaxjax.ir.expr import Call, Expr, Tuple, Var
from relaxjax.ir.function import Function, SeqExpr, VarBinding
from relaxjax.ir.node import replace
from relaxjax.ir.op import Op, arguments
from relaxjax.ir.registry import get_op
from relaxjax.ir.types import TensorType
from relaxjax.ir.walk import all_vars, post_order

KEY = TensorType((), "key<fry>")


def draws(function: Function) -> bool:
    """Whether a function calls an operator whose training form takes a random key."""
    return any(isinstance(expr, Call) and takes_key(expr) for expr in post_order(function))


def with_drawing_forms(function: Function) -> Function:
    """The function with the operators that draw in their training form.

    It takes a random key more, as its last parameter, and returns a new one after its results. Each
    call draws with a key of its own, made of that one and the number of the call. Where nothing
    draws, the result is the very function.
    """
    if not draws(function):
        return function
    key, numbers = _key_for(function), count()

    def expansion(call: Call) -> Expr | None:
        if not takes_key(call):
            return None
        assert isinstance(call.op, Op)
        assert call.op.training_form is not None
        args, attrs = arguments(call)
        return call.op.training_form(*args, **attrs, key=_folded(key, next(numbers)))

    drawing = expand_calls(function, expansion)
    return _returning(drawing, key, _folded(key, next(numbers)))


def with_unused_key(function: Function) -> Function:
    """The function with a random key more, which it returns as it is."""
    key = _key_for(function)
    return _returning(function, key, key)


def takes_key(call: Call) -> bool:
    """Whether the training form of a call's operator draws, by a keyword `key` of its rule."""
    rule = call.op.training_form if isinstance(call.op, Op) else None
    return rule is not None and "key" in inspect.signature(rule).parameters


def _key_for(function: Function) -> Var:
    taken = [var.name for var in (*all_vars(function), *function.params)]
    return Var(Names(taken).unique("key"), KEY)


def _folded(key: Var, number: int) -> Expr:
    return get_op("relax.random.fold_in")(key, number)


def _returning(function: Function, key: Var, new_key: Expr) -> Function:
    """The function with `key` as its last parameter, and `new_key` as its last result."""
    body = function.body
    outputs = body.body.fields if isinstance(body.body, Tuple) else (body.body,)
    blocks = body.blocks
    if new_key is not key:
        result = Var(f"{key.name}_new", KEY)
        last = replace(blocks[-1], bindings=(*blocks[-1].bindings, VarBinding(result, new_key)))
        blocks, new_key = (*blocks[:-1], last), result
    params = (*function.params, key)
    new_body = SeqExpr(blocks, Tuple((*outputs, new_key)))
    return make_function(params, new_body, pure=function.pure, attrs=function.attrs)
