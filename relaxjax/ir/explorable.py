"""What can be looked at in the explorer, which stands above all that it shows."""

from collections.abc import Callable
from os import PathLike
from typing import Any, Protocol, TypeAlias


class Explored(Protocol):
    """What `explore` finds: a page, shown in a notebook or saved to a file."""

    def save(self, path: str | PathLike[str]) -> None:
        """Write the page: one file that asks for no other, and for no network."""

    def html(self) -> str:
        """The page as text."""
        ...

    def to_json(self) -> dict[str, Any]:
        """All that the page shows as JSON has it."""
        ...


Explore: TypeAlias = Callable[..., Explored]

# The explorer knows all kinds of things that it shows, so the package's root enters it here.
_finders: list[Callable[[], Explore]] = []


def explored_by(find: Callable[[], Explore]) -> None:
    """Let `x.explore()` call what `find` gives; it is asked when there is something to explore."""
    _finders.append(find)


class Explorable:
    """What has a page of its own in the explorer."""

    __slots__ = ()

    def explore(self, *args: Any, **options: Any) -> Explored:
        """Look at it in the explorer, as `relaxjax.explore` does, whose options these are.

        A notebook shows what this gives, and `save("report.html")` writes it.
        """
        return _finders[-1]()(self, *args, **options)
