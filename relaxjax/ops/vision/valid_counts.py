"""Boxes of a sufficient score moved to the front: what comes before suppression."""

from typing import Any

import jax
import jax.numpy as jnp

from relaxjax.ir.types import TensorType, TupleType
from relaxjax.ops.declare import OpError, op
from relaxjax.ops.lowered_cost import LOWERED
from relaxjax.ops.once import computed_once
from relaxjax.ops.shapes import require_ndim
from relaxjax.ops.traced import traced_gradient
from relaxjax.ops.unary import require_float

from .selection import front, where_rows


def require_column(name: str, index: int, data: TensorType, start: int = 0) -> None:
    """A column outside of the rows of `data` is an error; so is one before `start`."""
    length = data.dims[2] if data.dims is not None else None
    if index < start or (isinstance(length, int) and index >= length):
        end = length if isinstance(length, int) else "the length of a row"
        raise OpError(f"`{name}` must be in [{start}, {end}), found {index}")


def _get_valid_counts(data: Any, score_threshold: float, id_index: int, score_index: int) -> Any:
    def of_one(rows: Any) -> tuple[Any, Any, Any]:
        valid = rows[:, score_index] > jnp.asarray(score_threshold).astype(rows.dtype)
        if id_index >= 0:
            valid = valid & (rows[:, id_index] >= 0)
        valid = computed_once(valid)
        moved, count = front(valid)
        kept = jnp.arange(rows.shape[0], dtype=jnp.int32) < count
        return count, where_rows(kept, rows[moved], -1), jnp.where(kept, moved, -1)

    return tuple(jax.vmap(of_one)(data))


@op(
    "relax.vision.get_valid_counts",
    lower=_get_valid_counts,
    gradient=traced_gradient("relax.vision.get_valid_counts"),
    cost=LOWERED,
)
def get_valid_counts(
    data: TensorType, score_threshold: float = 0.0, id_index: int = 0, score_index: int = 1
) -> TupleType:
    """The boxes whose score is above `score_threshold`, moved to the front of each image.

    `data` has shape (images, boxes, row). A row holds a class at `id_index`, where a negative one
    means no box and an index of -1 that there is no class, and a score at `score_index`. The result
    is the number of boxes kept in each image, `data` with them in front and -1 behind, and where
    they stood, -1 behind.
    """
    require_ndim("data", data, 3)
    require_float(data, "data")
    require_column("score_index", score_index, data)
    require_column("id_index", id_index, data, -1)
    known, vdevice = data.dims is not None, data.vdevice
    dims = data.dims or ()
    return TupleType(
        (
            TensorType(dims[:1] if known else None, "int32", 1, vdevice),
            TensorType(data.shape, data.dtype, 3, vdevice),
            TensorType(dims[:2] if known else None, "int32", 2, vdevice),
        )
    )
