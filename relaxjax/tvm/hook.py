"""`import tvm` as programs for TVM say it: the hook that finds relaxjax there, and its undoing."""

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

from .scope import OutOfScopeImportError, reason
from .surface import ROOT, full_path

THEIRS = ("tvm", "tvm_ffi")
OURS = "relaxjax."


class RealTvmError(ImportError):
    """TVM itself is imported already, so its name is not to be had."""


class _Same(Loader):
    """Loads a module under another name: the very same one, which is imported already."""

    def __init__(self, name: str) -> None:
        self.name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        """The import system takes what stands among the modules after this."""
        assert module.__spec__ is not None
        sys.modules[module.__spec__.name] = sys.modules[self.name]


class TvmFinder(MetaPathFinder):
    """Finds modules of ours by the names of TVM's, and says of the others what to do instead."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        root = name.partition(".")[0]
        if root not in THEIRS:
            return None
        below = name if root == "tvm_ffi" else name[len("tvm.") :]
        ours = f"{ROOT}.{below}" if below else ROOT
        if ours not in sys.modules and not _imported(ours):
            raise not_here(below)
        return ModuleSpec(name, _Same(ours), is_package=True)


class MissingFinder(MetaPathFinder):
    """Says of what is not below `relaxjax.tvm`, where nothing else found it, what to do instead."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        below = name.removeprefix(f"{ROOT}.")
        if below != name and reason(below) is not None:
            raise not_here(below)
        return None


def not_here(path: str) -> ImportError:
    """The error for a module of TVM's that is not here."""
    name, why = full_path(path), reason(path)
    if why is not None:
        return OutOfScopeImportError(f"`{name}` has no place in relaxjax: {why}", name=name)
    return ModuleNotFoundError(f"relaxjax has no `{name}`", name=name)


def install() -> None:
    """Let `import tvm` find relaxjax, in this process, until `uninstall` is called.

    >>> from relaxjax.tvm import install, uninstall
    >>> install()
    >>> import tvm
    >>> tvm.__name__
    'relaxjax.tvm'
    >>> uninstall()
    """
    for name in THEIRS:
        module = sys.modules.get(name)
        if module is not None and not module.__name__.startswith(OURS):
            raise RealTvmError(
                f"`{name}` is imported already, from {getattr(module, '__file__', None)}: call "
                "`relaxjax.tvm.install()` in a process that has not imported it"
            )
    if not is_installed():
        sys.meta_path.insert(0, TvmFinder())


def uninstall() -> None:
    """Undo `install`: `import tvm` finds what is installed under that name, if anything is."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, TvmFinder)]
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in THEIRS and module.__name__.startswith(OURS):
            del sys.modules[name]


def is_installed() -> bool:
    """Whether `import tvm` finds relaxjax."""
    return any(isinstance(finder, TvmFinder) for finder in sys.meta_path)


def explain_missing() -> None:
    """Let imports below `relaxjax.tvm` that fail say what to use instead."""
    sys.meta_path.append(MissingFinder())


def _imported(name: str) -> bool:
    try:
        if find_spec(name) is None:
            return False
    except ModuleNotFoundError:  # its parent is no package
        return False
    __import__(name)
    return True
