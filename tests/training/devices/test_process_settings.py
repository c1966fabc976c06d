"""Keeping freed memory: set before JAX starts, refused after and elsewhere."""

import os
import subprocess
import sys

import jax
import pytest

from relaxjax.training import keep_freed_memory

# The pages that the process gets anew in ten calls with a result of 36 MiB: more than glibc's
# malloc ever keeps by itself. Before it is counted, the small arrays have found their places.
FAULTS = """
import resource, sys
from relaxjax.training import keep_freed_memory
if sys.argv[1] == "keep":
    keep_freed_memory()
import jax, jax.numpy as jnp
table = jax.jit(lambda x: x[:, None] * x[None])
x = jnp.ones(3072)
for _ in range(6):
    table(x).block_until_ready()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    table(x).block_until_ready()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(mode: str) -> int:
    command = [sys.executable, "-c", FAULTS, mode]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def is_glibc() -> bool:
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
    except (AttributeError, ValueError):
        return False


@pytest.mark.skipif(not is_glibc(), reason="glibc alone has these settings")
def test_steps_do_without_new_pages() -> None:
    assert faults("keep") * 4 < faults("plain")


@pytest.mark.skipif(not is_glibc(), reason="glibc alone has these settings")
def test_once_jax_has_started_it_is_too_late() -> None:
    jax.devices()
    with pytest.raises(RuntimeError, match="has to be called before JAX is first used: call it at"):
        keep_freed_memory()
    assert jax.config.jax_num_cpu_devices == -1  # type: ignore[attr-defined]  # made at run time


def test_other_systems_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "confstr", lambda name: None, raising=False)
    with pytest.raises(OSError, match="glibc's malloc, which this system does not have"):
        keep_freed_memory()
