"""Compiled programs kept from one run to the next, in the user's own cache folder."""

import os
from pathlib import Path
from typing import Any

import jax
from jax.experimental.compilation_cache.compilation_cache import reset_cache

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
