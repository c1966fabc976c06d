"""`explore`: a program, its passes and its memory, as one document and as a page."""

import json
from dataclasses import dataclass
from html import escape
from os import PathLike
from typing import Any

from relaxjax.ir.whole_file import write_whole
from relaxjax.passes.memory.budget import Budget

from .document import Document
from .page import page
from .plans import memory_of
from .printed import Table
from .stages import stages_of
from .subjects import Found, Wish, found_in

_HEIGHT = 720  # pixels of a notebook


@dataclass(frozen=True, eq=False)
class Explorer:
    """What `explore` found: a page in a notebook, or a file that opens in any browser.

        relaxjax.explore(loss, params, batch).save("report.html")

    `document` holds all that the page shows, as plain dataclasses.
    """

    document: Document

    def save(self, path: str | PathLike[str]) -> None:
        """Write the page: one file that asks for no other, and for no network."""
        write_whole(path, self.html().encode())

    def html(self) -> str:
        """The page as text."""
        return page(self.document)

    def to_json(self) -> dict[str, Any]:
        """The document as JSON has it; `schema` says which form it is in."""
        return json.loads(json.dumps(self.document.to_json()))  # type: ignore[no-any-return]

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{escape(self.html())}" width="100%" height="{_HEIGHT}" '
            f'title="{escape(self.document.title)} in the explorer" style="border:0"></iframe>'
        )

    def __repr__(self) -> str:
        found = self.document
        shown = "no function" if found.function is None else found.function
        return f"<Explorer of {shown}: {len(found.stages)} stages, {len(found.lines)} lines>"


def explore(
    subject: Any,
    *args: Any,
    function: str | None = None,
    budget: Budget | None = None,
    policy: str | None = None,
    title: str | None = None,
) -> Explorer:
    """Look at a program, what its passes did, what it costs and what memory it takes.

        relaxjax.explore(module)
        relaxjax.explore(loss, params, batch).save("report.html")
        relaxjax.explore(trainer).to_json()["memory"]

    Args:
        subject: a module, a function in Relax, a trainer, an executable, a loss written in JAX, a
            `value_and_grad` of one, or the name of a file with a module in it.
        args: the arguments of a loss written in JAX.
        function: the function of a module to differentiate, or an adjoint that is there already.
        budget: the bytes that the adjoint may take, as `Rematerialize` has it.
        policy: what of it is computed again, instead of a budget; all is kept unless one is given.
        title: what the page is called.
    """
    found = found_in(subject, args, Wish(function, budget, policy))
    return Explorer(_document(found, title or found.title))


def _document(found: Found, title: str) -> Document:
    table = Table()
    stages = stages_of(found.moments, table)
    memory = None if found.report is None else memory_of(found.report, table.places)
    return Document(
        title,
        table.places.sources(),
        table.places.places(),
        tuple(table.numbers),
        stages,
        found.function,
        memory,
        found.notes,
    )
