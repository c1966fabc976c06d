"""Inputs and targets that pick rows, such as those of an embedding."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from relaxjax.ir.expr import Var
from relaxjax.ir.module import IRModule

from .ids import are_below, span

ROW_IDS = "row_ids"  # the attribute that says which arguments pick rows, out of how many


class RowIds(NamedTuple):
    """The ids in one argument: 0 to `rows` - 1."""

    place: int
    name: str
    rows: int

    def check(self, array: Any) -> None:
        """Raise where an id is no row: the model would take the nearest, its gradient none."""
        if not are_below(array, self.rows):
            strange = array[(array < 0) | (array >= self.rows)]
            raise ValueError(
                f"the model picks one of {self.rows} rows, 0 to {self.rows - 1}, by each id in "
                f"`{self.name}`, but that holds {span(strange)}: give only ids of rows, or say "
                'what the others stand for by R.take(..., mode="clip"), "wrap" or "nan"'
            )


def row_ids_of(mod: IRModule, arguments: Sequence[Var]) -> tuple[RowIds, ...]:
    """The arguments that hold ids, of a module made by SetupTrainer."""
    names = [argument.name for argument in arguments]
    return tuple(
        RowIds(names.index(name), name, rows)
        for name, rows in mod.attrs.get(ROW_IDS, ())
        if name in names
    )
