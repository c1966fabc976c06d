"""Reading modules from files, and writing files that are never half written."""

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.whole_file import write_whole
from relaxjax.script import ArchiveError, from_source, load_archive
from relaxjax.torch import from_torch
from relaxjax.training import CheckpointError
from relaxjax.training.saving import checkpoint

from .failure import InputError

WHAT_IS_READ = "the script to read, - for the standard input; or .pt2, a model of PyTorch"


# The endings of files that are read as something else than text.
_ARCHIVE, _OF_TORCH = ".safetensors", ".pt2"
_NO_TEXTS = {_ARCHIVE: "an archive", _OF_TORCH: "a model of PyTorch"}


def read_module(name: str) -> IRModule:
    """The module that a script holds, `-` for the standard input. The script is not executed.

    A file .safetensors is an archive, or what a trainer saved; a file .pt2 is a model of PyTorch.
    """
    if is_of_torch(name):
        return from_torch(name).mod
    if name.endswith(_ARCHIVE):
        return _archived(Path(name))
    text = _decoded(name, sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes())
    if not text.strip():
        raise InputError(f"{_shown(name)} is empty: it should hold a module")
    read = from_source(text, file=_file(name))
    return IRModule.from_expr(read) if isinstance(read, Function) else read


def path_to_write(text: str) -> Path:
    """An argument that names a file or a folder to write; an empty one would be the folder here."""
    if not text:
        raise argparse.ArgumentTypeError("must be a name, found an empty text")
    return Path(text)


def is_of_torch(name: str) -> bool:
    """Whether a file is a model that PyTorch exported, which holds its weights, too."""
    return name.endswith(_OF_TORCH)


def is_saved_trainer(name: str) -> bool:
    """Whether a file is what a trainer saved, which holds its parameters, too."""
    if not name.endswith(_ARCHIVE):
        return False
    try:
        load_archive(Path(name))
    except ArchiveError:
        return True
    return False


def check_archive(name: str) -> None:
    """Refuse a name of an archive that would be read as something else."""
    if name and not name.endswith(_ARCHIVE) and not Path(name).is_dir():
        raise InputError(
            f"`{name}` would not be read again: the name of an archive ends in {_ARCHIVE}; give "
            f"{Path(name).with_suffix(_ARCHIVE)}"
        )


def write_text(name: str, text: str) -> None:
    """Write a file in one step: it holds its old text or the new one, never a part of it."""
    for ending, kind in _NO_TEXTS.items():
        if name.endswith(ending):
            raise InputError(
                f"`{name}` would not be read again: this is text, and a name that ends in {ending} "
                f"is that of {kind}; give one that ends in .py or .txt"
            )
    with writable(name):
        write_whole(name, text.encode())


@contextmanager
def writable(name: str) -> Iterator[None]:
    """Refuse a place where no file can be written, before and while it is written inside."""
    if not name:
        raise InputError("the name of the file to write is empty")
    path = Path(os.path.realpath(name))
    if path.is_dir():
        raise InputError(f"`{name}` is a folder: it cannot be written as a file")
    if path.exists() and not os.access(path, os.W_OK):
        raise InputError(f"`{name}` may not be written")
    try:
        yield
    except OSError as error:
        raise InputError(f"`{name}` cannot be written: {error.strerror}") from error


def _archived(path: Path) -> IRModule:
    try:
        return load_archive(path)[0]
    except ArchiveError as error:
        try:
            return checkpoint.module(path)
        except CheckpointError:
            raise InputError(f"{error}; give an archive, or what a trainer saved") from None


def _decoded(name: str, data: bytes) -> str:
    if b"\0" in data:
        line = data.count(b"\n", 0, data.index(b"\0")) + 1
        raise InputError(
            f"{_shown(name)} is no text: there is a null character in line {line}; an archive, or "
            "what a trainer saved, is read from a file whose name ends in .safetensors"
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{_shown(name)} is not UTF-8 text: byte 0x{data[error.start]:02x} in line {line}"
        ) from None


def _shown(name: str) -> str:
    return "the standard input" if name == "-" else f"`{name}`"


def _file(name: str) -> str:
    return "<stdin>" if name == "-" else name
