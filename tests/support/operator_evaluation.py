"""Running operators, nested calls of them, and their gradient rules, by their lowering."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from operator_samples import Array, Dims, Sample

from relaxjax.ir import Function, SeqExpr, SymbolicVar
from relaxjax.ir.expr import (
    Call,
    Constant,
    Expr,
    PrimExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    np_dtype,
)
from relaxjax.ir.node import replace
from relaxjax.ir.op import ZERO_GRADIENT, Op, arguments, get_op
from relaxjax.ir.types import ShapeType, TensorType, TupleType, Type, is_float
from relaxjax.ir.walk import kept, substitute

# Lengths that stand for symbolic dimensions in the symbolic run of a sample.
SYMBOLS = {5: SymbolicVar("n"), 7: SymbolicVar("m")}


def call_of(
    op: Op,
    sample: Sample,
    symbolic: bool = False,
    typed: Callable[[TensorType], TensorType] = lambda ty: ty,
) -> tuple[Call, dict[Var, Array]]:
    """The call that a sample describes, and the variables that stand for its arrays.

    `typed` may leave out some of what a variable's type says.
    """
    arrays: dict[Var, Array] = {}

    def length(value: int) -> Any:
        return SYMBOLS.get(value, value) if symbolic else value

    def expr(arg: Any) -> Any:
        match arg:
            case Array():
                ty = TensorType(tuple(map(length, arg.shape)), arg.dtype)
                var = Var(f"x{len(arrays)}", typed(ty))
                arrays[var] = arg
                return var
            case Dims(values):
                return ShapeExpr(tuple(map(length, values)))
            case list() if any(isinstance(item, Array) for item in arg):
                return Tuple(tuple(map(expr, arg)))
            case _:
                return arg

    return op(*map(expr, sample.args), **sample.attrs), arrays


def lowered(call: Call, values: Mapping[Var, Any]) -> Any:
    """What a call's operator makes of the values of its variables."""
    assert isinstance(call.op, Op)
    assert call.op.lower is not None
    args, attrs = arguments(call)
    found = call.op.lower(*(None if a is None else evaluate(a, values) for a in args), **attrs)
    if call.op is get_op("relax.memory.to_host"):  # what is compared with it is on the device
        return jax.device_put(found, jax.memory.Space.Device)
    return found


def lowered_shapes(call: Call, arrays: Mapping[Var, Array]) -> Any:
    """The shapes and dtypes of what a call gives, for arrays like these."""
    values = [jax.ShapeDtypeStruct(a.shape, np_dtype(a.dtype)) for a in arrays.values()]
    return jax.eval_shape(lambda *xs: lowered(call, dict(zip(arrays, xs, strict=True))), *values)


def of_type(ty: Type | None, result: Any) -> bool:
    """Whether a type is that of a value; what it leaves unknown may be anything."""
    match ty:
        case TupleType(fields=fields):
            return len(fields) == len(result) and all(map(of_type, fields, result))
        case TensorType():
            return (
                ty.dtype in (None, str(result.dtype))
                and ty.ndim in (-1, result.ndim)
                and ty.dims in (None, result.shape)
            )
        case ShapeType():
            return ty.ndim in (-1, len(result))  # the integers themselves are traced here
        case _:
            return True


def evaluate(expr: Expr, env: Mapping[Var, Any], memo: dict[int, Any] | None = None) -> Any:
    """The value of nested calls, each run by its operator's lowering; shared parts run once."""
    memo = {} if memo is None else memo
    if id(expr) not in memo:
        memo[id(expr)] = _evaluated(expr, env, memo)
    return memo[id(expr)]


def _evaluated(expr: Expr, env: Mapping[Var, Any], memo: dict[int, Any]) -> Any:
    match expr:
        case Var():
            return env[expr]
        case Tuple(fields=fields):
            return tuple(evaluate(item, env, memo) for item in fields)
        case TupleGetItem(tuple_value=inner, index=index):
            return evaluate(inner, env, memo)[index]
        case Call(op=Op() as op):
            args, attrs = arguments(expr)
            assert op.lower is not None, f"{op.name} has no lowering"
            given = [None if arg is None else evaluate(arg, env, memo) for arg in args]
            return op.lower(*given, **attrs)
        case SeqExpr():
            inside = dict(env)
            for binding in expr.bindings():
                inside[binding.var] = evaluate(binding.value, inside, memo)
            return evaluate(expr.body, inside, memo)
        case Function():
            return _callable(expr, env)
        case _:
            return _literal(expr)


def _literal(expr: Expr) -> Any:
    match expr:
        case Constant(data=data):
            with jax.ensure_compile_time_eval():
                return jnp.asarray(data)
        case ShapeExpr(values=values):
            return values
        case PrimExpr(value=value, dtype="float32"):
            return np.float32(value)
        case PrimExpr(value=value) | StringImm(value=value):
            return value
    raise TypeError(f"`{expr}` has no value")


def _callable(function: Function, env: Mapping[Var, Any]) -> Callable[..., Any]:
    """A function, such as the body of a loop, on values."""

    def run(*values: Any) -> Any:
        return evaluate(function.body, {**env, **dict(zip(function.params, values, strict=True))})

    return run


def fitted(partial: Any, arg: Any) -> Any:
    """A partial adjoint with what broadcasting repeated summed back."""
    if isinstance(arg, tuple):
        return tuple(map(fitted, partial, arg))
    extra = partial.ndim - arg.ndim
    axes = [a for a in range(partial.ndim) if a < extra or arg.shape[a - extra] != partial.shape[a]]
    return jnp.sum(partial, axes).reshape(arg.shape) if axes else partial


def partials(call: Call, out: Expr, g: Expr) -> list[Expr | None]:
    """What the gradient rule of a call's operator gives for its arguments."""
    assert isinstance(call.op, Op)
    rule = call.op.gradient
    args, attrs = arguments(call)
    if rule is None:
        raise LookupError(f"{call.op.name} has no gradient rule")
    if rule is ZERO_GRADIENT:
        return [None] * len(args)
    given = rule(g, out, *args, **attrs)
    found = [given] if isinstance(given, Expr) else list(given)
    assert len(found) == len(args), f"{call.op.name}: {len(found)} partials, {len(args)} arguments"
    asked = [p if p is None or isinstance(p, Expr) else p() for p in found]
    return [None if partial is None else opened(partial) for partial in asked]


def opened(expr: Expr) -> Expr:
    """An expression with the values of bindings where their variables stand."""
    match expr:
        case SeqExpr():
            values: dict[Var, Expr] = {}
            for binding in expr.bindings():
                values[binding.var] = substitute(opened(binding.value), values)
            return substitute(opened(expr.body), values)
        case Tuple(fields=fields):
            return replace(expr, fields=kept(fields, map(opened, fields)))
        case Call(args=args):
            return replace(expr, args=kept(args, map(opened, args)))
    return expr


def bound(call: Call) -> Var:
    """A variable for the result of a call."""
    return Var("out", call.ty)


def adjoint_vars(ty: Type | None) -> Expr:
    """Variables for an adjoint of a type: one, or a tuple of them."""
    if isinstance(ty, TupleType):
        return Tuple(tuple(adjoint_vars(item) for item in ty.fields))
    return Var("g", ty)


def reverse(
    expr: Expr, seed: Any, env: Mapping[Var, Any], memo: dict[int, Any] | None = None
) -> dict[Var, Any]:
    """The adjoints of the variables of nested calls, by the operators' own gradient rules.

    `memo` is what `evaluate` filled where it has run them before.
    """
    memo = {} if memo is None else memo
    evaluate(expr, env, memo)
    adjoints: dict[int, Any] = {id(expr): seed}
    found: dict[Var, Any] = {}
    for item in _outside_in(expr):
        if id(item) not in adjoints:
            continue
        g = adjoints[id(item)]
        for part, adjoint in _handed_on(item, g, memo):
            before = adjoints.get(id(part))
            adjoints[id(part)] = (
                adjoint if before is None else jax.tree.map(jnp.add, before, adjoint)
            )
            if isinstance(part, Var):
                found[part] = adjoints[id(part)]
    return found


def _handed_on(item: Expr, g: Any, memo: Mapping[int, Any]) -> list[tuple[Expr, Any]]:
    match item:
        case Tuple(fields=fields):
            return list(zip(fields, g, strict=True))
        case TupleGetItem(tuple_value=inner, index=index):
            zeros = [jax.tree.map(jnp.zeros_like, v) for v in memo[id(inner)]]
            return [(inner, tuple(g if i == index else z for i, z in enumerate(zeros)))]
        case Call():
            return _through_rule(item, g, memo)
    return []


def _through_rule(call: Call, g: Any, memo: Mapping[int, Any]) -> list[tuple[Expr, Any]]:
    """The adjoints of a call's arguments, with variables in the place of all that is known."""
    args = arguments(call)[0]
    out, env = bound(call), dict[Var, Any]()
    g_expr = adjoint_vars(call.ty)
    assign(out, memo[id(call)], env)
    assign(g_expr, g, env)
    known = dict(memo)
    results = []
    for arg, partial in zip(args, partials(call, out, g_expr), strict=True):
        if arg is not None and partial is not None and has_slope(arg.ty):
            value = evaluate(partial, env, known)
            results.append((arg, fitted(value, memo[id(arg)])))
    return results


def assign(expr: Expr, value: Any, env: dict[Var, Any]) -> None:
    """Bind the variables of `expr` to the parts of a value."""
    if isinstance(expr, Tuple):
        for item, part in zip(expr.fields, value, strict=True):
            assign(item, part, env)
    else:
        assert isinstance(expr, Var)
        env[expr] = value


def has_slope(ty: Type | None) -> bool:
    """Whether a value of the type can have a derivative."""
    if isinstance(ty, TupleType):
        return any(map(has_slope, ty.fields))
    return isinstance(ty, TensorType) and is_float(ty.dtype)


def _outside_in(expr: Expr) -> list[Expr]:
    """Every part of nested calls, each once, after all that use it."""
    order: list[Expr] = []
    seen: set[int] = set()

    def visit(item: Expr) -> None:
        if id(item) in seen:
            return
        seen.add(id(item))
        inside: Sequence[Expr] = ()
        match item:
            case Call(args=args):
                inside = args
            case Tuple(fields=fields):
                inside = fields
            case TupleGetItem(tuple_value=inner):
                inside = (inner,)
        for part in inside:
            visit(part)
        order.append(item)

    visit(expr)
    return order[::-1]
