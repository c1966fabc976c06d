"""What types leave open of the arguments of an operator, checked by what comes when it runs."""

from collections.abc import Sequence
from typing import Any

from relaxjax.ir.expr import Call, Expr, Var
from relaxjax.ir.op import typed
from relaxjax.ir.types import TensorType


def check_sizes(call: Call, given: Sequence[Expr | None], values: Sequence[Any]) -> None:
    """Raise where an operator would refuse the sizes that its arguments turn out to have.

    JAX would repeat what has the size one, and take no notice of what is too long.
    """
    args = [arg for arg in given if arg is not None]
    if not any(map(_is_open, args)):
        return
    found = [value for arg, value in zip(given, values, strict=True) if arg is not None]
    known = tuple(map(_with_sizes, args, found))
    typed(Call(call.op, known, call.attrs, call.ty_args))


def _is_open(arg: Expr) -> bool:
    """Whether a tensor's type leaves a size open."""
    ty = arg.ty
    return isinstance(ty, TensorType) and not (
        ty.dims is not None and all(isinstance(dim, int) for dim in ty.dims)
    )


def _with_sizes(arg: Expr, value: Any) -> Expr:
    """An argument of the sizes that its value has, where these are numbers."""
    shape = getattr(value, "shape", None)
    if not _is_open(arg) or shape is None or not all(isinstance(size, int) for size in shape):
        return arg
    assert isinstance(arg.ty, TensorType)
    return Var("x", TensorType(tuple(shape), arg.ty.dtype, vdevice=arg.ty.vdevice))
