"""Archives: a module and its parameters in one file that outlives releases of JAX.

What is kept is the program itself, as its script, and it is lowered anew when it runs; an exported
artifact, on the other hand, is for a few releases of JAX only.
"""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from relaxjax.ir.module import IRModule, check_module

from .program_file import read_program, write_program
from .tensor_file import FileKind

_PARAMS = "params/"


class ArchiveError(ValueError):
    """A file is damaged, or is no archive."""


_ARCHIVE = FileKind("relaxjax archive 1", "archive", ArchiveError)


def save_archive(
    mod: IRModule, path: str | os.PathLike[str], params: Mapping[str, Any] | None = None
) -> None:
    """Write a module, and parameters by name, as one safetensors file, whole or not at all."""
    check_module(mod, "an archive")
    for name, value in (params or {}).items():
        if not hasattr(value, "dtype"):
            raise TypeError(
                f"the parameter `{name}` must be an array, found {type(value).__name__}"
            )
    tensors = {f"{_PARAMS}{name}": value for name, value in (params or {}).items()}
    write_program(path, _ARCHIVE, mod, tensors)


def load_archive(path: str | os.PathLike[str]) -> tuple[IRModule, dict[str, np.ndarray[Any, Any]]]:
    """The module and the parameters of an archive. Nothing that the file holds is executed."""
    mod, tensors = read_program(path, _ARCHIVE)
    foreign = [name for name in tensors if not name.startswith(_PARAMS)]
    if foreign:
        raise ArchiveError(f"`{path}` is damaged: an archive has no array `{foreign[0]}`")
    return mod, {name.removeprefix(_PARAMS): value for name, value in tensors.items()}
