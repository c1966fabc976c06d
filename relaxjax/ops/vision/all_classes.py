"""Non-maximum suppression for each class separately."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from relaxjax.ir.dims import can_prove_different
from relaxjax.ir.expr import Expr
from relaxjax.ir.op import Partial
from relaxjax.ir.types import PrimType, TensorType, TupleType
from relaxjax.ops.arrays import cast, jax_dtype
from relaxjax.ops.declare import OpError, op
from relaxjax.ops.lowered_cost import LOWERED
from relaxjax.ops.shapes import dims_text, element_count, require_choice, require_ndim
from relaxjax.ops.traced import traced_gradient
from relaxjax.ops.unary import require_float

from .selection import overlap, select

_NAME = "relax.vision.all_class_non_max_suppression"
_FORMATS = ("onnx", "tensorflow")


def _number(value: Any, dtype: Any) -> Any:
    """A number of the host, or the only element of an array."""
    return (
        jnp.asarray(value, dtype)
        if isinstance(value, int | float)
        else cast(value, dtype).reshape(())
    )


def _picks(boxes: Any, scores: Any, limit: Any, iou_threshold: Any, score_threshold: Any) -> Any:
    """The boxes of one class that remain, in order, and their number."""

    def suppress(best: Any, scores: Any, alive: Any) -> tuple[Any, Any]:
        return scores, alive & ~(overlap(boxes[best][None], boxes) >= iou_threshold)

    return select(scores, scores > score_threshold, limit, suppress)


def _gathered(rows: Any, counts: Any) -> tuple[Any, Any]:
    """The first `counts[i]` of each `rows[i]` in a row, 0 after them; and their number."""
    ends = jnp.cumsum(counts, dtype=jnp.int32)
    places = jnp.arange(rows.shape[1], dtype=jnp.int32)
    length = rows.shape[0] * rows.shape[1]
    targets = jnp.expand_dims(ends - counts, 1) + jnp.expand_dims(places, 0)
    kept = jnp.expand_dims(places, 0) < jnp.expand_dims(counts, 1)
    targets = jnp.where(kept, targets, jnp.full_like(targets, length))
    packed = jnp.zeros((length, *rows.shape[2:]), rows.dtype)
    return packed.at[targets].set(rows, mode="drop"), jnp.sum(counts, keepdims=True)


def _all_class_non_max_suppression(
    boxes: Any,
    scores: Any,
    max_output_boxes_per_class: Any,
    iou_threshold: Any,
    score_threshold: Any,
    output_format: str,
) -> Any:
    limit = _number(max_output_boxes_per_class, jnp.int32)
    iou, floor = _number(iou_threshold, boxes.dtype), _number(score_threshold, scores.dtype)
    over_classes = jax.vmap(_picks, (None, 0, None, None, None))
    over_images = jax.vmap(over_classes, (0, 0, None, None, None))
    fixed = lax.stop_gradient((boxes, scores))
    picks, counts = over_images(*fixed, limit, *lax.stop_gradient((iou, floor)))
    wide = jax_dtype("int64")
    image, label = (lax.broadcasted_iota(wide, picks.shape, axis) for axis in (0, 1))
    if output_format == "onnx":
        rows = jnp.stack([image, label, picks.astype(wide)], -1)
        packed, total = _gathered(rows.reshape(-1, *rows.shape[2:]), counts.reshape(-1))
        return packed, total.astype(wide)
    places, totals = jax.vmap(_gathered)(jnp.stack([label, picks.astype(wide)], -1), counts)
    best = jnp.take_along_axis(scores, picks, 2).astype(jnp.float32)
    packed_scores, _ = jax.vmap(_gathered)(best, counts)
    return places, packed_scores, totals.reshape(-1).astype(wide)


def _gradient(
    g: Expr, y: Expr, boxes: Expr, scores: Expr, *limits: Expr, output_format: str
) -> tuple[Partial, ...]:
    """The scores of tensorflow's format are elements of `scores`; everything else is an index."""
    if output_format == "onnx":
        return (None,) * (2 + len(limits))
    adjoints = traced_gradient(_NAME)(g, y, boxes, scores, *limits, output_format=output_format)
    assert isinstance(adjoints, tuple)
    return (None, adjoints[1], *(None for _ in limits))


def _require_number(name: str, value: Expr) -> None:
    """Anything but a number of the host or a tensor of one element is an error."""
    ty = value.ty
    if isinstance(ty, PrimType):
        return
    if not isinstance(ty, TensorType) or (ty.dims is not None and element_count(ty.dims) != 1):
        raise OpError(f"`{name}` must be a number or a tensor of one element, found {ty}")


@op(_NAME, lower=_all_class_non_max_suppression, gradient=_gradient, cost=LOWERED)
def all_class_non_max_suppression(
    boxes: TensorType,
    scores: TensorType,
    max_output_boxes_per_class: Expr,
    iou_threshold: Expr,
    score_threshold: Expr,
    output_format: str = "onnx",
) -> TupleType:
    """Non-maximum suppression for each class of each image separately.

    `boxes` has shape (images, boxes, 4), two opposite corners each, `scores` (images, classes,
    boxes). Boxes with scores above `score_threshold` are picked by falling score, at most
    `max_output_boxes_per_class` of them; each suppresses those whose intersection over union with
    it reaches `iou_threshold`.

    In the format of onnx the result is the rows (image, class, box), image by image and class by
    class, and their number; in that of tensorflow for each image the rows (class, box), the scores,
    and the numbers. The shapes have room for every box; 0 stands behind the last row.
    """
    require_choice("output_format", output_format, _FORMATS)
    require_ndim("boxes", boxes, 3)
    require_ndim("scores", scores, 3)
    require_float(boxes, "boxes")
    require_float(scores, "scores")
    _require_number("max_output_boxes_per_class", max_output_boxes_per_class)
    _require_number("iou_threshold", iou_threshold)
    _require_number("score_threshold", score_threshold)
    _require_matching(boxes, scores)
    ndims = (2, 1) if output_format == "onnx" else (3, 2, 1)
    dtypes = ("int64", "int64") if output_format == "onnx" else ("int64", "float32", "int64")
    if scores.dims is None:
        shapes: Sequence[Any] = [None] * len(ndims)
    else:
        images, classes, count = scores.dims
        room = classes * count
        onnx, tensorflow = (
            [(images * room, 3), (1,)],
            [(images, room, 2), (images, room), (images,)],
        )
        shapes = onnx if output_format == "onnx" else tensorflow
    return TupleType(tuple(map(TensorType, shapes, dtypes, ndims)))


def _require_matching(boxes: TensorType, scores: TensorType) -> None:
    if boxes.dims is None:
        return
    wanted = (boxes.dims[0], boxes.dims[1], 4)
    if scores.dims is not None:
        wanted = (scores.dims[0], scores.dims[2], 4)
    if any(map(can_prove_different, boxes.dims, wanted)):
        raise OpError(
            f"`boxes` must have shape {dims_text(wanted)}, as the images and boxes of `scores`, "
            f"found {dims_text(boxes.dims)}"
        )
