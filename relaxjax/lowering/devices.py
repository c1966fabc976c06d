"""Which devices a function's values are to be on, as far as the machine has them."""

from collections.abc import Iterator, Mapping

import jax

from relaxjax.ir.expr import Call
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import operator_name
from relaxjax.ir.tuples import tensors_in
from relaxjax.ir.types import TensorType, Type
from relaxjax.ir.walk import bound_vars, post_order

from .target import device
from .traits import reachable


def devices_of(mod: IRModule, name: str) -> Mapping[str, jax.Device]:
    """The devices that a function and those it calls name, such as `llvm:1:global`.

    One that this machine does not have is left out: what is to be there runs with the rest.
    """
    named = dict.fromkeys(d for _, function in reachable(mod, name) for d in _named(function))
    found = {vdevice: _device(vdevice) for vdevice in named}
    return {vdevice: known for vdevice, known in found.items() if known is not None}


def device_of(ty: Type | None, devices: Mapping[str, jax.Device]) -> jax.Device | None:
    """The device of a value of a type, None where its type does not say."""
    return devices.get(ty.vdevice or "") if isinstance(ty, TensorType) else None


def _named(function: Function) -> Iterator[str]:
    for var in bound_vars(function):
        yield from (ty.vdevice for _, ty in tensors_in(var.ty) if ty.vdevice is not None)
    for expr in post_order(function):
        if isinstance(expr, Call) and operator_name(expr) == "relax.to_vdevice":
            yield expr.attrs["dst_vdevice"]


def _device(name: str) -> jax.Device | None:
    kind, index, _ = name.split(":")
    try:
        return device(kind, int(index))
    except ValueError:
        return None
