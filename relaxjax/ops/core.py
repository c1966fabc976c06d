"""Operators between tensors and shapes, and those with an effect: print and assert_op."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from relaxjax.ir.expr import Expr
from relaxjax.ir.op import ZERO_GRADIENT
from relaxjax.ir.types import ObjectType, PrimType, ShapeType, TensorType, TupleType

from .arrays import jax_dtype
from .cost_rules import MOVES, VIEWS
from .declare import OpError, op
from .plain_jax import require, show
from .shapes import require_ndim

_SEEN: dict[str, Any] = {"gradient": ZERO_GRADIENT, "precision": "follow", "cost": VIEWS}


@op("relax.shape_of", lower=lambda expr: expr.shape, **_SEEN)
def shape_of(expr: TensorType) -> ShapeType:
    """The shape of a tensor, as a shape."""
    return ShapeType(expr.dims, expr.ndim if expr.dims is None else -1)


def _tensor_to_shape(expr: Any) -> Any:
    try:
        return tuple(int(dim) for dim in np.asarray(expr))
    except jax.errors.TracerArrayConversionError:
        raise OpError(
            "a shape must be known when the program is compiled, "
            "but here it is computed: pass it to the function as an argument of type R.Shape"
        ) from None


@op("relax.tensor_to_shape", lower=_tensor_to_shape, facts={"data_dependent": True}, **_SEEN)
def tensor_to_shape(expr: TensorType) -> ShapeType:
    """The elements of a vector of integers, as a shape."""
    require_ndim("expr", expr, 1)
    length = expr.dims[0] if expr.dims is not None else -1
    return ShapeType(None, length if isinstance(length, int) else -1)


def _vector(dims: Any) -> Any:
    """Dimensions as a vector: a constant, unless JAX exports a program with symbolic ones."""
    dtype = jax_dtype("int64")
    if all(isinstance(dim, int) for dim in dims):
        with jax.ensure_compile_time_eval():
            return jnp.asarray(dims, dtype)
    parts = [jnp.asarray(dim).astype(dtype) for dim in dims]
    return jnp.stack(parts)


@op("relax.shape_to_tensor", lower=_vector, gradient=ZERO_GRADIENT, cost=VIEWS, precision="follow")
def shape_to_tensor(expr: ShapeType) -> TensorType:
    """The dimensions of a shape, as a vector of int64."""
    return TensorType(None if expr.ndim < 0 else (expr.ndim,), "int64", 1)


@op("relax.size", lower=lambda expr: jnp.asarray(expr.size).astype(jax_dtype("int64")), **_SEEN)
def size(expr: TensorType) -> TensorType:
    """The number of elements of a tensor, as a scalar of int64."""
    return TensorType((), "int64")


@op("relax.null_value", lower=lambda: None, gradient=ZERO_GRADIENT, cost=VIEWS, precision="follow")
def null_value() -> ObjectType:
    """Nothing, where a value must stand."""
    return ObjectType()


@op("relax.print", lower=show, gradient=ZERO_GRADIENT, pure=False, cost=MOVES, precision="follow")
def print_(*values: Expr, format: str = "") -> TupleType:
    """Write values to the standard output when the program runs.

    `format` is a format string of Python such as "x is {}"; without it, the values in a row.
    """
    return TupleType(())


@op(
    "relax.assert_op",
    lower=require,
    gradient=ZERO_GRADIENT,
    pure=False,
    cost=MOVES,
    precision="follow",
)
def assert_op(condition: Expr, *format_args: Expr, format: str = "") -> TupleType:
    """Stop the program where the condition, a scalar of dtype bool, is false.

    The error says "Assert Failed" and what `format` and its arguments say.
    """
    ty = condition.ty
    scalar = isinstance(ty, TensorType) and ty.ndim in (-1, 0) and ty.dtype in (None, "bool")
    if not scalar and not (isinstance(ty, PrimType) and ty.dtype == "bool"):
        raise OpError(f"`condition` must be a scalar of dtype bool, but its type is {ty}")
    return TupleType(())
