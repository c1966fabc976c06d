"""What programs are built for, where TVM has it."""

from collections.abc import Mapping
from typing import Any


class Target(str):
    """The name of a target, which `build` and `compile` take as it is.

    As a context it changes nothing: what programs are built for is said where they are built.
    """

    __slots__ = ()

    def __new__(cls, target: str | Mapping[str, Any]) -> "Target":
        name = target.get("kind") if isinstance(target, Mapping) else target
        if not isinstance(name, str):
            raise TypeError(
                f'`Target` takes the name of a target, found {target!r}: write `Target("llvm")`'
            )
        return super().__new__(cls, name)

    def __enter__(self) -> "Target":
        return self

    def __exit__(self, *failure: object) -> None:
        pass
