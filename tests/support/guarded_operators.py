"""The elementwise operators of random programs, guarded where they grow fast or a domain ends."""

from collections.abc import Callable
from typing import Any, TypeAlias

import relaxjax.ops  # noqa: F401  # enters the operators into the table
from relaxjax.ir import Expr, TensorType, Type
from relaxjax.ir.dims import Dim
from relaxjax.ops.emit import call, scalar, where

Unary: TypeAlias = Callable[[Expr], Expr]
Binary: TypeAlias = Callable[[Expr, Expr], Expr]


def bounded(x: Expr) -> Expr:
    return call("sin", x)


def positive(x: Expr) -> Expr:
    return scalar(1.25, x) + bounded(x)


def _of(name: str, **attrs: Any) -> Unary:
    return lambda x: call(name, x, **attrs)


def _after(guard: Unary, name: str) -> Unary:
    return lambda x: call(name, guard(x))


UNARY: dict[str, Unary] = {
    **{
        name: _of(name)
        for name in (
            *("sin", "cos", "tanh", "sigmoid", "abs", "negative", "atan", "asinh", "erf"),
            *("nn.relu", "nn.silu", "nn.gelu", "nn.gelu_tanh", "nn.leakyrelu", "nn.selu"),
            *("nn.softplus", "floor", "sign", "round", "zeros_like", "ones_like"),
        )
    },
    **{name: _after(bounded, name) for name in ("exp", "sinh", "cosh", "square", "tan")},
    **{name: _after(positive, name) for name in ("log", "sqrt", "rsqrt")},
    "clip": lambda x: call("clip", x, -0.7123, 0.8231),
    "reciprocal": lambda x: scalar(1, x) / positive(x),
}

BINARY: dict[str, Binary] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * bounded(y),
    "product": lambda x, y: bounded(x) * y,
    "divide": lambda x, y: x / positive(y),
    "maximum": lambda x, y: call("maximum", x, y),
    "minimum": lambda x, y: call("minimum", x, y),
    "power": lambda x, y: call("power", positive(x), bounded(y)),
    "log_add_exp": lambda x, y: call("log_add_exp", x, y),
    "atan2": lambda x, y: call("atan2", x, positive(y)),
    "where": lambda x, y: where(x < y, x * scalar(1.5, x), y),
    "floor_mod": lambda x, y: call("floor_mod", x, scalar(0.731, y)) + y,
}


def tensor(x: Expr) -> TensorType:
    assert isinstance(x.ty, TensorType), f"`{x}` is of type {x.ty}"
    return x.ty


def dims_of(ty: Type) -> tuple[Dim, ...]:
    assert isinstance(ty, TensorType)
    assert ty.dims is not None
    return ty.dims


def broadcast(x: TensorType, y: TensorType) -> bool:
    """Whether two types are known to broadcast."""
    pairs = zip(reversed(dims_of(x)), reversed(dims_of(y)), strict=False)
    return all(a == b or 1 in (a, b) for a, b in pairs)
