"""Operators that say on which device of the module a value lies, or is computed."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Annotated, Any

import jax

from relaxjax.ir.expr import Expr
from relaxjax.ir.global_info import VDevice, named_device
from relaxjax.ir.types import LISTED, TensorType, device_name

from .cost_rules import MOVES, VIEWS
from .declare import op
from .emit import call, tensor_type
from .platform import platform_name
from .rearranging import LIKE_DATA

_PLACES: ContextVar[Mapping[str, Any]] = ContextVar("places", default=MappingProxyType({}))


@contextmanager
def devices_known(places: Mapping[str, jax.Device | jax.sharding.Sharding]) -> Iterator[None]:
    """Let programs that run inside move values to these devices: `{"cuda:0:global": device}`.

    A device that is not named here is taken for the one where the program runs.
    """
    token = _PLACES.set({device_name(name): place for name, place in places.items()})
    try:
        yield
    finally:
        _PLACES.reset(token)


def as_vdevice(value: Any) -> str:
    """A device by its name in full, from a name or from a module's `I.vdevice(...)`."""
    if isinstance(value, VDevice):
        return value.name
    if isinstance(value, str):
        return named_device(value)
    raise TypeError(
        f'must be a device such as "cuda:0" or I.vdevice("cuda"), '
        f"but `{value!r}` of type {type(value).__name__} was given"
    )


def as_device(value: Any) -> str:
    """A device by its kind and number: `cuda:0`. Its number is its own, in whatever list it is."""
    if isinstance(value, jax.Device):
        value = f"{platform_name(value)}:{value.id}"
    own = isinstance(value, str) and value.partition(":")[0] != LISTED
    return (device_name(value) if own else as_vdevice(value)).rpartition(":")[0]


def _moved(data: Any, dst_vdevice: str) -> Any:
    place = _PLACES.get().get(dst_vdevice)
    return data if place is None else jax.device_put(data, place)


def _moved_back(g: Expr, y: Expr, data: Expr, dst_vdevice: str) -> Expr:
    home = tensor_type(data).vdevice
    return g if home is None else call("to_vdevice", g, home)


@op(
    "relax.to_vdevice",
    layout=LIKE_DATA,
    lower=_moved,
    gradient=_moved_back,
    jvp=lambda tangents, y, data, dst_vdevice: call("to_vdevice", tangents[0], dst_vdevice),
    precision="follow",
    facts={"placement": True},
    cost=MOVES,
)
def to_vdevice(data: TensorType, dst_vdevice: Annotated[str, as_vdevice]) -> TensorType:
    """`data` on another device of the module; its adjoint goes back to where `data` is."""
    ndim = data.ndim if data.shape is None else -1
    return TensorType(data.shape, data.dtype, ndim, dst_vdevice)


@op(
    "relax.hint_on_device",
    layout=LIKE_DATA,
    lower=lambda data, dst_vdevice, memory_scope: data,
    gradient=lambda g, y, data, **device: call("hint_on_device", g, **device),
    jvp=lambda tangents, y, data, **device: call("hint_on_device", tangents[0], **device),
    precision="follow",
    facts={"placement": True},
    cost=VIEWS,
)
def hint_on_device(
    data: TensorType, dst_vdevice: Annotated[str, as_device], memory_scope: str = "global"
) -> TensorType:
    """`data`, with the advice to compute it on a device, which a pass may take."""
    return data
