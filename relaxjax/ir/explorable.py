"""What can be looked at in the explorer, which stands above all that it shows."""

from os import PathLike
from typing import Any, Protocol

from .written_above import written_above


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


class Explorable:
    """What has a page of its own in the explorer."""

    __slots__ = ()

    @written_above
    def explore(self, *args: Any, **options: Any) -> Explored:
        """Look at it in the explorer, as `relaxjax.explore` does, whose options these are.

        A notebook shows what this gives, and `save("report.html")` writes it.
        """
        raise NotImplementedError
