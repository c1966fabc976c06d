"""Non-maximum suppression of the boxes of each image, hard or soft."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from relaxjax.ir.dims import can_prove_different
from relaxjax.ir.types import TensorType, TupleType, Type
from relaxjax.ops.declare import OpError, op
from relaxjax.ops.lowered_cost import LOWERED
from relaxjax.ops.shapes import dims_text, require_ndim
from relaxjax.ops.traced import traced_gradient
from relaxjax.ops.unary import require_float

from .selection import overlap, select, where_rows
from .valid_counts import require_column

_NO_LIMIT = np.iinfo(np.int32).max


@dataclass(frozen=True, slots=True)
class _Rules:
    """What a row of the data means, and when a box suppresses another."""

    iou_threshold: float
    soft_nms_sigma: float
    score_floor: float
    coord_start: int
    score_index: int
    id_index: int

    @property
    def soft(self) -> bool:
        return self.soft_nms_sigma > 0

    def boxes(self, rows: Any) -> Any:
        return rows[..., self.coord_start : self.coord_start + 4]

    def scores(self, rows: Any) -> Any:
        return rows[..., self.score_index]

    def rivals(self, row: Any, rows: Any) -> Any:
        """Which rows are of the class of `row`."""
        if self.id_index < 0:
            return jnp.ones(rows.shape[:-1], bool)
        return rows[..., self.id_index] == row[..., self.id_index]

    def decay(self, shared: Any) -> Any:
        """What a score is multiplied by for an overlap with a better box."""
        return jnp.exp(jnp.asarray(-0.5 / self.soft_nms_sigma, shared.dtype) * shared * shared)

    def picks(self, rows: Any, alive: Any, limit: Any) -> tuple[Any, Any]:
        """The places of the boxes that remain, in the order in which they are picked."""
        boxes, floor = self.boxes(rows), jnp.asarray(self.score_floor, rows.dtype)

        def suppress(best: Any, scores: Any, alive: Any) -> tuple[Any, Any]:
            shared = overlap(boxes[best][None], boxes)
            rivals = self.rivals(rows[best][None], rows)
            threshold = jnp.asarray(self.iou_threshold, shared.dtype)
            alive = alive & ~(rivals & (shared >= threshold))
            if not self.soft:
                return scores, alive
            scores = jnp.where(rivals, scores * self.decay(shared), scores)
            return scores, alive & (scores > floor)

        scores = self.scores(rows)
        return select(scores, alive & (scores > floor), limit, suppress)

    def decayed(self, rows: Any) -> Any:
        """The rows, in the order of picking, with the scores that those before them leave."""
        shared = overlap(jnp.expand_dims(self.boxes(rows), 1), jnp.expand_dims(self.boxes(rows), 0))
        rivals = self.rivals(jnp.expand_dims(rows, 1), jnp.expand_dims(rows, 0))
        places = jnp.arange(rows.shape[0])
        before = jnp.expand_dims(places, 1) > jnp.expand_dims(places, 0)
        counted = jnp.where(rivals & before, shared, jnp.zeros_like(shared))
        return rows.at[:, self.score_index].multiply(jnp.prod(self.decay(counted), -1))


def _ordered(scores: Any, valid_count: Any) -> Any:
    """The places of boxes by falling score, the valid ones first; ties in their order."""
    places = jnp.arange(scores.shape[0], dtype=jnp.int32)
    return lax.sort((places >= valid_count, -scores, places), num_keys=2)[2]


def _rows_kept(rules: _Rules, data: Any, order: Any, picks: Any, kept: Any, packed: bool) -> Any:
    """The data with -1 for what was suppressed."""
    chosen = data[order[picks]]
    if rules.soft:
        return where_rows(kept, rules.decayed(chosen), -1)
    if packed:
        return where_rows(kept, chosen, -1)
    outside = jnp.full_like(picks, data.shape[0])
    stays = jnp.zeros_like(kept).at[jnp.where(kept, picks, outside)].set(True, mode="drop")
    return where_rows(stays, data[order], -1)


def _non_max_suppression(
    data: Any,
    valid_count: Any,
    indices: Any,
    max_output_size: int,
    force_suppress: bool,
    top_k: int,
    id_index: int,
    return_indices: bool,
    invalid_to_bottom: bool,
    soft_nms_sigma: float,
    score_threshold: float,
    **columns: Any,
) -> Any:
    rules = _Rules(
        id_index=-1 if force_suppress else id_index,
        soft_nms_sigma=soft_nms_sigma,
        score_floor=score_threshold if soft_nms_sigma > 0 else 0.0,
        **columns,
    )
    limit = max_output_size if max_output_size > 0 else _NO_LIMIT

    def of_one(data: Any, valid_count: Any, indices: Any) -> Any:
        fixed = lax.stop_gradient(data)
        if not jnp.issubdtype(data.dtype, jnp.floating):
            fixed = fixed.astype(jnp.float32)
        order = _ordered(rules.scores(fixed), valid_count)
        places = jnp.arange(data.shape[0], dtype=jnp.int32)
        alive = places < (jnp.minimum(valid_count, top_k) if top_k > 0 else valid_count)
        picks, count = rules.picks(fixed[order], alive, limit)
        kept = places < count
        found = jnp.where(kept, indices[order[picks]], -1), jnp.expand_dims(count, 0)
        if return_indices and not rules.soft:
            return found
        rows = _rows_kept(rules, data, order, picks, kept, invalid_to_bottom)
        return (rows, *found) if return_indices else rows

    return jax.vmap(of_one)(data, valid_count, indices)


def _require_images(data: TensorType, valid_count: TensorType, indices: TensorType) -> None:
    """Shapes and dtypes that do not belong together are an error."""
    require_float(data, "data")
    for name, ty, ndim in (
        ("data", data, 3),
        ("valid_count", valid_count, 1),
        ("indices", indices, 2),
    ):
        require_ndim(name, ty, ndim)
        if name != "data" and ty.dtype not in (None, "int32"):
            raise OpError(f"`{name}` must have dtype int32, found {ty.dtype}")
        if data.dims is None or ty.dims is None:
            continue
        if any(map(can_prove_different, data.dims[:ndim], ty.dims)):
            raise OpError(
                f"`{name}` must have shape {dims_text(data.dims[:ndim])}, as the images and "
                f"boxes of `data`, found {dims_text(ty.dims)}"
            )


@op(
    "relax.vision.non_max_suppression",
    lower=_non_max_suppression,
    gradient=traced_gradient("relax.vision.non_max_suppression"),
    cost=LOWERED,
)
def non_max_suppression(
    data: TensorType,
    valid_count: TensorType,
    indices: TensorType,
    max_output_size: int = -1,
    iou_threshold: float = 0.5,
    force_suppress: bool = False,
    top_k: int = -1,
    coord_start: int = 2,
    score_index: int = 1,
    id_index: int = 0,
    return_indices: bool = True,
    invalid_to_bottom: bool = False,
    soft_nms_sigma: float = 0.0,
    score_threshold: float = 0.0,
) -> Type:
    """Boxes by falling score, each suppressing those of its class that overlap it too much.

    `data` has shape (images, boxes, row). A row holds a class at `id_index` (-1: no classes), a
    score at `score_index`, and two opposite corners from `coord_start` on. The first `valid_count`
    boxes of an image count, of these the best `top_k`, and of what remains at most
    `max_output_size`.

    A box is suppressed where its intersection over union with a better one of its class (with
    `force_suppress`, of any) reaches `iou_threshold`. Hard suppression leaves out boxes with scores
    not above 0. Soft suppression, with `soft_nms_sigma` > 0, multiplies the scores of less
    overlapping boxes by exp(-iou ** 2 / (2 * sigma)), and leaves out those that are no longer above
    `score_threshold`.

    The result is, with `return_indices`, what `indices` holds for the remaining boxes, -1 behind,
    and their number of shape (images, 1); without, the sorted `data` with -1 in the rows of what is
    gone, or packed to the front with `invalid_to_bottom`. A soft suppression gives its rows packed,
    before the indices.
    """
    _require_images(data, valid_count, indices)
    require_column("score_index", score_index, data)
    require_column("id_index", id_index, data, -1)
    require_column("coord_start", coord_start, data)
    require_column("coord_start + 3", coord_start + 3, data)
    rows = TensorType(data.shape, data.dtype, 3, data.vdevice)
    if not return_indices:
        return rows
    dims = data.dims
    found = (
        TensorType(None if dims is None else dims[:2], "int32", 2, data.vdevice),
        TensorType(None if dims is None else (dims[0], 1), "int32", 2, data.vdevice),
    )
    return TupleType((rows, *found) if soft_nms_sigma > 0 else found)
