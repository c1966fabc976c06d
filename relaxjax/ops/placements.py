"""Where the result of an operator lies, as far as its arguments' placements tell it.

An operator that says nothing has a result of unknown placement, but for elementwise ones: their
result lies as their arguments do, where those agree.
"""

from collections.abc import Callable
from typing import TypeAlias

from relaxjax.ir.device_mesh import Placement
from relaxjax.ir.expr import Call, Constant
from relaxjax.ir.node import replace
from relaxjax.ir.op import Op
from relaxjax.ir.tensor_types import known_ndim
from relaxjax.ir.tuples import each_tensor, tensors_in
from relaxjax.ir.types import TensorType, Type

# Gives the placement of a call's result, which is of the type beside it.
PlacementRule: TypeAlias = Callable[[Call, TensorType], Placement | None]


def with_placement(ty: Type, call: Call) -> Type:
    """The inferred type of a call, with the placement that the operator's rule gives it."""
    assert isinstance(call.op, Op)
    rule: PlacementRule | None = call.op.places
    if rule is None and not any(_is_placed(arg.ty) for arg in call.args):
        return ty
    chosen = rule or (_as_arguments if call.op.facts.get("elementwise") else _unknown)
    return each_tensor(ty, lambda tensor: replace(tensor, placement=chosen(call, tensor)))


def as_stated(call: Call, ty: TensorType) -> Placement | None:
    """Of what says in its type where its result lies."""
    return ty.placement


def placement_of(call: Call, index: int) -> Placement | None:
    """The placement of an argument."""
    ty = call.args[index].ty
    return ty.placement if isinstance(ty, TensorType) else None


def permuted(call: Call, ty: TensorType) -> Placement | None:
    """Of `permute_dims`: each part follows its dimension."""
    placement, axes = placement_of(call, 0), call.attrs["axes"]
    if placement is None or ty.ndim < 0:
        return None
    order = tuple(reversed(range(ty.ndim))) if axes is None else [a % ty.ndim for a in axes]
    return placement.moved([order.index(dim) for dim in range(ty.ndim)])


def of_product(call: Call, ty: TensorType) -> Placement | None:
    """Of a product with a matrix: rows as on the left, columns as on the right, nothing summed."""
    left, right = placement_of(call, 0), placement_of(call, 1)
    ndim, of_right = (known_ndim(arg) for arg in call.args)
    if left is None or right is None or left.mesh != right.mesh or ndim < 2 or of_right != 2:
        return None
    rows = left.moved([*range(ndim - 1), None])
    columns = right.moved([None, ndim - 1])
    if rows is None or columns is None:
        return None
    parts = [r if c is None else c for r, c in zip(rows.parts, columns.parts, strict=True)]
    both = any(None not in pair for pair in zip(rows.parts, columns.parts, strict=True))
    return None if both else Placement(left.mesh, tuple(parts))


def _as_arguments(call: Call, ty: TensorType) -> Placement | None:
    """The placement of the argument that is parted most, where the others are parted no other way.

    What all devices have, such as a bias, is no hindrance, nor are numbers.
    """
    tensors = [arg.ty for arg in call.args if not isinstance(arg, Constant)]
    found = [_spread(arg, ty) for arg in tensors if isinstance(arg, TensorType) and arg.ndim]
    if not found:
        return None
    most = max(found, key=lambda placement: len(placement.axes) if placement else 0)
    return most if most and all(_is_covered(other, most) for other in found) else None


def _is_covered(placement: Placement | None, by: Placement) -> bool:
    """Whether each axis parts what it parts there, or nothing."""
    if placement is None or placement.mesh != by.mesh:
        return False
    return all(own in (None, other) for own, other in zip(placement.parts, by.parts, strict=True))


def _spread(arg: TensorType, ty: TensorType) -> Placement | None:
    if arg.placement is None or -1 in (arg.ndim, ty.ndim):
        return None
    first, dims = ty.ndim - arg.ndim, arg.dims or (None,) * arg.ndim
    # A dimension of 1 is repeated where the result has more: what parted it parts that no longer.
    return arg.placement.moved([None if dim == 1 else first + i for i, dim in enumerate(dims)])


def _unknown(call: Call, ty: TensorType) -> None:
    return None


def _is_placed(ty: Type | None) -> bool:
    return any(tensor.placement is not None for _, tensor in tensors_in(ty))
