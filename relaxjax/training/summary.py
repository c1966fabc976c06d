"""What a trainer holds, as a table: each parameter with its shape and bytes, and the sums."""

from collections.abc import Sequence

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Var
from relaxjax.ops.cost_rules import elements

from .inputs import device_dtype, tensor_type
from .layout import Layout
from .random_state import is_key

_TITLES = ("parameter", "shape", "dtype", "numbers", "bytes")
_WORDS = 3  # columns from the left that hold no numbers


def summary(layout: Layout) -> str:
    """The table of the parameters, and below it what is held beside them."""
    rows = [_TITLES, *map(_row, layout.params.vars)]
    held = [
        f"{len(group.vars)} {group.kind}{'' if len(group.vars) == 1 else 's'}, "
        f"{_shown(sum(map(_bytes, group.vars)))} bytes"
        for group in layout.groups
        if group.vars
    ]
    return "\n".join([*_aligned(rows), "", *held])


def _row(var: Var) -> tuple[str, ...]:
    shape = f"({', '.join(map(str, tensor_type(var).dims or ()))})"
    return var.name, shape, str(device_dtype(var)), _shown(elements(var.ty)), _shown(_bytes(var))


def _bytes(var: Var) -> Dim:
    """The bytes of a variable; those of a random key are JAX's, and few."""
    return 0 if is_key(var) else elements(var.ty) * device_dtype(var).itemsize


def _shown(count: Dim) -> str:
    """A number, or a product of symbols where a size is not known before a call."""
    return f"{count:,}" if isinstance(count, int) else str(count)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns of one width: words to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if place < _WORDS else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
