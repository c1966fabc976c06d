"""What the type of a value says of it as a tensor: its dtype, its number of axes, their lengths."""

from .dims import Dim
from .expr import Expr
from .types import TensorType, Type, is_float


def known_dtype(expr: Expr) -> str | None:
    return expr.ty.dtype if isinstance(expr.ty, TensorType) else None


def known_ndim(expr: Expr) -> int:
    """The number of axes, -1 where it is not known or the value is no tensor."""
    return expr.ty.ndim if isinstance(expr.ty, TensorType) else -1


def known_dims(expr: Expr) -> tuple[Dim, ...] | None:
    return expr.ty.dims if isinstance(expr.ty, TensorType) else None


def static_dims(ty: Type | None) -> tuple[int, ...] | None:
    """The shape in a tensor's type where all of it is known in numbers."""
    if not isinstance(ty, TensorType) or ty.dims is None:
        return None
    numbers = tuple(dim for dim in ty.dims if isinstance(dim, int))
    return numbers if len(numbers) == len(ty.dims) else None


def has_floats(ty: Type | None) -> bool:
    """Whether it is of numbers with a point, of which there are some."""
    return isinstance(ty, TensorType) and is_float(ty.dtype) and 0 not in (ty.dims or (0,))
