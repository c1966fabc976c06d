"""The folders of what is kept on disk for the next process, and what it is known by."""

import hashlib
import os
import platform
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax

from relaxjax.ir.whole_file import write_whole
from relaxjax.lowering.cache_folder import cache_folder, is_usable
from relaxjax.ops.lax import matmul_precision, x64_enabled
from relaxjax.ops.nn.accelerated_attention import gpu_here
from relaxjax.ops.platform import chosen_platform

MOST_BYTES = 2**28  # of all files of a kind; those that were used longest ago go first


def kept_folder(name: str) -> Path | None:
    """The folder of one kind of what is kept; None where nothing is."""
    folder = cache_folder()
    if folder is None or not (is_usable(folder) and is_usable(folder / name)):
        return None
    return folder / name


def read_kept(path: Path, kind: bytes) -> bytes | None:
    """What a file holds, None where there is none; one that is not as it was written is an error.

    What is used last goes last where there are too many.
    """
    try:
        head, _, content = path.read_bytes().partition(b"\n")
    except OSError:
        return None
    if head != _head(kind, content):
        raise ValueError("it is damaged")
    with suppress(OSError):
        os.utime(path)
    return content


def write_kept(path: Path, kind: bytes, content: bytes) -> None:
    """Leave a file for `read_kept`, unless it takes a good part of the room or the disk is full."""
    if len(content) > MOST_BYTES // 8:
        return
    with suppress(OSError):  # of a disk that is full, or a folder that has gone
        write_whole(path, _head(kind, content) + b"\n" + content)
        make_room(path.parent, path.suffix)


def _head(kind: bytes, content: bytes) -> bytes:
    return kind + b" " + hashlib.sha256(content).hexdigest().encode()


def make_room(folder: Path, suffix: str) -> None:
    """Remove the files that were used longest ago, as far as there are too many bytes."""
    found = [(place.stat(), place) for place in folder.glob(f"*{suffix}")]
    total = sum(stat.st_size for stat, _ in found)
    for stat, place in sorted(found, key=lambda pair: pair[0].st_mtime):
        if total <= MOST_BYTES:
            return
        place.unlink(missing_ok=True)
        total -= stat.st_size


def versions() -> str:
    """Those of what makes a program, and compiles it."""
    return " ".join(map(_version, ("relaxjax", "jax", "jaxlib")))


def _version(package: str) -> str:
    """That which is installed; a checkout on the path, or an archive, has none."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def settings() -> tuple[Any, ...]:
    """What decides, beside a program and options, what becomes of it here and now."""
    config: Any = jax.config
    flags = sorted((name, repr(getattr(config, name, value))) for name, value in _flags().items())
    return (
        versions(),
        code(),
        chosen_platform(),
        gpu_here(),
        x64_enabled(),
        repr(matmul_precision()),
        repr(jax.sharding.get_abstract_mesh()),
        os.environ.get("XLA_FLAGS", ""),
        flags,
    )


@cache
def processor() -> str:
    """What machine code goes by: its processor, with all that this can do, and its cores."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n", 1)[0].splitlines()
    except OSError:  # another system
        lines = []
    known = [line for line in lines if line.startswith(("model name", "flags", "Features"))]
    return repr((platform.machine(), platform.processor(), os.cpu_count(), known))


@cache
def code(package: str = "relaxjax") -> str:
    """A digest of the sources of a package, which change between releases, too.

    It is empty where there are none, as in an archive.
    """
    digest, count = hashlib.sha256(), 0
    spec = find_spec(package)
    for top in (spec and spec.submodule_search_locations) or ():
        # Three of our own packages lie elsewhere in a checkout, and are links here.
        for folder, folders, files in os.walk(top, followlinks=True):
            folders.sort()
            for name in sorted(file for file in files if file.endswith(".py")):
                place = Path(folder, name)
                digest.update(place.relative_to(top).as_posix().encode() + b"\0")
                digest.update(place.read_bytes() + b"\0")
                count += 1
    return digest.hexdigest() if count else ""


def digest_of(goes_by: Any) -> str:
    return hashlib.sha256(repr(goes_by).encode()).hexdigest()


# Where things are kept, and when, decides nothing about what is made.
_OF_CACHES = ("cache", "persistent")


def _flags() -> dict[str, Any]:
    values: dict[str, Any] = jax.config.values
    return {n: value for n, value in values.items() if not any(part in n for part in _OF_CACHES)}
