"""A program in a process of its own, in which the CPU is several devices."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

from forked_programs import run_program


def printed_lines(program: str, devices: int) -> list[str]:
    """The lines that a program prints where JAX has so many devices."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    with TemporaryDirectory() as folder:
        path = Path(folder, "program.py")
        path.write_text(program)
        result = run_program(path, env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"})
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()
