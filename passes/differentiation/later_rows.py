"""Gradients of tables of which the steps of a loop look up rows: added up after it, by places.

A sum step by step is a tensor of the table's size, to which each step adds a few rows. What comes
back to the rows of all steps is kept with their places instead. So the gradient of the table is
rows and places there, as if it had been looked up once. That is done where the steps look up no
more rows than the table has, and so the stack of these is no larger than that tensor.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Call, Expr, Var
from relaxjax.ir.node import replace
from relaxjax.ir.op import Op
from relaxjax.ir.tensor_types import known_dims
from relaxjax.ir.uses import Uses
from relaxjax.ops.shapes import element_count, normalize_axis

from .row_laws import adds_rows, rows_by_scatter

_TAKE, _SCATTER = "relax.grad.take_backward", "lax.scatter_add"


@dataclass(frozen=True)
class LaterRows:
    """A sum over the steps of what comes back to the rows of a table, by its places."""

    adjoint: Call
    rows: Var
    places: Var

    @property
    def factors(self) -> list[Var]:
        return [self.rows, self.places]

    def of_stacks(self, builder: BlockBuilder, stacks: Mapping[Var, Expr]) -> Expr:
        """The sum, as if one lookup had been of the places of all steps."""
        rows, places = (builder.emit(stacks[var]) for var in self.factors)
        assert isinstance(self.adjoint.op, Op)
        if self.adjoint.op.name == _SCATTER:
            return rows_by_scatter(self.adjoint, places, rows)
        return replace(self.adjoint, args=(rows, self.adjoint.args[1], places), ty=None)


def later_rows(known: Uses, table: Var, adjoint: Expr, steps: Dim) -> LaterRows | None:
    """The adjoint of a table in a step, if it had better be added up after the loop."""
    call = known.call(adjoint)
    if call is None or not isinstance(call.op, Op):
        return None
    if call.op.name == _TAKE and _is_of_rows(call, table):
        rows, _, places = call.args
    elif call.op.name == _SCATTER and adds_rows(call, known):
        _, places, rows = call.args
    else:
        return None
    if not isinstance(rows, Var) or not isinstance(places, Var) or known_dims(places) is None:
        return None
    return LaterRows(call, rows, places) if _fits(rows, table, steps) else None


def _is_of_rows(call: Call, table: Var) -> bool:
    """Whether it is the adjoint of a lookup along the first axis of the table itself."""
    dims = known_dims(table)
    along = call.attrs["axis"] or 0
    return call.args[1] is table and bool(dims) and normalize_axis(along, len(dims or ())) == 0


def _fits(rows: Var, table: Var, steps: Dim) -> bool:
    """Whether the rows of all steps together are no larger than the table."""
    ours, whole = known_dims(rows), known_dims(table)
    if ours is None or whole is None:
        return False
    count, most = element_count((steps, *ours)), element_count(whole)
    return isinstance(count, int) and isinstance(most, int) and count <= most
