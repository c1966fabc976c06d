"""Where values lie on a mesh of devices: `R.dist.annotate_sharding`."""

from collections.abc import Mapping
from typing import Annotated, Any

from relaxjax.ir.device_mesh import DeviceMesh, Placement, as_mesh, parts_text, placement_parts
from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.layout import Order
from relaxjax.ir.node import replace
from relaxjax.ir.types import TensorType

from .cost_rules import MOVES
from .declare import OpError, op
from .emit import call
from .meshes import constrained
from .placements import as_stated
from .rearranging import carrying, moved_axes

_NAME = "dist.annotate_sharding"


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


def _annotated_alike(g: Expr, y: Expr, data: Expr, **where: Any) -> Expr:
    """The adjoint lies where its value does."""
    return call(_NAME, g, **where)


def _rearranged(one: Call, order: Order) -> tuple[Mapping[str, Any], Order]:
    parts = placement_parts(one.attrs["placement"])
    places = moved_axes(range(len(order)), order)
    moved = [None if dim is None else places[dim] for dim in parts]
    return {"placement": parts_text(moved)}, order


@op(
    f"relax.{_NAME}",
    layout=carrying(_rearranged, keeps_rank=True),
    lower=_constrained,
    gradient=_annotated_alike,
    jvp=lambda tangents, y, data, **where: call(_NAME, tangents[0], **where),
    precision="follow",
    fusion="opaque",
    facts={"placement": True},
    places=as_stated,
    cost=MOVES,
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
    try:
        return replace(data, placement=Placement(device_mesh, placement_parts(placement)))
    except ValueError as error:
        raise OpError(f"`placement` must fit the mesh and `data`: {error}") from None
