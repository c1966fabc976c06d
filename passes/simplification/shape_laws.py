"""Laws of shapes: what is moved back, reshaped twice, or broadcast and summed."""

from relaxjax.ir.expr import Call, Expr, ShapeExpr
from relaxjax.ir.laws import law
from relaxjax.ir.op import Op, get_op
from relaxjax.ir.types import TensorType
from relaxjax.ir.uses import Uses
from relaxjax.ops.shapes import element_count, normalize_axes

from .tensors import count_ratio, same_type, times

_RESHAPES = ("relax.reshape", "relax.expand_dims", "relax.squeeze", "relax.flatten")


@law("relax.permute_dims")
def permuted(call: Call, op: Op, known: Uses) -> Expr | None:
    """Axes put back in place are not moved; two permutations are one."""
    if not isinstance(call.args[0].ty, TensorType):
        return None
    ndim = call.args[0].ty.ndim
    if ndim < 0:
        return None
    axes = _permutation(call, ndim)
    if axes == list(range(ndim)):
        return call.args[0]
    inner = known.call(call.args[0], "relax.permute_dims")
    if inner is None:
        return None
    first = _permutation(inner, ndim)
    return get_op("relax.permute_dims")(inner.args[0], [first[axis] for axis in axes])


@law(*_RESHAPES)
def reshaped(call: Call, op: Op, known: Uses) -> Expr | None:
    """A shape that a tensor has is not given to it; the last of several shapes counts."""
    if same_type(call.args[0], call):
        return call.args[0]
    for name in _RESHAPES:
        inner = known.call(call.args[0], name)
        if inner is not None and isinstance(call.ty, TensorType) and call.ty.dims is not None:
            x = inner.args[0]
            if same_type(x, call):
                return x
            return get_op("relax.reshape")(x, ShapeExpr(call.ty.dims))
    return None


@law("lax.reshape", "lax.reduce_sum")
def reshaped_as_in_jax(call: Call, op: Op, known: Uses) -> Expr | None:
    """The same of JAX's reshape; and to sum over axes of length 1 is to reshape.

    So the gradient of what is added to each row, such as a bias, is one sum and no more.
    """
    if not isinstance(call.ty, TensorType):
        return None
    x, dims = call.args[0], call.ty.dims
    if not isinstance(x.ty, TensorType) or x.ty.dims is None or dims is None or _turns(call):
        return None
    if op.name == "lax.reduce_sum" and any(x.ty.dims[axis] != 1 for axis in call.attrs["axes"]):
        return None
    inner = known.call(x, "lax.reshape")
    inner = None if inner is None or _turns(inner) else inner
    source = x if inner is None else inner.args[0]
    if same_type(source, call):
        return source
    if op.name == "lax.reshape" and inner is None:
        return None
    return get_op("lax.reshape")(source, new_sizes=list(dims))


def _turns(call: Call) -> bool:
    """Whether a reshape of JAX's takes the axes in another order first."""
    return call.attrs.get("dimensions") is not None


@law("relax.broadcast_to", "relax.collapse_sum_to", "relax.collapse_sum_like")
def broadcast_away(call: Call, op: Op, known: Uses) -> Expr | None:
    """Nothing is broadcast or summed to the shape that it has; one broadcast serves for two."""
    if same_type(call.args[0], call):
        return call.args[0]
    inner = known.call(call.args[0], "relax.broadcast_to")
    if op.name == "relax.broadcast_to" and inner is not None:
        return get_op("relax.broadcast_to")(inner.args[0], call.args[1])
    return None


@law("relax.collapse_sum_to")
def sum_of_repeats(call: Call, op: Op, known: Uses) -> Expr | None:
    """The sum of a broadcast tensor back to its own shape is a multiple of it."""
    inner = known.call(call.args[0], "relax.broadcast_to")
    if inner is None or not same_type(inner.args[0], call):
        return None
    count = count_ratio(call.args[0], call)
    if count is None:
        return None
    return times(inner.args[0], count) if count != 1 else inner.args[0]


@law("relax.sum", "relax.mean")
def sum_of_broadcast(call: Call, op: Op, known: Uses) -> Expr | None:
    """The sum of what is repeated along an axis is a multiple of it, the mean is it itself."""
    inner = known.call(call.args[0], "relax.broadcast_to")
    if inner is None or not isinstance(inner.ty, TensorType) or not isinstance(call.ty, TensorType):
        return None
    x, ty = inner.args[0], inner.args[0].ty
    if not isinstance(ty, TensorType) or None in (ty.dims, inner.ty.dims, call.ty.dims):
        return None
    dims, wide = ty.dims or (), inner.ty.dims or ()
    given, new = call.attrs["axis"], len(wide) - len(dims)
    axes = range(len(wide)) if given is None else normalize_axes(given, len(wide))
    repeated = [axis for axis in axes if axis < new or dims[axis - new] != wide[axis]]
    count = element_count([wide[axis] for axis in repeated])
    if not repeated or not isinstance(count, int) or count == 0:
        return None
    left = [axis - new for axis in axes if axis not in repeated]
    partial = op(x, axis=left, keepdims=True) if left else x
    less = times(partial, count) if op.name == "relax.sum" else partial
    if less is None:
        return None
    sizes = [1] * new + [
        1 if axis - new in left else dims[axis - new] for axis in range(new, len(wide))
    ]
    kept = [d for axis, d in enumerate(sizes) if axis not in axes or call.attrs["keepdims"]]
    reshaped = get_op("relax.reshape")(less, ShapeExpr(tuple(kept)))
    return get_op("relax.broadcast_to")(reshaped, ShapeExpr(call.ty.dims or ()))


def _permutation(call: Call, ndim: int) -> list[int]:
    axes = call.attrs["axes"]
    return list(reversed(range(ndim))) if axes is None else [axis % ndim for axis in axes]
