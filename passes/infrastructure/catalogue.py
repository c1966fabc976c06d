"""What the catalogue shows of a pass: scripts before it, and after it.

They stand in `examples/<pass>.md`, written so:

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
from importlib.resources import files

_EXAMPLE = re.compile(
    r"^Before:\n\n((?:(?: +.*)?\n)+?)\nAfter `(.+?)`:\n\n((?:(?: +.*)?(?:\n|\Z))+)", re.MULTILINE
)


@dataclass(frozen=True)
class Example:
    """What a pass made as `made` makes of the functions in `before`."""

    before: str
    made: str
    after: str


def examples(text: str) -> list[Example]:
    """The examples in a text."""
    found = _EXAMPLE.findall(text)
    return [Example(_script(before), made, _script(after)) for before, made, after in found]


def examples_text(name: str) -> str:
    """What is written of the examples of a pass; nothing for one that is declared elsewhere."""
    path = files("relaxjax.passes") / "examples" / f"{name}.md"
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _script(text: str) -> str:
    return textwrap.dedent(text).strip("\n")
