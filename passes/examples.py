"""The examples in the docstring of a pass: a script before it, how it is made, the script after it.

They are written so, below the sentence that says what the pass does:

    Before:

        @R.function
        def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            y = R.multiply(x, R.const(1.0, "float32"))
            return y

    After `SimplifyExpr()`:

        @R.function
        def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            return x

The functions may stand in a module, `@I.ir_module`. The script after may leave out functions that
stay as they are, and write `...` for a body.
"""

import re
import textwrap
from dataclasses import dataclass

from .base import PassFactory

_EXAMPLE = re.compile(
    r"^Before:\n\n((?:(?: +.*)?\n)+?)\nAfter `(.+?)`:\n\n((?:(?: +.*)?(?:\n|\Z))+)", re.MULTILINE
)


@dataclass(frozen=True)
class Example:
    """What a pass made as `made` makes of the functions in `before`."""

    before: str
    made: str
    after: str


def examples(factory: PassFactory[...]) -> list[Example]:
    """The examples that the docstring of a pass gives."""
    found = _EXAMPLE.findall(factory.__doc__ or "")
    return [Example(_script(before), made, _script(after)) for before, made, after in found]


def _script(text: str) -> str:
    return textwrap.dedent(text).strip("\n")
