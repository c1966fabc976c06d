"""The types of what a loop runs over: stacks of tensors, in tuples too."""

from relaxjax.ir.dims import Dim, can_prove_different
from relaxjax.ir.expr import Call
from relaxjax.ir.types import TensorType, TupleType, Type

from .declare import OpError


def steps_of(xs: Type, length: Dim | None) -> Dim:
    """How many steps there are, as the tensors of `xs` or `length` say."""
    found = [length] if length is not None else []
    found += [ty.dims[0] for ty in leaves(xs) if ty.dims]
    if not found:
        raise OpError("`xs` holds no tensor of known shape: give the number of steps as `length`")
    for steps in found[1:]:
        if can_prove_different(found[0], steps):
            raise OpError(f"the number of steps must be the same, found {found[0]} and {steps}")
    return found[0]


def steps_of_loop(call: Call) -> Dim:
    """How many steps the call of a loop has."""
    xs = call.args[2].ty
    assert xs is not None
    return steps_of(xs, call.attrs["length"])


def known_steps_of(call: Call) -> int | None:
    """How many steps the call of a loop has, if that is known."""
    count = steps_of_loop(call)
    return count if isinstance(count, int) else None


def leaves(ty: Type) -> list[TensorType]:
    if isinstance(ty, TupleType):
        return [leaf for field in ty.fields for leaf in leaves(field)]
    if not isinstance(ty, TensorType) or ty.ndim == 0:
        raise OpError(f"`xs` must be of tensors with a leading dimension, found {ty}")
    return [ty]


def unstacked(ty: TensorType) -> TensorType:
    if ty.dims is None:
        return TensorType(None, ty.dtype, ty.ndim - 1 if ty.ndim > 0 else -1)
    return TensorType(ty.dims[1:], ty.dtype)


def stacked(ty: TensorType, steps: Dim) -> TensorType:
    if ty.dims is None:
        return TensorType(None, ty.dtype, ty.ndim + 1 if ty.ndim >= 0 else -1)
    return TensorType((steps, *ty.dims), ty.dtype)
