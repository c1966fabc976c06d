"""Programs that XLA compiled in one run of the tests, kept for the next ones in pytest's cache.

To compile them is a fifth of the tests' work, and from run to run most are the same. What is kept
is known by all that XLA is given: the text of a program, the names of its parts, which it writes
into what it compiles, its options and flags, itself and the CPU. Only the lines of the sources that
a program comes from are left out. `pytest --cache-clear` forgets them all.
"""

import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import pytest

from relaxjax.passes.infrastructure.kept_files import processor

_UNUSED_FOR = 3 * 24 * 3600.0  # seconds, after which a program is forgotten
_NAMES = re.compile(r'loc\("([^"]*)"[()]')  # behind the name of a file stands a line


@dataclass(frozen=True)
class KeptPrograms:
    folder: Path

    def compiled(
        self, make: Callable[..., Any], backend: Any, module: Any, devices: Any, options: Any
    ) -> Any:
        """The executable of a program, read or made by JAX's own function."""
        if backend.platform != "cpu":
            return make(backend, module, devices, options, [])
        path = self.folder / self._name(module, devices, options)
        found = _read(path, backend, devices, options)
        if found is None:
            found = make(backend, module, devices, options, [])
            _write(path, backend.serialize_executable(found))
        return found

    def _name(self, module: Any, devices: Any, options: Any) -> str:
        text = module.operation.get_asm(enable_debug_info=False)
        names = _NAMES.findall(module.operation.get_asm(enable_debug_info=True))
        given = [self._compiler, text, *names, str(devices)]
        return sha256("\n".join(given).encode() + options.SerializeAsString()).hexdigest()

    @cached_property
    def _compiler(self) -> str:
        flags = os.environ.get("XLA_FLAGS", "")
        return f"jaxlib {version('jaxlib')} {flags} {processor()}"

    def forget_unused(self) -> None:
        """Delete what no run has used for days: each change of a lowering makes others."""
        oldest = time.time() - _UNUSED_FOR
        for path in self.folder.iterdir():
            with suppress(FileNotFoundError):  # of another run that tidies up now, or writes
                if path.stat().st_mtime < oldest:
                    path.unlink()


def kept_folder(config: pytest.Config, name: str) -> Path | None:
    """A folder of pytest's cache; None where there is no cache, or it cannot be made."""
    cache = getattr(config, "cache", None)  # there is none with `-p no:cacheprovider`
    try:
        return Path(cache.mkdir(name)) if cache else None
    except OSError:
        return None


def _read(path: Path, backend: Any, devices: Any, options: Any) -> Any:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    os.utime(path)
    try:
        return backend.deserialize_executable(data, devices, options)
    except jax.errors.JaxRuntimeError:  # a machine that broke down left half a file
        return None


def _write(path: Path, data: bytes) -> None:
    """Whole or not at all: the other worker may read it now. A full disk keeps nothing."""
    part = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        part.write_bytes(data)
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
