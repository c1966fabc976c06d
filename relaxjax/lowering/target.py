"""Where programs run: targets and devices by the names that people use."""

from typing import Any, TypeAlias

import jax

from relaxjax.ir.registry import did_you_mean

Target: TypeAlias = str | jax.Device | jax.sharding.Sharding

# The platform of JAX behind each name.
_PLATFORMS = {
    "llvm": "cpu",
    "c": "cpu",
    "cpu": "cpu",
    "cuda": "cuda",
    "gpu": "gpu",
    "nvidia": "cuda",
    "rocm": "rocm",
    "tpu": "tpu",
}


def device(name: str = "cpu", index: int = 0) -> jax.Device:
    """The device `index` of a kind: "cpu" or "llvm", "cuda" or "gpu", "rocm", "tpu"."""
    platform = platform_of(name)
    kind, _, number = name.split()[0].partition(":")
    try:
        devices = jax.devices(platform)
    except RuntimeError:
        seen = ", ".join(f"{d.platform}:{d.id}" for d in jax.devices())
        raise ValueError(f"there is no device for `{kind}` here; JAX sees {seen}") from None
    position = int(number) if number else index
    if not 0 <= position < len(devices):
        raise ValueError(f"there is no device {kind}:{position} here, only {len(devices)} of them")
    return devices[position]


def platform_of(target: Target) -> str:
    """The name of a target's platform in JAX."""
    if not isinstance(target, str):
        return str(next(iter(devices_of(target))).platform)
    words = target.split()
    kind = words[0].partition(":")[0] if words else ""
    if kind not in _PLATFORMS:
        raise ValueError(
            f"there is no target `{target}`: the targets are {', '.join(_PLATFORMS)}, or a JAX "
            f"device or sharding{did_you_mean(kind, list(_PLATFORMS))}"
        )
    return _PLATFORMS[kind]


def placement(target: Target) -> jax.Device | jax.sharding.Sharding:
    """Where the arrays of a target's programs lie."""
    return device(target) if isinstance(target, str) else target


def devices_of(target: jax.Device | jax.sharding.Sharding) -> Any:
    return target.device_set if isinstance(target, jax.sharding.Sharding) else [target]
