"""Targets and devices by name."""

from typing import Any

import jax
import pytest

from relaxjax.lowering import device
from relaxjax.lowering.target import placement, platform_of

CPU = jax.devices("cpu")[0]
HAS_GPU = jax.default_backend() == "gpu"


@pytest.mark.parametrize("name", ["cpu", "llvm", "c", "llvm -num-cores 4", "cpu:0"])
def test_the_cpu_has_many_names(name: str) -> None:
    assert device(name) == CPU
    assert platform_of(name) == "cpu"
    assert placement(name) == CPU


def test_platforms() -> None:
    assert [platform_of(name) for name in ("cuda", "nvidia", "gpu", "rocm", "tpu")] == [
        "cuda",
        "cuda",
        "gpu",
        "rocm",
        "tpu",
    ]


def test_devices_and_shardings_are_targets() -> None:
    sharding = jax.sharding.SingleDeviceSharding(CPU)
    assert platform_of(CPU) == platform_of(sharding) == "cpu"
    assert placement(sharding) is sharding


def test_an_unknown_target() -> None:
    with pytest.raises(ValueError, match=r"there is no target `cuad`: the .*; did you mean `cuda`"):
        device("cuad")
    with pytest.raises(ValueError, match="there is no target ``: the targets are llvm, c, cpu"):
        device("")


@pytest.mark.parametrize("target", [0, None, ["cpu"]])
def test_what_is_no_target(target: Any) -> None:
    with pytest.raises(TypeError, match=r'such as "cpu" or "gpu:1", .* but it is (0|None|\[)'):
        platform_of(target)


@pytest.mark.parametrize("name", ["cpu:x", "cpu:-1", "cpu:1.0"])
def test_a_device_without_a_number(name: str) -> None:
    number = name.partition(":")[2]
    with pytest.raises(ValueError, match=f"`{number}` is no number of a device: write .*`cpu:0`"):
        device(name)


def test_a_device_beyond_the_last() -> None:
    with pytest.raises(ValueError, match="there is no device cpu:99 here, only"):
        device("cpu", 99)
    with pytest.raises(ValueError, match="there is no device cpu:7 here"):
        device("cpu:7")


@pytest.mark.skipif(HAS_GPU, reason="there is one here")
def test_a_kind_that_is_not_here() -> None:
    with pytest.raises(ValueError, match="there is no device for `cuda` here; JAX sees cpu:0"):
        device("cuda")


@pytest.mark.skipif(not HAS_GPU, reason="there is none here")
def test_a_gpu() -> None:
    assert device("cuda") == device("gpu") == jax.devices("gpu")[0]
