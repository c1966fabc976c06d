"""One call about to be written as Python: what its text is made of."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from relaxjax.ir.types import TensorType, Type
from relaxjax.ir.wording import tuple_text

from .literals import SymbolName, dtype_text, value_text


@dataclass(frozen=True, slots=True)
class Operand:
    """An argument of a call: its text, and the number of Python's that can stand for it.

    `is_array` says whether the text gives an array of JAX's: not one of numpy's, and no number.
    """

    text: str
    type: Type | None
    number: str | None = None
    is_array: bool = False

    @property
    def dtype(self) -> str:
        """The dtype of a tensor, nothing where it is not known."""
        return (self.type.dtype or "") if isinstance(self.type, TensorType) else ""

    @property
    def ndim(self) -> int:
        return self.type.ndim if isinstance(self.type, TensorType) else -1

    @property
    def is_key(self) -> bool:
        return self.dtype.startswith("key<")


@dataclass(frozen=True, slots=True)
class Writing:
    """What is called, on what, with which attributes; `symbol` gives the names of dimensions."""

    name: str
    operands: Sequence[Operand]
    attrs: Mapping[str, Any]
    type: Type | None
    symbol: SymbolName

    @property
    def texts(self) -> list[str]:
        return [operand.text for operand in self.operands]

    @property
    def listed(self) -> str:
        """All operands as one tuple."""
        return tuple_text(self.texts)

    def value(self, attr: str) -> str:
        """The text of an attribute, which by its name may be a dtype."""
        value = self.attrs[attr]
        if isinstance(value, str) and (attr.endswith("dtype") or attr == "preferred_element_type"):
            return dtype_text(value)
        return value_text(value, self.symbol)

    def named(self, *left_out: str) -> list[str]:
        """The attributes as `name=value`."""
        return [f"{attr}={self.value(attr)}" for attr in self.attrs if attr not in left_out]


Form: TypeAlias = Callable[[Writing], str | None]


def call(function: str, *args: str) -> str:
    return f"{function}({', '.join(args)})"
