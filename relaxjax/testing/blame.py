"""Whose rule is wrong: each operator that a function calls, checked at the values that occur."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax.core import Tracer

from relaxjax.ir.attrs import Attrs
from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Call, Expr, PrimExpr, ShapeExpr, StringImm, Tuple, Var
from relaxjax.ir.function import Binding
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import Op, arguments
from relaxjax.ir.span import Span, excerpt_of
from relaxjax.ir.types import PrimType, ShapeType, TensorType, TupleType, is_float
from relaxjax.lowering import to_jax
from relaxjax.lowering.arguments import as_jax
from relaxjax.lowering.interpreter import Frame, Interpreter
from relaxjax.lowering.trial import apart_from_jax, spread_like
from relaxjax.ops.lax import evaluate_attrs
from relaxjax.ops.tangent import has_tangent_rule, without_tangent
from relaxjax.passes import Gradient, Jvp


def faults_of_calls(mod: IRModule, name: str, args: Sequence[Any]) -> Iterator[str]:
    """A line for each operator whose gradient or tangent is wrong where the function calls it."""
    watcher = _Watcher(mod)
    with jax.disable_jit():  # so that the steps of loops have values
        watcher.run(mod[name], list(map(as_jax, args)), name, None)
    for seen in watcher.seen.values():
        yield from _faults(seen)


@dataclass(frozen=True)
class _Seen:
    """One call of an operator: as a function of its tensors alone, and their values."""

    op: Op
    module: IRModule
    values: list[Any]
    span: Span | None


class _Watcher(Interpreter):
    """Runs a function, and remembers every call of an operator with the values of its arguments.

    Of a call that is made again, in each step of a loop, those are the first.
    """

    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.seen: dict[Call, _Seen] = {}
        self.span: Span | None = None

    def binding(self, binding: Binding, frame: Frame) -> Any:
        self.span = binding.span
        return super().binding(binding, frame)

    def operator(self, call: Call, op: Op, frame: Frame) -> Any:
        if call not in self.seen and has_tangent_rule(op) and not without_tangent(op):
            self.remember(call, op, frame)
        return super().operator(call, op, frame)

    def remember(self, call: Call, op: Op, frame: Frame) -> None:
        args, attrs = arguments(call)
        values = [None if arg is None else self.value(arg, frame) for arg in args]
        leaves = jax.tree.leaves(values)
        if any(callable(leaf) or isinstance(leaf, Tracer) for leaf in leaves):
            return  # a loop, or a step of one that is traced: it has no values of its own
        params: dict[Var, Any] = {}
        pairs = zip(args, values, strict=True)
        exprs = tuple(_expr(arg, value, params) for arg, value in pairs if arg is not None)
        known = Attrs(evaluate_attrs(attrs, frame.symbols.value))
        builder = BlockBuilder()
        with builder.function("main", list(params)):
            builder.emit_func_output(builder.emit(Call(op, exprs, known, call.ty_args)))
        self.seen[call] = _Seen(op, builder.get(), list(params.values()), self.span)


def _expr(arg: Expr, value: Any, params: dict[Var, Any]) -> Expr:
    """An argument again: tensors as parameters, whatever else as it came out."""
    match arg.ty:
        case TensorType():
            var = Var(f"x{len(params)}", TensorType(value.shape, str(value.dtype)))
            params[var] = value
            return var
        case TupleType() if isinstance(arg, Tuple):
            return Tuple(tuple(_expr(a, v, params) for a, v in zip(arg.fields, value, strict=True)))
        case TupleType(fields=types):
            fields = (Var("field", ty) for ty in types)
            return Tuple(tuple(_expr(a, v, params) for a, v in zip(fields, value, strict=True)))
        case ShapeType():
            return ShapeExpr(value)
        case PrimType(dtype=dtype):
            return PrimExpr(getattr(value, "item", lambda: value)(), dtype)
        case _:
            return StringImm(value) if isinstance(value, str) else arg


def _faults(seen: _Seen) -> Iterator[str]:
    """What is wrong with the rules of one operator at the values of one call."""
    floats = [i for i, value in enumerate(seen.values) if is_float(str(value.dtype))]
    if not floats:
        return
    run = to_jax(seen.module, "main")

    def forward(*moving: Any) -> Any:
        given = dict(zip(floats, moving, strict=True))
        result = run(*(given.get(i, value) for i, value in enumerate(seen.values)))
        return [leaf for leaf in jax.tree.leaves(result) if is_float(str(leaf.dtype))]

    place = excerpt_of(seen.span)
    values = [seen.values[index] for index in floats]
    directions = spread_like(values)

    def pushed_by_jax(values: Any, directions: Any) -> Any:
        return jax.jvp(forward, values, directions)[1]

    def pulled_by_jax(values: Any, cotangents: Any) -> Any:
        return list(jax.vjp(forward, *values)[1](cotangents))

    pushed = _tangent(seen, floats, directions)
    wrong = apart_from_jax(pushed, pushed_by_jax, (values, directions))
    if wrong:
        yield f"the tangent rule of {seen.op.name} is wrong: {wrong}{place}"
    cotangents = spread_like(forward(*values))
    found = _gradients(seen, floats, cotangents)
    if found is None:
        return
    wrong = apart_from_jax(found, pulled_by_jax, (values, cotangents))
    if wrong:
        yield f"the gradient rule of {seen.op.name} is wrong: {wrong}{place}"


def _tangent(seen: _Seen, floats: list[int], directions: list[Any]) -> list[Any]:
    pushed = Jvp("main", wrt=[f"x{index}" for index in floats])(seen.module)
    _, tangent = to_jax(pushed, "main_jvp")(*seen.values, *directions)
    results = to_jax(seen.module, "main")(*seen.values)
    pairs = zip(jax.tree.leaves(results), jax.tree.leaves(tangent), strict=True)
    return [moved for result, moved in pairs if is_float(str(result.dtype))]


def _gradients(seen: _Seen, floats: list[int], cotangents: list[Any]) -> list[Any] | None:
    """The gradients by the operator's rule; None where it gives integers too, or has no rule."""
    results = jax.eval_shape(to_jax(seen.module, "main"), *seen.values)
    leaves, tree = jax.tree.flatten(results)
    if len(leaves) != len(cotangents) or seen.op.gradient is None:
        return None
    names = [f"x{index}" for index in floats]
    adjoint = Gradient("main", require_grads=names, cotangent=True)(seen.module)
    seed = jax.tree.unflatten(tree, cotangents)
    return list(to_jax(adjoint, "main_adjoint")(*seen.values, seed)[1])
