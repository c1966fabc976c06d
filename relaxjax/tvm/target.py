"""What programs are built for, where TVM has it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

_FAMILIES = {"llvm": "cpu", "c": "cpu", "cuda": "gpu", "rocm": "gpu"}


@dataclass(frozen=True, slots=True)
class TargetKind:
    """The kind of a target: its first word."""

    name: str


class Target(str):
    """The name of a target, which `build` and `compile` take as it is.

    As a context it changes nothing: what programs are built for is said where they are built. The
    host is the one that JAX has.
    """

    __slots__ = ()
    _entered: ClassVar[list["Target"]] = []

    def __new__(cls, target: str | Mapping[str, Any], host: Any = None) -> "Target":
        name = target.get("kind") if isinstance(target, Mapping) else target
        if not isinstance(name, str):
            raise TypeError(
                f'`Target` takes the name of a target, found {target!r}: write `Target("llvm")`'
            )
        return super().__new__(cls, name)

    @property
    def kind(self) -> "TargetKind":
        return TargetKind(self.split()[0])

    @property
    def keys(self) -> list[str]:
        """The kind, and the family that it belongs to: "cpu" or "gpu"."""
        kind = self.kind.name
        family = _FAMILIES.get(kind, kind)
        return [family] if family in ("cpu", kind) else [kind, family]

    @property
    def attrs(self) -> dict[str, str]:
        """The options in the name: `-mcpu=generic` is `{"mcpu": "generic"}`."""
        options = (word.lstrip("-").partition("=") for word in self.split()[1:])
        return {name: value for name, _, value in options}

    @classmethod
    def current(cls, allow_none: bool = True) -> "Target | None":
        """The innermost target that is entered as a context."""
        if cls._entered:
            return cls._entered[-1]
        if allow_none:
            return None
        raise ValueError("no target is entered: write `with tvm.target.Target(...)` around this")

    def __enter__(self) -> "Target":
        self._entered.append(self)
        return self

    def __exit__(self, *failure: object) -> None:
        self._entered.pop()
