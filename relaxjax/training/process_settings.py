"""Settings of the whole process: freed memory is kept, and so are compiled programs."""

import ctypes
import os
from pathlib import Path
from typing import Any

import jax
from jax.experimental.compilation_cache.compilation_cache import reset_cache

# Of mallopt in glibc's malloc.h.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4
_MOST = 2**31 - 1
_PAD = 64 * 2**20


def keep_freed_memory() -> None:
    """Keep what is freed in the process, for CPU steps with much memory in between.

    Otherwise each step gets fresh pages from the system for its large arrays. It works by settings
    of glibc and of JAX's dispatch, for the whole process, and has to come before JAX is first used.
    The process holds on to the most memory that it ever needed.
    """
    if not _is_glibc():
        raise OSError("keep_freed_memory() sets glibc's malloc, which this system does not have")
    if _has_started():
        raise RuntimeError(
            "keep_freed_memory() has to be called before JAX is first used: call it at the start "
            "of the program"
        )
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    mallopt = ctypes.CDLL(None).mallopt
    for option, value in ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, _MOST), (_TOP_PAD, _PAD)):
        mallopt(option, value)


def _is_glibc() -> bool:
    try:
        return bool((os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc"))
    except (AttributeError, ValueError, OSError):  # another system, or another C library
        return False


def _has_started() -> bool:
    """Whether JAX has its devices already: then it refuses to change their number."""
    before = jax.config.jax_num_cpu_devices  # type: ignore[attr-defined]  # made at run time
    try:
        jax.config.update("jax_num_cpu_devices", 2 if before == 1 else 1)
    except RuntimeError:
        return True
    jax.config.update("jax_num_cpu_devices", before)
    return False


VARIABLE = "RELAXJAX_COMPILATION_CACHE"
OFF = ("0", "off", "no", "false")


def use_compilation_cache() -> None:
    """Let JAX keep what takes long to compile, unless it does so already or is told not to.

    The folder is relaxjax/compiled in the user's cache folder, or the one that the variable
    RELAXJAX_COMPILATION_CACHE names; "off" keeps nothing.
    """
    folder, config = cache_folder(), _config()
    if config.jax_compilation_cache_dir is None and folder is not None and is_usable(folder):
        jax.config.update("jax_compilation_cache_dir", str(folder))
        reset_cache()  # it is looked for once, by the first program that is compiled


def cache_folder() -> Path | None:
    """The folder where compiled programs are kept, None where they are not."""
    wanted, config = os.environ.get(VARIABLE, "").strip(), _config()
    if config.jax_compilation_cache_dir is not None:
        return Path(config.jax_compilation_cache_dir)
    if wanted.lower() in OFF or not config.jax_enable_compilation_cache:
        return None
    return Path(wanted) if wanted else _default_folder()


def _config() -> Any:
    """JAX's settings; their names are made at run time."""
    return jax.config


def _default_folder() -> Path | None:
    """The folder of a user who has a home: one whom only a number names has none."""
    caches = os.environ.get("XDG_CACHE_HOME", "")
    try:
        base = Path(caches) if os.path.isabs(caches) else Path.home() / ".cache"
    except RuntimeError:
        return None
    return base / "relaxjax" / "compiled"


def is_usable(folder: Path) -> bool:
    """Whether the folder can be used: nobody else may put programs there for us to run."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except OSError:
        return False
    if hasattr(os, "getuid") and (found.st_uid != os.getuid() or found.st_mode & 0o022):
        return False
    return os.access(folder, os.W_OK)
