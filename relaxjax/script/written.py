"""What a text can hold of the attributes of functions and modules."""

from collections.abc import Iterator, Mapping
from types import NoneType
from typing import Any

from relaxjax.ir.attrs import Attrs
from relaxjax.ir.function import Function

_WRITTEN = (str, bytes, int, float, complex, NoneType)
_OWN, _WORDS = "relaxjax.", "relaxjax.script."  # the words of a script are no values of a program


def foreign_part(value: Any) -> Any:
    """The first part of an attribute whose text could not be read back, None where all could."""
    return next(filter(_is_foreign, _leaves(value)), None)


def written_attrs(statement: str, attrs: Any) -> Attrs:
    """The attributes that a statement of a script gives; what no text holds is an error."""
    if not isinstance(attrs, Mapping):
        raise TypeError(f"`{statement}` takes a dictionary, but `{attrs!r}` was given")
    for name, value in attrs.items():
        if not isinstance(name, str):
            raise TypeError(f"the names of `{statement}` are strings, but `{name!r}` was given")
        foreign = foreign_part(Attrs({name: value})[name])
        if foreign is not None:
            raise TypeError(
                f"the attribute `{name}` holds `{foreign!r:.80}` of type "
                f"{type(foreign).__name__}, which is no number, text, tensor or type"
            )
    return Attrs(attrs)


def _leaves(value: Any) -> Iterator[Any]:
    """What an attribute holds, in tuples and mappings too."""
    match value:
        case tuple():
            for item in value:
                yield from _leaves(item)
        case Attrs():
            yield from _leaves(tuple(value.values()))
        case _:
            yield value


def _is_foreign(value: Any) -> bool:
    """Whether the text of a value is none that can be read back."""
    if isinstance(value, _WRITTEN):
        return False
    home = type(value).__module__
    return isinstance(value, Function) or not home.startswith(_OWN) or home.startswith(_WORDS)
