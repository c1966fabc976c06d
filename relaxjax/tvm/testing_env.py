"""What there is to run on, as tests written for TVM ask for it."""

from collections.abc import Callable
from typing import Any

import jax

__all__ = ["has_cpu_feature", "has_cuda", "has_gpu", "has_llvm", "has_multi_gpu", "has_rocm"]


def has_llvm() -> bool:
    """Programs run on the CPU wherever JAX is."""
    return True


def has_cuda() -> bool:
    """Whether JAX sees a GPU of NVIDIA's."""
    return _sees("cuda")


def has_rocm() -> bool:
    """Whether JAX sees a GPU of AMD's."""
    return _sees("rocm")


def has_gpu() -> bool:
    """Whether JAX sees a GPU."""
    return _sees("gpu")


def has_multi_gpu(count: int = 2) -> bool:
    """Whether JAX sees several GPUs."""
    return has_gpu() and len(jax.devices("gpu")) >= count


def has_cpu_feature(features: Any) -> bool:
    """XLA chooses the instructions of the CPU by itself."""
    return False


def __getattr__(name: str) -> Callable[..., bool]:
    """`has_vulkan`, `has_cudnn` and whatever else relaxjax does not compile for."""
    if not name.startswith("has_"):
        raise AttributeError(f"relaxjax has no `tvm.testing.env.{name}`")
    return _has_not


def _has_not(*args: Any, **options: Any) -> bool:
    return False


def _sees(platform: str) -> bool:
    try:
        return bool(jax.devices(platform))
    except RuntimeError:
        return False
