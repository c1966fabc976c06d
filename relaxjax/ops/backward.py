"""Backward operators: JAX's derivative of an operator's lowering, under a name of its own.

For operators whose adjoint has no shorter formula. The backward program calls them as the forward
program calls the operator itself, so it stays as readable, and they can be differentiated in turn.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from relaxjax.ir.attrs import Attrs
from relaxjax.ir.expr import Call, Expr, TupleGetItem
from relaxjax.ir.layout import OPAQUE, LayoutRule
from relaxjax.ir.op import GradientRule, NoGradient, Op, Param, arguments, get_op, register
from relaxjax.ir.types import TensorType, TupleType, Type, is_float
from relaxjax.ir.wording import listed, quoted

from .declare import OpError
from .lax.choices import choosing_safely
from .lowered_cost import LOWERED
from .shapes import require_adjoint
from .traced import traced_gradient


def backward_name(forward: str) -> str:
    """The name of the backward operator of the operator `forward`."""
    return f"relax.grad.{forward.rpartition('.')[2]}_backward"


def backward_rule(forward: str, *active: str) -> GradientRule:
    """The gradient rule that calls the backward operator, for the arguments `active`."""

    def rule(g: Expr, y: Expr, *args: Expr | None, **attrs: Any) -> tuple[Expr | None, ...]:
        names = [param.name for param in get_op(forward).params if param.is_arg]
        given = dict(zip(names, args, strict=True))
        adjoints = get_op(backward_name(forward))(output_grad=g, **given, **attrs)
        found = [name for name in active if given[name] is not None and _has_slope(given[name])]
        if len(found) == 1:
            return tuple(adjoints if name in found else None for name in names)
        return tuple(
            TupleGetItem(adjoints, found.index(name)) if name in found else None for name in names
        )

    return rule


def backward_of(
    forward: Op,
    *active: str,
    lower: Callable[..., Any] | None = None,
    gradient: GradientRule | NoGradient | None = None,
    layout: LayoutRule = OPAQUE,
) -> Op:
    """Declare the backward operator of `forward`: the adjoints of the arguments `active`.

    It takes the adjoint of the result, then what `forward` takes. Its result is one tensor, or a
    tuple where it is the adjoints of several arguments.
    """
    name = backward_name(forward.name)
    names = [param.name for param in forward.params if param.is_arg]
    places = [names.index(item) for item in active]
    output_grad = Param("output_grad", True, _tensor_argument)
    return register(
        Op(
            name=name,
            params=(output_grad, *forward.params),
            infer=lambda call: _inferred(forward, call, places),
            doc=f"The adjoints of {quoted(active)} in {forward.name.removeprefix('relax.')}.",
            complete=_completed(forward),
            lower=lower or _pulled_back(forward, places),
            gradient=traced_gradient(name) if gradient is None else gradient,
            layout=layout,
            precision=forward.precision,
            fusion="opaque",
            cost=LOWERED,
        )
    )


def _tensor_argument(value: Any) -> Expr:
    if isinstance(value, Expr):
        return value
    raise TypeError(f"must be a Relax expression, but `{value!r}` was given")


def _completed(forward: Op) -> Callable[..., Any] | None:
    complete = forward.complete
    if complete is None:
        return None
    return lambda output_grad, **values: complete(**values)


def _has_slope(expr: Expr | None) -> bool:
    return expr is not None and isinstance(expr.ty, TensorType) and is_float(expr.ty.dtype)


def _inferred(forward: Op, call: Call, places: Sequence[int]) -> Type:
    (output_grad, *args), attrs = arguments(call)
    assert isinstance(call.op, Op)
    try:
        given = tuple(arg for arg in args if arg is not None)
        result = forward.infer(Call(forward, given, Attrs(attrs)))
        assert output_grad is not None
        if not isinstance(output_grad.ty, TensorType):
            raise OpError(
                f"`output_grad` must be a tensor, but `{output_grad}` is of type {output_grad.ty}"
            )
        require_adjoint(output_grad.ty, result)
    except OpError as error:
        what = str(error).removeprefix(f"{forward.name}: ")
        raise OpError(f"{call.op.name}: {what}") from None
    found = [args[place] for place in places]
    for place, arg in zip(places, found, strict=True):
        if arg is not None and isinstance(arg.ty, TensorType) and arg.ty.dtype is None:
            raise OpError(
                f"{call.op.name}: `{forward.params[place].name}` must have a known dtype, because "
                f"what is no float has no adjoint, found {arg.ty}"
            )
    types = tuple(arg.ty for arg in found if arg is not None and _has_slope(arg) and arg.ty)
    if not types:
        names = listed(forward.params[place].name for place in places)
        raise OpError(f"{call.op.name}: {names} must have a float dtype to have an adjoint")
    return types[0] if len(types) == 1 else TupleType(types)


def _pulled_back(forward: Op, places: Sequence[int]) -> Callable[..., Any]:
    """JAX's derivative of the forward lowering."""

    def lower(output_grad: Any, *args: Any, **attrs: Any) -> Any:
        active = [p for p in places if args[p] is not None and is_floating(args[p])]

        def function(*xs: Any) -> Any:
            given = list(args)
            for place, x in zip(active, xs, strict=True):
                given[place] = x
            assert forward.lower is not None
            return forward.lower(*given, **attrs)

        _, pullback = jax.vjp(choosing_safely(function), *(args[place] for place in active))
        adjoints = pullback(output_grad)
        return adjoints[0] if len(adjoints) == 1 else tuple(adjoints)

    return lower


def is_floating(x: Any) -> bool:
    """Whether an array has a float dtype."""
    return bool(jnp.issubdtype(x.dtype, jnp.floating))
