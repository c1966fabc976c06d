"""Settings of the whole process: freed memory is kept, and so are compiled programs."""

import ctypes
import os

import jax
from jax.experimental.compilation_cache.compilation_cache import reset_cache

from relaxjax.lowering.cache_folder import cache_folder, is_usable

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


def use_compilation_cache() -> None:
    """Let JAX keep what takes long to compile, unless it does so already or is told not to.

    The folder is relaxjax/compiled in the user's cache folder, or the one that the variable
    RELAXJAX_COMPILATION_CACHE names; "off" keeps nothing.
    """
    folder, before = cache_folder(), jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]  # made at run time
    if before is None and folder is not None and is_usable(folder):
        jax.config.update("jax_compilation_cache_dir", str(folder))
        reset_cache()  # it is looked for once, by the first program that is compiled
