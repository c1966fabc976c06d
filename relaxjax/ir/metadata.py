"""The table of constants that stands before a printed module, in TVM's own JSON."""

from collections.abc import Iterable

from .expr import Constant
from .tensor_json import read_tensors, write_tensors


def write_constants(constants: Iterable[Constant]) -> str:
    """The JSON text of constants, as `metadata["ir.GenericConst"]` refers to them in a script."""
    return write_tensors([constant.data for constant in constants])


def read_constants(text: str) -> dict[str, list[Constant]]:
    """The constants of a JSON text by their kind; malformed text from anywhere is a ValueError."""
    return {kind: [Constant(item) for item in items] for kind, items in read_tensors(text).items()}
