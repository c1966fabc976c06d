"""Operators that move values to the memory of the host, and back to that of the device."""

from typing import Any

import jax
from jax import lax

from relaxjax.ir.types import TensorType

from .cost_rules import MOVES
from .declare import op
from .emit import call
from .rearranging import LIKE_DATA
from .scheduling import require_moment

_SPACE: Any = jax.memory.Space


def _moved(data: Any, there: Any) -> Any:
    """An array in one of the memories; JAX's derivative goes back to where it was."""
    here = jax.typeof(data).memory_space
    return data if here is there else jax.device_put(data, there, src=here)


@op(
    "relax.memory.to_host",
    layout=LIKE_DATA,
    lower=lambda data: _moved(data, _SPACE.Host),
    gradient=lambda g, y, data: g,
    jvp=lambda tangents, y, data: tangents[0],
    precision="follow",
    facts={"placement": True},
    cost=MOVES,
)
def to_host(data: TensorType) -> TensorType:
    """`data` in the memory of the host, where nothing but `to_device` takes it: y = data.

    A GPU or a TPU then has room for other values. On a CPU, values stay where they are.
    """
    return data


def _fetched(data: Any, moment: Any) -> Any:
    late, _ = lax.optimization_barrier((data, moment))
    return _moved(late, _SPACE.Device)


@op(
    "relax.memory.to_device",
    lower=_fetched,
    gradient=lambda g, y, data, moment: (g, None),
    jvp=lambda tangents, y, data, moment: (
        call("zeros_like", moment) if tangents[0] is None else tangents[0]
    ),
    precision="follow",
    facts={"placement": True},
    cost=MOVES,
)
def to_device(data: TensorType, moment: TensorType) -> TensorType:
    """`data`, which `to_host` gave, in the memory of the device again: y = data.

    It is brought no sooner than `moment` is computed: until then it takes no room there.
    """
    require_moment(moment)
    return data
