"""Whether a gradient and a tangent of one's own belong together: the dot-product test.

For any cotangent u and tangent v, <u, Jv> and <J'u, v> are the same number.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.derivatives import CUSTOM_FORWARD, carries_gradient
from relaxjax.ir.expr import Call, Expr, Var
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.op import Op
from relaxjax.ir.types import TensorType, TupleType, Type
from relaxjax.ir.walk import post_order
from relaxjax.lowering import to_jax
from relaxjax.lowering.trial import (
    all_float,
    difference,
    inner,
    random_arguments,
    spread_like,
    wide_enough_for,
)

from .adjoint import GradientError
from .gradient import Gradient
from .jvp import Jvp


def check_function_rules(mod: IRModule, name: str, gradient: str, jvp: str) -> None:
    """Compare the functions that are the derivatives of another, at random arguments."""
    params = mod[name].params
    args = random_arguments(params, seed=0)
    with wide_enough_for(args):
        value = to_jax(mod, name)(*args)
        primals = [a for a, p in zip(args, params, strict=True) if carries_gradient(p.ty)]
        u, v = spread_like(value), spread_like(primals, start=1)
        result, tangent = to_jax(mod, jvp)(*args, *v)
        forward = mod[name].attrs.get(CUSTOM_FORWARD)
        saved = () if forward is None else (to_jax(mod, forward)(*args)[1],)
        back = to_jax(mod, gradient)(*args, *saved, u)
    wrong = difference(result, value)
    if wrong:
        raise GradientError(f"the jvp `{jvp}` of `{name}` gives another result than it: {wrong}")
    what = f"the gradient `{gradient}` and the jvp `{jvp}` of `{name}`"
    _compare(what, inner(u, tangent), inner(back, v))


def check_operator_rules(mod: IRModule, operator: Op) -> None:
    """Compare the rules of an operator at random arguments, for each of its calls in a module."""
    for call in _calls(mod, operator):
        params, expr = _as_function_of_tensors(call)
        if not params:
            continue
        builder = BlockBuilder()
        with builder.function("main", params):
            builder.emit_func_output(builder.emit(expr))
        alone = builder.get()
        names = [param.name for param in params if carries_gradient(param.ty)]
        args = random_arguments(params, seed=0)
        with wide_enough_for(args):
            primals = [a for a, p in zip(args, params, strict=True) if p.name in names]
            v = spread_like(primals, start=1)
            value, tangent = to_jax(Jvp("main", names)(alone), "main_jvp")(*args, *v)
            u = spread_like(value)
            adjoint = Gradient("main", names, cotangent=True)(alone)
            _, back = to_jax(adjoint, "main_adjoint")(*args, u)
        what = f"the gradient and the jvp of {operator.name} in `{call}`"
        _compare(what, inner(u, tangent), inner(list(back), v))


def _compare(what: str, forward: float, backward: float) -> None:
    wrong = difference(np.asarray(backward, "float32"), np.asarray(forward, "float32"), least=1)
    if wrong:
        raise GradientError(
            f"{what} do not belong together: for a cotangent u and a tangent v, <u, Jv> is "
            f"{forward:.6g}, but <J'u, v> is {backward:.6g}"
        )


def _calls(mod: IRModule, operator: Op) -> Iterator[Call]:
    """The calls of an operator whose result can be differentiated, one for each way of calling."""
    seen: set[Any] = set()
    for function in mod.relax_functions().values():
        for expr in post_order(function):
            if isinstance(expr, Call) and expr.op is operator and all_float(expr.ty):
                key = tuple(arg.ty for arg in expr.args), expr.attrs
                if key not in seen:
                    seen.add(key)
                    yield expr


def _as_function_of_tensors(call: Call) -> tuple[list[Var], Expr]:
    """A call with parameters for its tensors; no parameters where one is not known."""
    params: list[Var] = []
    args: list[Expr] = []
    for arg in call.args:
        if isinstance(arg, Var):
            if not _is_known(arg.ty):
                return [], call
            params.append(Var(f"x{len(params)}", arg.ty))
            args.append(params[-1])
        else:
            args.append(arg)
    return params, replace(call, args=tuple(args))


def _is_known(ty: Type | None) -> bool:
    if isinstance(ty, TupleType):
        return all(map(_is_known, ty.fields))
    return isinstance(ty, TensorType) and ty.dims is not None and ty.dtype is not None
