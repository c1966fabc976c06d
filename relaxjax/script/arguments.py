"""Whether arguments fit a Python function, said in the words of the script that calls it."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from relaxjax.ir.arguments import by_name

_SEVERAL = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def check_arguments(
    call: str, callee: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]
) -> None:
    """Raise an error where Python could not call `callee`; the script knows it as `call`."""
    signature = inspect.signature(callee)
    parameters = signature.parameters.values()
    if any(parameter.kind in _SEVERAL for parameter in parameters):
        try:
            signature.bind(*args, **named)
        except TypeError as error:
            raise TypeError(f"{call}: {error}") from None
        return
    names = [parameter.name for parameter in parameters]
    required = [item.name for item in parameters if item.default is item.empty]
    by_name(call, names, args, named, required)
