"""What programs are built for, where TVM has it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


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

    def __enter__(self) -> "Target":
        return self

    def __exit__(self, *failure: object) -> None:
        pass
