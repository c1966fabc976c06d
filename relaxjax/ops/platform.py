"""For which platform a program is made: the one rule, and lowerings that differ by it.

    @op("relax.nn.conv2d", lower=by_platform(_by_xla, cpu=_on_cpu))

What is fast on a CPU may be slow on a GPU, whose library has programs of its own for convolutions.
The lowerings of one operator compute the same, up to rounding.

A program is made for where it will run: where somebody says, as by `LegalizeOps("cuda")`, else
where JAX puts what nobody has placed. A module whose program depends on that has the platform as
an attribute.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

import jax
from jax.core import Tracer

from relaxjax.ir.module import IRModule

Lowering = Callable[..., Any]

# The attribute of a module that is made for one platform.
PLATFORM = "platform"

_PLATFORM: ContextVar[str | None] = ContextVar("platform", default=None)
_ASKED: ContextVar[set[str] | None] = ContextVar("asked", default=None)


def default_device() -> jax.Device:
    """Where JAX puts what nobody has placed."""
    chosen: Any = jax.config.jax_default_device  # type: ignore[attr-defined]  # made at run time
    if isinstance(chosen, str):
        return jax.local_devices(backend=chosen)[0]
    return jax.local_devices()[0] if chosen is None else chosen


def has_several_cpus() -> bool:
    """Whether the default device is one of several of the host, over which arrays may be split."""
    device = default_device()
    count: int = device.client.device_count()
    return device.platform == "cpu" and count > 1


def platform_name(device: jax.Device) -> str:
    """The platform of a device as JAX lowers for it: a "gpu" by its make."""
    if device.platform != "gpu":
        return str(device.platform)
    return "rocm" if "rocm" in device.client.platform_version else "cuda"


@contextmanager
def lowering_for(platform: str | None) -> Iterator[None]:
    """Inside, operators are lowered for a platform of JAX: "cpu", "cuda", "tpu" and so on.

    For None they are lowered for the platform that they were outside.
    """
    token = _PLATFORM.set(platform or _PLATFORM.get())
    try:
        yield
    finally:
        _PLATFORM.reset(token)


def said_platform() -> str | None:
    """The platform of `lowering_for`; None where nobody has said one."""
    return _PLATFORM.get()


def chosen_platform() -> str:
    """The platform to lower for: that of `lowering_for`, else where JAX runs what it is given."""
    return said_platform() or platform_name(default_device())


def known_platform(arrays: Iterable[Any]) -> str | None:
    """The platform that some arrays are computed with on; None while JAX traces them."""
    given = [array for array in arrays if isinstance(array, jax.Array)]
    if any(isinstance(array, Tracer) for array in given):
        return None
    placed = next((array for array in given if array.committed), None)
    return chosen_platform() if placed is None else platform_name(next(iter(placed.devices())))


def platform() -> str:
    """`chosen_platform()`, for what becomes another program by it: `asked_for_platform` tells."""
    found = chosen_platform()
    going_by([found])
    return found


def going_by(platforms: Collection[str]) -> None:
    """Say that a program goes by these platforms, one that was made before, for one."""
    asked = _ASKED.get()
    if asked is not None:
        asked.update(platforms)


@contextmanager
def asked_for_platform() -> Iterator[set[str]]:
    """The platforms that something inside goes by: none where it is the same for all."""
    asked = set[str]()
    token = _ASKED.set(asked)
    try:
        yield asked
    finally:
        _ASKED.reset(token)


def is_read() -> bool:
    """Whether what is lowered is read into the IR, inside of `asked_for_platform`; else it runs."""
    return _ASKED.get() is not None


def made_for(mod: IRModule, platforms: Collection[str]) -> IRModule:
    """The module with the platform that it goes by as an attribute, if there is one."""
    return mod.with_attr(PLATFORM, *platforms) if platforms else mod


def by_platform(default: Lowering, **lowerings: Lowering) -> Lowering:
    """A lowering that is one of several: that of the platform lowered for, or the default.

    Where JAX traces it and nobody has said for which platform, JAX decides when it lowers it.
    """

    def lower(*args: Any, **attrs: Any) -> Any:
        leaves, tree = jax.tree.flatten(args, is_leaf=lambda leaf: leaf is None)
        known = platform() if said_platform() is not None else known_platform(leaves)
        if known is not None:
            return lowerings.get(known, default)(*args, **attrs)
        traced = [place for place, leaf in enumerate(leaves) if isinstance(leaf, Tracer)]

        def form(lowering: Lowering, *arrays: Any) -> Any:
            given = dict(enumerate(leaves)) | dict(zip(traced, arrays, strict=True))
            return lowering(*jax.tree.unflatten(tree, given.values()), **attrs)

        forms = {name: partial(form, lowering) for name, lowering in lowerings.items()}
        arrays = (leaves[place] for place in traced)
        return jax.lax.platform_dependent(*arrays, default=partial(form, default), **forms)

    return lower
