"""A module and arrays in one safetensors file: the script in its header, big constants beside it.

Nothing in such a file is executed, and what is read is bounded by the size of the file.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from relaxjax.ir.attrs import Attrs
from relaxjax.ir.expr import Constant
from relaxjax.ir.module import IRModule
from relaxjax.ir.printer import print_apart
from relaxjax.ir.tensor_json import KIND
from relaxjax.ops.packed import with_told_names

from .printed import PRINTED_NAMES, check_printed
from .source import text_source
from .tensor_file import Array, FileKind, TensorFile, write_tensors
from .text import from_source
from .written import foreign_part

MOST_SCRIPT = 32_000_000  # characters: a safetensors header may be 100 MB, parsed text much more
_CONSTANTS = "constants/"


def write_program(
    path: str | os.PathLike[str], kind: FileKind, mod: IRModule, tensors: Mapping[str, Any]
) -> None:
    """Write a module and arrays by name; an attribute that no text holds is an error."""
    _check_attrs("the module", mod.attrs)
    for name, function in mod.relax_functions().items():
        _check_attrs(f"the function `{name}`", function.attrs)
    script, constants = print_apart(with_told_names(mod))
    if len(script) > MOST_SCRIPT:
        raise kind.error(
            f"the script of the module has {len(script)} characters, "
            f"but the most that a file holds is {MOST_SCRIPT}"
        )
    named = {f"{_CONSTANTS}{index}": data for index, data in enumerate(constants)}
    write_tensors(path, kind, {**named, **tensors}, {"script": script})


def _check_attrs(owner: str, attrs: Attrs) -> None:
    for name, value in attrs.items():
        foreign = foreign_part(value)
        if foreign is not None:
            raise TypeError(
                f"the attribute `{name}` of {owner} cannot be saved: `{foreign!r:.80}` of type "
                f"{type(foreign).__name__} is no number, text, tensor or type"
            )


def read_program(path: str | os.PathLike[str], kind: FileKind) -> tuple[IRModule, dict[str, Array]]:
    """The module and the arrays that `write_program` wrote."""
    file = TensorFile(Path(path), kind)
    return _module(file, kind), _tensors(file, "")


def read_module(path: str | os.PathLike[str], kind: FileKind) -> IRModule:
    """The module alone."""
    return _module(TensorFile(Path(path), kind), kind)


def read_tensors(
    path: str | os.PathLike[str], kind: FileKind, prefix: str = ""
) -> dict[str, Array]:
    """The arrays alone whose names begin so, without the constants of the module."""
    file = TensorFile(Path(path), kind)
    _script(file)  # without one it holds no program
    return _tensors(file, prefix)


def _script(file: TensorFile) -> str:
    try:
        return file.header["script"]
    except LookupError as error:
        raise file.wrong_header(error) from None


def _module(file: TensorFile, kind: FileKind) -> IRModule:
    script = _script(file)
    if len(script) > MOST_SCRIPT:
        raise kind.refused(file.path, "is damaged: its script is too long")
    metadata = {KIND: [Constant(file.read(name)) for name in _constant_names(file.names)]}
    try:
        source = text_source(script, f"{file.path}")
        check_printed(source)
        mod = from_source(script, {**PRINTED_NAMES, "metadata": metadata}, source.file)
    except Exception as error:
        fault = f"is damaged: its script cannot be read: {error}"
        raise kind.refused(file.path, fault) from error
    if not isinstance(mod, IRModule):
        raise kind.refused(file.path, "is damaged: its script is no module")
    return mod


def _tensors(file: TensorFile, prefix: str) -> dict[str, Array]:
    constants = set(_constant_names(file.names))
    wanted = (name for name in file.names if name.startswith(prefix) and name not in constants)
    return {name: file.read(name) for name in wanted}


def _constant_names(names: Iterable[str]) -> list[str]:
    """The constants of a module, in the order in which its script counts them."""
    found = {name for name in names if name.startswith(_CONSTANTS)}
    return [name for index in range(len(found)) if (name := f"{_CONSTANTS}{index}") in found]
