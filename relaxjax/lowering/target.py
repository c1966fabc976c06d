"""Where programs run: targets and devices by the names that people use."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeAlias

import jax

from relaxjax.ir.module import IRModule
from relaxjax.ir.registry import did_you_mean
from relaxjax.ops.platform import PLATFORM, default_device, lowering_for, platform_name
from relaxjax.trainable.sharding import Distribution

from .interpreter import LoweringError

Target: TypeAlias = str | jax.Device | jax.sharding.Sharding | jax.sharding.Mesh
# A sharding is for all arguments. On a mesh they stay as they are split, and others are whole.
Place: TypeAlias = jax.Device | jax.sharding.Sharding | jax.sharding.Mesh

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
_GPUS = ("gpu", "cuda", "rocm")
_ANEW = (
    'Or make it anew, by LegalizeOps("{0}") or SetupTrainer(..., target="{0}"): unless a target is '
    "given, they make it for JAX's default device"
)


def device(name: str = "cpu", index: int = 0) -> jax.Device:
    """The device `index` of a kind: "cpu" or "llvm", "cuda" or "gpu", "rocm", "tpu"."""
    platform = platform_of(name)
    kind, _, number = name.split()[0].partition(":")
    try:
        devices = jax.devices(platform)
    except RuntimeError:
        raise ValueError(
            f"there is no device for `{kind}` here; JAX sees {_devices_here()}"
        ) from None
    if number and not number.isdecimal():
        raise ValueError(
            f"`{number}` is no number of a device: write it as `{kind}:0`, of the first one"
        )
    position = int(number) if number else index
    if not 0 <= position < len(devices):
        raise ValueError(f"there is no device {kind}:{position} here, only {len(devices)} of them")
    return devices[position]


def platform_of(target: Target) -> str:
    """The name of a target's platform in JAX."""
    if not isinstance(target, str | Place):
        raise TypeError(
            'a target is a name such as "cpu" or "gpu:1", or a device, a sharding or a mesh of '
            f"JAX, but it is {target!r}"
        )
    if not isinstance(target, str):
        return platform_name(next(iter(devices_of(target))))
    words = target.split()
    kind = words[0].partition(":")[0] if words else ""
    if kind not in _PLATFORMS:
        raise ValueError(
            f"there is no target `{target}`: the targets are {', '.join(_PLATFORMS)}, or a JAX "
            f"device or sharding{did_you_mean(kind, list(_PLATFORMS))}"
        )
    return _PLATFORMS[kind]


def placement(target: Target | None) -> Place:
    """Where the arrays of a target's programs lie; that of none is where JAX puts what it gets."""
    if target is None:
        return default_device()
    return device(target) if isinstance(target, str) else target


def place_for(mod: IRModule, target: Target | None) -> Place:
    """Where a module runs: on the target if one is given, else where it is made for.

    A module that is made for no one platform runs where JAX puts what nobody has placed. One whose
    training is on several devices runs on its mesh.
    """
    made_for = mod.attrs.get(PLATFORM)
    spread = Distribution.of(mod)
    if target is None and spread is not None:
        return spread.mesh(jax.devices(made_for or _default_platform()))
    if target is None and made_for is not None and not agree(made_for, _default_platform()):
        try:
            return device(made_for)
        except ValueError:
            raise LoweringError(
                f"the program is made for {made_for}, of which there is no device here: JAX sees "
                f"{_devices_here()}. {_ANEW.format(_default_platform())}"
            ) from None
    place = placement(target)
    check_platform(mod, platform_of(place))
    return place


def formulating_for(mod: IRModule, target: Target | None) -> AbstractContextManager[None]:
    """Inside, a module is made for a target, if one is given."""
    if target is None:
        return nullcontext()
    check_platform(mod, platform_of(target))
    return lowering_for(platform_of(target))


def check_platform(mod: IRModule, platform: str) -> None:
    """Raise where a module is made for another platform."""
    made_for = mod.attrs.get(PLATFORM)
    if made_for is not None and not agree(made_for, platform):
        raise LoweringError(disagreement(made_for, platform))


def agree(platform: str, other: str) -> bool:
    """Whether one may stand for the other; "gpu" says nothing of the make."""
    return platform == other or ("gpu" in (platform, other) and {platform, other} <= set(_GPUS))


def disagreement(made_for: str, found: str) -> str:
    """What is wrong with a program that is made for one platform and lowered for another."""
    return (
        f"the program is made for {made_for}, but it is to run on {found}: run it on {made_for}. "
        f"{_ANEW.format(found)}"
    )


def devices_of(target: Place) -> Any:
    if isinstance(target, jax.sharding.Mesh):
        return list(target.devices.flat)
    return target.device_set if isinstance(target, jax.sharding.Sharding) else [target]


def _default_platform() -> str:
    return platform_name(default_device())


def _devices_here() -> str:
    return ", ".join(f"{d.platform}:{d.id}" for d in jax.devices())
