"""The public names of relaxjax with their parameters, one a line: what a release promises.

python tests/listed_names.py    writes tests/public_names.txt anew, after a change on purpose
"""

import importlib
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from relaxjax.passes import PassFactory

FILE = Path(__file__).with_name("public_names.txt")
PACKAGES = (
    *("relaxjax", "relaxjax.autodiff", "relaxjax.backends", "relaxjax.datasets", "relaxjax.dpl"),
    *(
        "relaxjax.explorer",
        "relaxjax.frontends",
        "relaxjax.ir",
        "relaxjax.losses",
        "relaxjax.lowering",
        "relaxjax.ops",
    ),
    *("relaxjax.optim", "relaxjax.passes", "relaxjax.script", "relaxjax.testing"),
    "relaxjax.training",
)


def lines() -> list[str]:
    """Each name of each package, and those of its classes."""
    return [line for package in PACKAGES for line in _of_package(package)]


def _of_package(package: str) -> Iterator[str]:
    module = importlib.import_module(package)
    for name in sorted(dir(module)):
        value = getattr(module, name)
        is_own = not isinstance(value, ModuleType) and _home(value).startswith("relaxjax")
        if not name.startswith("_") and is_own:
            yield from _lines(f"{package}.{name}", value)


def _home(value: Any) -> str:
    return str(getattr(value, "__module__", None) or type(value).__module__)


def _lines(name: str, value: Any) -> Iterator[str]:
    yield f"{name}{_parameters(value)}"
    if isinstance(value, type):
        for member in sorted(_members(value)):
            found = inspect.getattr_static(value, member)
            yield f"{name}.{member}{_parameters(found)}"


def _members(value: type) -> set[str]:
    """The public names of a class, and those of bases of ours that have no public name."""
    bases = (base for base in value.__mro__[1:] if _home(base).startswith("relaxjax"))
    hidden = [base for base in bases if base not in _public_classes()]
    return {name for one in (value, *hidden) for name in vars(one) if not name.startswith("_")}


@cache
def _public_classes() -> set[type]:
    found = (vars(importlib.import_module(package)).values() for package in PACKAGES)
    return {value for values in found for value in values if isinstance(value, type)}


def _parameters(value: Any) -> str:
    """The parameters with their defaults, as they are called; nothing for what is not called."""
    if isinstance(value, PassFactory):
        return _text(value.parameters.values())
    if isinstance(value, staticmethod | classmethod):
        value = value.__func__
    if isinstance(value, property) or not callable(value):
        return ""
    try:
        return _text(inspect.signature(value).parameters.values())
    except ValueError:  # of a class that is built in
        return "(...)"


def _text(parameters: Any) -> str:
    bare = [one.replace(annotation=inspect.Parameter.empty) for one in parameters]
    return re.sub(r" at 0x[0-9a-f]+", "", str(inspect.Signature(bare)))


if __name__ == "__main__":
    FILE.write_text("".join(f"{line}\n" for line in lines()))
