"""Lowerings that differ by platform: which one is taken, and for which platform a program is made.

    @op("relax.nn.conv2d", lower=by_platform(_by_xla, cpu=_on_cpu))

What is fast on a CPU may be slow on a GPU, whose library has programs of its own for convolutions.
The lowerings of one operator compute the same, up to rounding.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import jax

Lowering = Callable[..., Any]

_PLATFORM: ContextVar[str | None] = ContextVar("platform", default=None)


@contextmanager
def lowering_for(platform: str | None) -> Iterator[None]:
    """Inside, operators are lowered for a platform of JAX: "cpu", "cuda", "tpu" and so on."""
    token = _PLATFORM.set(platform)
    try:
        yield
    finally:
        _PLATFORM.reset(token)


def platform() -> str:
    """The platform to lower for: that of `lowering_for`, else where JAX runs what it is given."""
    chosen = _PLATFORM.get()
    if chosen is not None:
        return chosen
    device = jax.config.jax_default_device  # type: ignore[attr-defined]  # made at run time
    return str(getattr(device, "platform", device) or jax.default_backend())


def by_platform(default: Lowering, **lowerings: Lowering) -> Lowering:
    """A lowering that is one of several: that of the platform lowered for, or the default."""

    def lower(*args: Any, **attrs: Any) -> Any:
        return lowerings.get(platform(), default)(*args, **attrs)

    return lower
