"""Names of the script that stand for expressions of other operators."""

from collections.abc import Callable
from typing import Any, TypeVar

Writer = TypeVar("Writer", bound=Callable[..., Any])

# The functions that the script knows beside the operators, by the operator's name they would have.
SUGAR: dict[str, Callable[..., Any]] = {}


def sugar(name: str) -> Callable[[Writer], Writer]:
    """Declare a function of expressions under a name of the script, such as `relax.linear`."""

    def declare(function: Writer) -> Writer:
        SUGAR[name] = function
        return function

    return declare
