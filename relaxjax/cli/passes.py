"""List the passes: their names, the opt level from which they run, and what they do.

`relaxjax opt` runs them.

    relaxjax passes
    relaxjax passes "*Layout*" "Fold*"
    relaxjax passes Gradient --json

With --json, each pass is listed with its options, too. With --markdown, the list is a page of
documentation, which holds the docstring and the example of each pass.
"""

import argparse
import inspect
import json
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from relaxjax.ir.highlight import painted
from relaxjax.passes import PassFactory
from relaxjax.passes.infrastructure.base import FACTORIES
from relaxjax.passes.infrastructure.named import import_packaged

from .patterns import add_listing, matching


def add_arguments(parser: argparse.ArgumentParser) -> None:
    form = add_listing(parser, "passes", "*")
    form.add_argument("--markdown", action="store_true", help="print a page of documentation")


def run(args: argparse.Namespace) -> int:
    if not args.markdown:  # the page is of those that come with the package
        import_packaged()
    named = {name for one in args.patterns for name in matching("pass", one, FACTORIES)}
    factories = [FACTORIES[name] for name in sorted(named)]
    if args.json:
        print(json.dumps([_record(factory) for factory in factories], indent=2))
        return 0
    if args.markdown:
        print(page(factories), end="")
        return 0
    width = max(len(factory.name) for factory in factories)
    for factory in factories:
        name = painted(factory.name, "bold") + " " * (width - len(factory.name))
        print(f"{name}  {factory.opt_level}  {factory.summary}")
    return 0


def page(factories: Sequence[PassFactory[...]]) -> str:
    """The page of documentation on the passes."""
    rows = [f"| [{f.name}](#{f.name.lower()}) | {f.opt_level} | {f.summary} |" for f in factories]
    return "\n".join([_HEAD, *rows, "", *map(_section, factories)])


def _section(factory: PassFactory[...]) -> str:
    head = f"## {factory.name}\n\n{_signature(factory)}, level {factory.opt_level}."
    parts = [head, factory.__doc__ or "", examples_text(factory.name)]
    return "\n\n".join(part.rstrip() for part in parts if part) + "\n"


_HEAD = """\
# The catalogue of passes

Every pass of `relaxjax.passes`, as its docstring has it, with what it makes of an example:
`relaxjax passes --markdown` writes the page.
A `Sequential` runs those whose level is at most the `opt_level` of the `PassContext`. What some of
them gain is [measured](passes_measured.md).

| pass | level | what it does |
|---|---|---|"""


def _signature(factory: PassFactory[...]) -> str:
    options = [
        name if parameter.default is inspect.Parameter.empty else f"{name}={parameter.default!r}"
        for name, parameter in factory.parameters.items()
    ]
    return f"`{factory.name}({', '.join(options)})`"


def _record(factory: PassFactory[...]) -> dict[str, Any]:
    return {
        "name": factory.name,
        "opt_level": factory.opt_level,
        "kind": factory.kind,
        "required": list(factory.info.required),
        "summary": factory.summary,
        "options": [_option(parameter) for parameter in factory.parameters.values()],
    }


def _option(parameter: inspect.Parameter) -> dict[str, Any]:
    annotation = inspect.formatannotation(parameter.annotation)
    option: dict[str, Any] = {"name": parameter.name, "type": annotation}
    if parameter.default is not inspect.Parameter.empty:
        option["default"] = repr(parameter.default)
    return option


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
    """The examples in the text of an `examples/<pass>.md`, which is written so:

        Before:

            @R.function
            def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
                y = R.multiply(x, R.const(1.0, "float32"))
                return y

        After `SimplifyExpr()`:

            @R.function
            def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
                return x

    The functions may stand in a module, `@I.ir_module`. The script after may leave out functions
    that stay as they are, and write `...` for a body.
    """
    found = _EXAMPLE.findall(text)
    return [Example(_script(before), made, _script(after)) for before, made, after in found]


def examples_text(name: str) -> str:
    """What is written of the examples of a pass; nothing for one that is declared elsewhere."""
    path = files("relaxjax.passes") / "examples" / f"{name}.md"
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _script(text: str) -> str:
    return textwrap.dedent(text).strip("\n")
