"""Functions that are the derivatives of others: the attributes that name them."""

from collections.abc import Iterator

from .function import Function
from .walk import global_vars

# The attributes of a function that name the functions of the module that are its derivatives.
CUSTOM_GRADIENT, CUSTOM_JVP = "custom_gradient", "custom_jvp"


def named_functions(function: Function) -> Iterator[str]:
    """The functions of the module that a function calls, or has for derivatives."""
    yield from (var.name for var in global_vars(function))
    for attr in (CUSTOM_GRADIENT, CUSTOM_JVP):
        if attr in function.attrs:
            yield function.attrs[attr]
