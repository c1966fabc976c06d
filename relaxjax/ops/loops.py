"""Loops whose body is a Relax function."""

from typing import Any

from jax import lax

from relaxjax.ir.dims import Dim, can_prove_different
from relaxjax.ir.lattice import Fit, fits
from relaxjax.ir.types import FuncType, TensorType, TupleType, Type

from .declare import OpError, op


def _scan(body: Any, init: Any, xs: Any, length: int | None, reverse: bool) -> Any:
    return lax.scan(lambda carry, x: body(carry, x), init, xs, length=length, reverse=reverse)


@op("relax.scan", lower=_scan, facts={"loop": True})
def scan(
    body: FuncType,
    init: Type,
    xs: Type,
    length: int | None = None,
    reverse: bool = False,
) -> TupleType:
    """A loop over the leading dimension of `xs`: `body(carry, x) -> (carry, y)`.

    The carry starts as `init`; the result is the last carry, and the y of all steps stacked. `xs`
    is a tensor or a tuple of tensors; where it is the empty tuple, `length` says how many steps
    there are. With `reverse` the last x comes first. The body is a function of the module or one
    defined on the spot, which may use the variables around it.
    """
    steps = _steps(xs, length)
    if body.params is None or len(body.params) != 2:
        raise OpError(f"`body` must take a carry and an x, but it is of type {body}")
    if not isinstance(body.ret, TupleType) or len(body.ret.fields) != 2:
        raise OpError(f"`body` must return a carry and a y, but it returns {body.ret}")
    carry, y = body.ret.fields
    wanted_carry, wanted_x = body.params
    for name, given, wanted in (
        ("init", init, wanted_carry),
        ("xs", _each(xs, _unstacked), wanted_x),
        ("the carry that `body` returns", carry, wanted_carry),
    ):
        if fits(given, wanted) is Fit.NEVER:
            what = "each step of `xs`" if name == "xs" else name.replace("init", "`init`")
            raise OpError(f"{what} must be of type {wanted}, which `body` takes, found {given}")
    return TupleType((wanted_carry, _each(y, lambda ty: _stacked(ty, steps))))


def _steps(xs: Type, length: Dim | None) -> Dim:
    """How many steps there are, as the tensors of `xs` or `length` say."""
    found = [length] if length is not None else []
    found += [ty.dims[0] for ty in _leaves(xs) if ty.dims]
    if not found:
        raise OpError("`xs` holds no tensor of known shape: give the number of steps as `length`")
    for steps in found[1:]:
        if can_prove_different(found[0], steps):
            raise OpError(f"the number of steps must be the same, found {found[0]} and {steps}")
    return found[0]


def _leaves(ty: Type) -> list[TensorType]:
    if isinstance(ty, TupleType):
        return [leaf for field in ty.fields for leaf in _leaves(field)]
    if not isinstance(ty, TensorType) or ty.ndim == 0:
        raise OpError(f"`xs` must be of tensors with a leading dimension, found {ty}")
    return [ty]


def _each(ty: Type, change: Any) -> Type:
    """A type with each of its tensors changed."""
    if isinstance(ty, TupleType):
        return TupleType(tuple(_each(field, change) for field in ty.fields))
    changed: Type = change(ty) if isinstance(ty, TensorType) else ty
    return changed


def _unstacked(ty: TensorType) -> TensorType:
    if ty.dims is None:
        return TensorType(None, ty.dtype, ty.ndim - 1 if ty.ndim > 0 else -1)
    return TensorType(ty.dims[1:], ty.dtype)


def _stacked(ty: TensorType, steps: Dim) -> TensorType:
    if ty.dims is None:
        return TensorType(None, ty.dtype, ty.ndim + 1 if ty.ndim >= 0 else -1)
    return TensorType((steps, *ty.dims), ty.dtype)
