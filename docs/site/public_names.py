"""The API reference: pages of Markdown that hold every public name, out of the docstrings."""

import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from relaxjax.passes.infrastructure.base import PassFactory

# What has a page of its own, in the order of the index. A name that several packages have is told
# of where it is first met; `relaxjax` itself only names what is elsewhere.
PACKAGES = {
    "relaxjax": "The names of `relaxjax` itself",
    "relaxjax.autodiff": "Gradients of functions written in JAX",
    "relaxjax.frontends": "Programs written elsewhere",
    "relaxjax.script": "Scripts and archives",
    "relaxjax.script.ir": "Modules in a script",
    "relaxjax.ir": "Programs",
    "relaxjax.ops": "Declaring operators",
    "relaxjax.dpl": "Patterns",
    "relaxjax.passes": "Passes",
    "relaxjax.losses": "Losses",
    "relaxjax.optim": "Optimizers",
    "relaxjax.training": "Training",
    "relaxjax.lowering": "Running and exporting",
    "relaxjax.backends": "Backends",
    "relaxjax.explorer": "The explorer",
    "relaxjax.testing": "Checks",
    "relaxjax.datasets": "Data",
    "relaxjax.torch": "Models of PyTorch",
}
HEADINGS = {"Args": "Arguments", "Returns": "Result", "Raises": "Errors"}
UNINFORMATIVE = ("object", "Generic", "ABC", "Protocol")
FIELDS = re.compile(r"(?:^\w+: .*\n(?:    .*\n)*){2,}", re.MULTILINE)
PROMPT = re.compile(r"(?:^(?:>>>|\.\.\.).*\n?(?:^(?!>>>)\S.*\n?)*)+", re.MULTILINE)


@dataclass(frozen=True)
class Name:
    """A public name: where it is told of, and what it names."""

    package: str
    name: str
    value: Any

    @property
    def path(self) -> str:
        return f"{self.package}.{self.name}"


def public_names(package: str) -> list[str]:
    """The names that a package offers, modules left out."""
    module = importlib.import_module(package)
    listed = getattr(module, "__all__", None) or [name for name in vars(module) if name[0] != "_"]
    return sorted(
        (name for name in listed if not isinstance(getattr(module, name), ModuleType)),
        key=lambda name: (name.lower(), name),
    )


def told_once() -> dict[str, list[Name]]:
    """The names of each page, every object on one of them only."""
    told: set[int] = set()
    pages: dict[str, list[Name]] = {}
    for package in sorted(PACKAGES, key=lambda package: package == "relaxjax"):
        module = importlib.import_module(package)
        names = [Name(package, name, getattr(module, name)) for name in public_names(package)]
        pages[package] = [item for item in names if id(item.value) not in told]
        told |= {id(item.value) for item in names}
    return pages


def pages() -> Iterator[tuple[str, str]]:
    """The pages of the reference: their paths and texts."""
    told = told_once()
    homes = {id(item.value): item for items in told.values() for item in items}
    yield "api.md", _index()
    for package, title in PACKAGES.items():
        summary = inspect.getdoc(importlib.import_module(package)) or ""
        parts = [f"# {title}", f"`{package}`: {as_markdown(summary.partition(': ')[2] or summary)}"]
        parts += [_elsewhere(package, told[package], homes)]
        parts += [_entry(item) for item in told[package]]
        yield f"api/{package}.md", "\n\n".join(part for part in parts if part) + "\n"


def _index() -> str:
    rows = [
        f"| [`{package}`](api/{package}.md) | {title} | {len(public_names(package))} |"
        for package, title in PACKAGES.items()
    ]
    intro = (
        "Every public name, out of its docstring. [The operators](operators.md), which scripts "
        "call as `R.add`, and [the passes](passes.md), each with an example, have catalogues."
    )
    return "\n".join(
        ["# API reference", "", intro, "", "| package | what it holds | names |", "|---|---|---:|"]
        + rows
        + ["", "```{toctree}", ":hidden:", ""]
        + [f"api/{package}" for package in PACKAGES]
        + ["```", ""]
    )


def _elsewhere(package: str, here: list[Name], homes: dict[int, Name]) -> str:
    """A table of the names whose story is on another page."""
    module, own = importlib.import_module(package), {item.name for item in here}
    rows = []
    for name in public_names(package):
        home = homes[id(getattr(module, name))]
        if name not in own:
            rows.append(f"| [`{name}`](#{home.path}) | {_summary(home.value)} |")
    return "\n".join(["| name | |", "|---|---|", *rows]) if rows else ""


def _entry(item: Name) -> str:
    value = item.value
    if inspect.isclass(value):
        return _class(item)
    if isinstance(value, PassFactory):
        catalogue = f"[An example](../passes.md#{item.name.lower()}) of what it makes of a program."
        return _directive("function", item.path + _signature(value), _doc(value), catalogue)
    if callable(value):
        return _directive("function", item.path + _signature(value), _doc(value))
    return _directive("data", item.path, _doc_of_data(value))


def _class(item: Name) -> str:
    cls = item.value
    bases = [base.__name__ for base in cls.__bases__ if base.__name__ not in UNINFORMATIVE]
    based = f"A subclass of {', '.join(f'`{base}`' for base in bases)}." if bases else ""
    members = [_member(name, member) for name, member in _members(cls)]
    kind = "exception" if issubclass(cls, BaseException) else "class"
    signature = "" if kind == "exception" else _signature(cls)
    return _directive(kind, item.path + signature, _doc(cls), based, *members)


def _members(cls: type) -> Iterator[tuple[str, Any]]:
    """What a class itself defines for its users and says something of."""
    for name, member in vars(cls).items():
        target = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        told = inspect.isfunction(target) or isinstance(target, property)
        if told and name[0] != "_" and getattr(target, "__doc__", None):
            yield name, member


def _member(name: str, member: Any) -> str:
    if isinstance(member, property):
        return _directive("property", name, _doc(member), inner=True)
    target = member.__func__ if isinstance(member, classmethod | staticmethod) else member
    options = [
        f":{word}:"
        for word, kind in (("classmethod", classmethod), ("staticmethod", staticmethod))
        if isinstance(member, kind)
    ]
    bound = not isinstance(member, staticmethod)
    text = [*options, "", _doc(target)] if options else [_doc(target)]
    return _directive("method", name + _signature(target, bound), "\n".join(text), inner=True)


def _directive(kind: str, head: str, *texts: str, inner: bool = False) -> str:
    fence = ":::::" if inner else "::::::"
    body = "\n\n".join(text for text in texts if text)
    return f"{fence}{{py:{kind}}} {head}\n{body}\n{fence}"


def _signature(value: Any, bound: bool = False) -> str:
    """The parameters as a person would write them: names and defaults, without types."""
    try:
        parameters = list(inspect.signature(value).parameters.values())[bound:]
    except (TypeError, ValueError):
        return "()"
    plain = [
        parameter.replace(
            annotation=inspect.Parameter.empty, default=_plain_default(parameter.default)
        )
        for parameter in parameters
        if parameter.name[0] != "_"
    ]
    return str(inspect.Signature(plain))


class _AsIs:
    """A default that prints as this text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _plain_default(default: Any) -> Any:
    """A default whose text Python can read; another is an ellipsis."""
    text = repr(default)
    short = len(text) <= 40 and not text.startswith("<")
    return default if default is inspect.Parameter.empty or short else _AsIs("...")


def _doc(value: Any) -> str:
    return as_markdown(inspect.getdoc(value) or "")


def _doc_of_data(value: Any) -> str:
    text = " ".join(repr(value).split())
    return f"`{text}`" if len(text) <= 120 else f"A {type(value).__name__}."


def _summary(value: Any) -> str:
    text = (inspect.getdoc(value) or "").partition("\n\n")[0]
    return " ".join(text.split()).replace("|", "\\|")


def as_markdown(text: str) -> str:
    """A docstring as Markdown: examples at a prompt are fenced, arguments and fields are lists."""
    text = PROMPT.sub(lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", text) + "\n"
    text = FIELDS.sub(lambda found: _listed(found[0]), text)
    text = re.sub(
        r"^(Args|Returns|Raises):\n((?:    .*\n?)+)",
        lambda found: f"**{HEADINGS[found[1]]}**\n\n{_listed(textwrap.dedent(found[2]))}",
        text,
        flags=re.MULTILINE,
    )
    return text.rstrip()


def _listed(fields: str) -> str:
    """Lines such as `name: what it is` as a list; a line that goes on stays with its own."""
    lines = re.sub(r"^    ", "  ", fields, flags=re.MULTILINE)
    return re.sub(r"^(\w+): ", r"* `\1`: ", lines, flags=re.MULTILINE) + "\n"
