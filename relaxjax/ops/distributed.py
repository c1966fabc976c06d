"""Where values lie on a mesh of devices: `R.dist.annotate_sharding`, `R.dist.redistribute`."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from relaxjax.ir.device_mesh import DeviceMesh, Placement, as_mesh, parts_text, placement_parts
from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.layout import Order
from relaxjax.ir.node import replace
from relaxjax.ir.op import GradientRule, Op
from relaxjax.ir.types import TensorType

from .cost_rules import MOVES
from .declare import OpError, op
from .emit import call
from .meshes import constrained
from .placements import as_stated
from .rearranging import carrying, moved_axes


def as_placement(value: Any) -> str:
    """The text of a placement, as all of them are written."""
    if not isinstance(value, str):
        raise TypeError(f'must be a text such as "S[0], R", but {value!r} was given')
    return parts_text(placement_parts(value))


def placement_in(attrs: Mapping[str, Any]) -> Placement:
    """The placement that the attributes of a call say."""
    return Placement(attrs["device_mesh"], placement_parts(attrs["placement"]))


def _constrained(data: Any, **where: Any) -> Any:
    return constrained(data, placement_in(where))


def _rearranged(one: Call, order: Order) -> tuple[Mapping[str, Any], Order]:
    parts = placement_parts(one.attrs["placement"])
    places = moved_axes(range(len(order)), order)
    moved = [None if dim is None else places[dim] for dim in parts]
    return {"placement": parts_text(moved)}, order


def _placing(name: str, gradient: GradientRule) -> Callable[[Callable[..., TensorType]], Op]:
    """An operator that says where a value lies; so does its tangent."""
    return op(
        f"relax.{name}",
        layout=carrying(_rearranged, keeps_rank=True),
        lower=_constrained,
        gradient=gradient,
        jvp=lambda tangents, y, data, **where: call(name, tangents[0], **where),
        precision="follow",
        facts={"placement": True},
        places=as_stated,
        cost=MOVES,
    )


@_placing(
    "dist.annotate_sharding",
    lambda g, y, data, **where: call("dist.annotate_sharding", g, **where),
)
def annotate_sharding(
    data: TensorType,
    device_mesh: Annotated[DeviceMesh, as_mesh],
    placement: Annotated[str, as_placement],
) -> TensorType:
    """`data`, which is to lie on the devices of a mesh as `placement` says; so is its adjoint.

    The placement has for each axis of the mesh the dimension that it parts, `S[0]`, or `R` where
    all devices along it have the same. XLA moves what has to be moved, and places all other values.
    """
    return _lying(data, device_mesh, placement)


def _moved_back(g: Expr, y: Expr, data: Expr, **where: Any) -> Expr:
    """The adjoint lies where the argument does, as far as its type says that."""
    place = data.ty.placement if isinstance(data.ty, TensorType) else None
    if place is None:
        return g
    return call("dist.redistribute", g, device_mesh=place.mesh, placement=place.text)


@_placing("dist.redistribute", _moved_back)
def redistribute(
    data: TensorType,
    device_mesh: Annotated[DeviceMesh, as_mesh],
    placement: Annotated[str, as_placement],
) -> TensorType:
    """`data`, moved to where `placement` says on a mesh; its adjoint is moved back.

    Unlike annotate_sharding, it leaves open where the adjoint of its result lies: it goes to where
    the type of `data` says that this lies.
    """
    return _lying(data, device_mesh, placement)


def _lying(data: TensorType, device_mesh: DeviceMesh, placement: str) -> TensorType:
    try:
        return replace(data, placement=Placement(device_mesh, placement_parts(placement)))
    except ValueError as error:
        raise OpError(f"`placement` must fit the mesh and `data`: {error}") from None
