"""Devices by the calls that TVM has for them."""

import jax

from relaxjax.lowering import device as device


def cpu(index: int = 0) -> jax.Device:
    """The CPU."""
    return device("cpu", index)


def cuda(index: int = 0) -> jax.Device:
    """A GPU of NVIDIA's."""
    return device("cuda", index)


def gpu(index: int = 0) -> jax.Device:
    """A GPU, whoever made it."""
    return device("gpu", index)


def rocm(index: int = 0) -> jax.Device:
    """A GPU of AMD's."""
    return device("rocm", index)
