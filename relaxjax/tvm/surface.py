"""Modules where TVM has them, made from the table of names.

What programs of ours are checked by their types for is a file. The table adds names to these, and
makes the other modules; a name is looked up when it is asked for.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import Any

from relaxjax.ir.registry import did_you_mean

from .names import NAMES, SAME
from .scope import OutOfScopeNameError, reason

ROOT = __name__.rpartition(".")[0]
OWN = ROOT.rpartition(".")[0]
_MODULES: dict[str, ModuleType] = {}


def full_path(path: str) -> str:
    """A path as a program for TVM writes it: `tvm.relax` for `relax`."""
    return path if path.split(".")[0] == "tvm_ffi" else f"tvm.{path}" if path else "tvm"


@dataclass(slots=True)
class Source:
    """Where the names of a module come from."""

    named: dict[str, tuple[str, str]] = field(default_factory=dict)
    homes: list[str] = field(default_factory=list)

    @staticmethod
    def read(text: str) -> "Source":
        """A source as the table writes it; a later line counts more."""
        source, home = Source(), ""
        for word in text.split():
            if word.endswith(":"):
                home = f"{ROOT}{word[:-1]}" if word[0] == "." else f"{OWN}.{word[:-1]}"
            elif word == "*":
                source.homes.append(home)
            else:
                theirs, _, ours = word.partition("=")
                source.named[theirs] = home, ours or theirs
        return source

    def get(self, name: str) -> Any:
        """What stands behind a name; an AttributeError where there is none."""
        if name in self.named:
            home, ours = self.named[name]
            return getattr(_home(home), ours)
        wrong = AttributeError(name)
        for home in self.homes:
            try:
                found = getattr(_home(home), name)
            except AttributeError as error:
                wrong = error
                continue
            if not isinstance(found, ModuleType):
                return found
        raise wrong

    def names(self) -> Iterator[str]:
        """The public names."""
        yield from self.named
        for home in self.homes:
            for name in dir(_home(home)):
                if name[0] != "_" and not isinstance(getattr(_home(home), name), ModuleType):
                    yield name


def provide() -> None:
    """Make every module of the table, and let the names of its files be looked up there too."""
    for path in (*NAMES, *SAME):
        _provided(path)


def _provided(path: str) -> ModuleType:
    name = f"{ROOT}.{path}" if path else ROOT
    if path in _MODULES:
        return _MODULES[path]
    same = SAME.get(path)
    if same is not None:
        module = import_module(same) if same.startswith(f"{OWN}.") else _provided(same)
    else:
        summary = f"What `{full_path(path)}` of TVM has, as far as it is here."
        module = sys.modules.get(name) or ModuleType(name, summary)
        vars(module).setdefault("__path__", [])  # a package: others may lie below it
        if path in NAMES:
            _look_up(module, path)
    _MODULES[path] = sys.modules[name] = module
    parent, _, short = path.rpartition(".")
    if path and short not in vars(_provided(parent)):
        setattr(_provided(parent), short, module)
    return module


def _look_up(module: ModuleType, path: str) -> None:
    """Let a module look its names up in the table, behind what it looks up by itself."""
    source = Source.read(NAMES[path])

    def get(name: str) -> Any:
        if name == "__all__":  # asked for by `from ... import *`
            return [known for known in names() if known[0] != "_"]
        if name.startswith("__"):
            raise AttributeError(f"module `{module.__name__}` has no attribute `{name}`")
        try:
            found = source.get(name)
        except AttributeError as error:
            raise _missing(path, name, names, error) from None
        setattr(module, name, found)
        return found

    def names() -> list[str]:
        return sorted({*vars(module), *source.names()})

    vars(module).update(__getattr__=get, __dir__=names)


def _missing(
    path: str, name: str, names: Callable[[], list[str]], error: AttributeError
) -> AttributeError:
    full = f"{path}.{name}" if path else name
    why = reason(full)
    if why is not None:
        return OutOfScopeNameError(f"`{full_path(full)}` has no place in relaxjax: {why}")
    if str(error).startswith("there is no `"):  # a script's vocabulary, which knows near misses
        return error
    near = did_you_mean(name, names())
    return AttributeError(f"relaxjax has no `{full_path(full)}`{near}")


def _home(path: str) -> Any:
    """A module by its path, or a family of operators, which is none."""
    try:
        return import_module(path)
    except ModuleNotFoundError:
        parent, _, name = path.rpartition(".")
        return getattr(import_module(parent), name)
