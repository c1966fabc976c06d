"""What programs take from `tvm_ffi`: its containers are those of Python here.

Functions that programs call by name get and give TVM's arrays.
"""

from collections.abc import Callable
from typing import Any

from relaxjax.ir.expr import Expr as Object
from relaxjax.ops.packed import packed_function, register_packed
from relaxjax.script.values import shape as Shape

from .ir_queries import structural_hash as structural_hash
from .nd import unwrapped, wrapped

Array = list
Map = dict
String = str

__all__ = [
    "Array",
    "Map",
    "Object",
    "Shape",
    "String",
    "get_global_func",
    "register_global_func",
    "structural_hash",
]


_WRITTEN = "__tvm_function__"  # the function as the user wrote it


def register_global_func(
    func_name: str | Callable[..., Any], f: Any = None, override: bool = False
) -> Any:
    """Register a function of arrays under a name, or under its own.

    >>> import relaxjax.tvm as tvm
    >>> @tvm.register_global_func("docs.twice", override=True)
    ... def twice(x):
    ...     return tvm.runtime.tensor(2 * x.numpy())
    >>> tvm.get_global_func("docs.twice") is twice
    True
    """
    if callable(func_name):
        return register_global_func(func_name.__name__, func_name, override)

    def register(function: Any) -> Any:
        def run(*args: Any) -> Any:
            return unwrapped(function(*map(wrapped, args)))

        setattr(run, _WRITTEN, function)
        register_packed(func_name, override)(run)
        return function

    return register if f is None else register(f)


def get_global_func(name: str, allow_missing: bool = False) -> Any:
    """The function that is registered under a name."""
    try:
        function = packed_function(name)
    except KeyError as error:
        if allow_missing:
            return None
        raise ValueError(error.args[0]) from None
    return getattr(function, _WRITTEN, function)
