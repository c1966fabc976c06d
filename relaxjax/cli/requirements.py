"""The packages that an installed one asks for, and whether they are there."""

import importlib
import re
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, metadata, requires, version

_ASKED = re.compile(r"(?P<name>[\w.-]+)(?:\[(?P<extras>[^]]*)\])?(?P<specifier>[^;]*)")
_EXTRA = re.compile(r"""extra\s*==\s*['"]([\w.-]+)['"]""")
_LEAST = re.compile(r">=\s*([\d.]+)")


@dataclass(frozen=True)
class Requirement:
    """A package that another asks for, as metadata has it: `jax[cuda12]>=0.10; extra == "x"`."""

    text: str

    @cached_property
    def specifier(self) -> str:
        """The package and its versions, as pip takes them."""
        return self.text.partition(";")[0].strip()

    @cached_property
    def name(self) -> str:
        return self._part("name")

    @cached_property
    def extra(self) -> str | None:
        """The extra that the package belongs to, None where it is always needed."""
        found = _EXTRA.search(self.text)
        return found[1] if found else None

    @cached_property
    def least(self) -> str | None:
        """The oldest version that will do, if one is named."""
        found = _LEAST.search(self.specifier)
        return found[1] if found else None

    def installed(self) -> str | None:
        """The version that is there, None where none is."""
        try:
            return version(self.name)
        except PackageNotFoundError:
            return None

    def is_met_by(self, found: str) -> bool:
        return self.least is None or _numbers(found) >= _numbers(self.least)

    def broken(self) -> str | None:
        """Why the package cannot be imported by its own name, None where it can."""
        try:
            importlib.import_module(self.name)
        except Exception as error:  # a package may fail in any way
            return f"{type(error).__name__}: {error}"
        return None

    def missing(self) -> list[str]:
        """The packages that are not there, of this one and of those that its own extras ask for."""
        if self.installed() is None:
            return [self.name]
        wanted = [name.strip() for name in self._part("extras").split(",")]
        asked = [one for one in needed_by(self.name) if one.extra in wanted]
        return [one.name for one in asked if one.installed() is None]

    def _part(self, name: str) -> str:
        found = _ASKED.match(self.text)
        return (found and found[name]) or ""


def needed_by(package: str) -> list[Requirement]:
    """What a package asks for; nothing where it is not installed itself."""
    try:
        return [Requirement(text) for text in requires(package) or []]
    except PackageNotFoundError:
        return []


def extras_of(package: str) -> list[str]:
    """The names of a package's extras."""
    try:
        return metadata(package).get_all("Provides-Extra") or []
    except PackageNotFoundError:
        return []


def _numbers(text: str) -> tuple[int, ...]:
    """The numbers that a version begins with: 0.10.2.dev5 is 0, 10, 2."""
    found = re.match(r"\d+(\.\d+)*", text)
    return tuple(map(int, found[0].split("."))) if found else ()
