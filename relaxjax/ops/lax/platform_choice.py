"""The choice of a program by the platform, which JAX has as the number of a branch.

JAX may compute that number far ahead of the branches, outside of the loops that they are in. The IR
has no such value: a loop and a branch know the number instead of taking it.
"""

from collections.abc import Sequence
from itertools import compress
from typing import Any

from relaxjax.ops.platform import going_by

from .training_forms import place_of


class PlatformIndex:
    """Stands for the number of the branch that is for the platform compiled for."""

    def __init__(self, platforms: Sequence[tuple[str, ...] | None]) -> None:
        self.platforms = platforms

    def branch(self, platform: str | None) -> int | None:
        """The branch for a platform; None where it is not known yet."""
        if platform is None:
            return None
        going_by([platform])
        return place_of(platform, self.platforms)


def are_values(args: Sequence[Any]) -> list[bool]:
    """Which arguments the IR has."""
    return [not isinstance(arg, PlatformIndex) for arg in args]


def values_of(args: Sequence[Any]) -> list[Any]:
    """The arguments that the IR has."""
    return list(compress(args, are_values(args)))


def choices_among(args: Sequence[Any]) -> list[PlatformIndex | None]:
    """The arguments that the IR does not have, None in the place of the others."""
    return [arg if isinstance(arg, PlatformIndex) else None for arg in args]
