"""A module as a pickle of nodes, attributes and arrays alone, for files of this package's own.

It is read in a quarter of the time of JSON. What is written names no code but this package's, and
what is read runs no other: a function or a class of anybody else's is an error in both.
"""

import pickle
from collections.abc import Callable, Sequence
from io import BytesIO
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np

from relaxjax.ir.dims import apply_kind, polynomial
from relaxjax.ir.expr import np_dtype
from relaxjax.ir.index_map import index_map_over
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import get_op
from relaxjax.ir.wording import a_kind


def pickled(mod: IRModule) -> bytes:
    """A module as bytes; one that holds what has no form in them is a `TypeError`."""
    content = BytesIO()
    try:
        _Pickler(content, protocol=5).dump(mod)
    except (pickle.PicklingError, RecursionError) as error:
        raise TypeError(f"the module cannot be pickled: {error}") from error
    return content.getvalue()


def unpickled(content: bytes) -> IRModule:
    """The module of `pickled`."""
    mod = _Unpickler(BytesIO(content)).load()
    if not isinstance(mod, IRModule):
        raise ValueError(f"it holds {a_kind(mod)}")
    return mod


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return _array, (value.dtype.name, value.shape, value.tobytes())
        if isinstance(value, type | FunctionType | BuiltinFunctionType) and not _is_part(value):
            raise TypeError(f"`{value.__qualname__}` is no part of a program")
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """What a file names; it is looked for in this package alone, and must be of programs."""
        found = super().find_class(module, name) if module.startswith("relaxjax.") else None
        if not _is_part(found):
            raise ValueError(f"`{module}.{name}` is no part of a program")
        return found


def _is_part(value: Any) -> bool:
    if isinstance(value, type):
        return value.__module__.startswith("relaxjax.ir.")
    return value in _MAKERS


def _array(dtype: str, shape: Sequence[int], content: bytes) -> np.ndarray[Any, Any]:
    return np.frombuffer(content, np_dtype(dtype)).reshape(shape)


# What nodes and their dimensions name that are not pickled as what they hold.
_MAKERS: tuple[Callable[..., Any], ...] = (get_op, apply_kind, polynomial, index_map_over, _array)
