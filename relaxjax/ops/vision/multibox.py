"""Boxes and scores out of what a single-shot detector predicts for its anchors."""

from collections.abc import Sequence
from typing import Annotated, Any

import jax
import jax.numpy as jnp

from relaxjax.ir.dims import Dim, can_prove_different
from relaxjax.ir.types import TensorType, TupleType
from relaxjax.ops.conversions import as_floats
from relaxjax.ops.declare import OpError, op
from relaxjax.ops.lowered_cost import LOWERED
from relaxjax.ops.once import computed_once
from relaxjax.ops.shapes import common_dtype, dims_text, require_ndim
from relaxjax.ops.traced import traced_gradient
from relaxjax.ops.unary import require_float


def _boxes(loc_pred: Any, anchor: Any, clip: bool, variances: Sequence[float]) -> Any:
    """Anchors moved and scaled by what was predicted, as (ymin, xmin, ymax, xmax)."""
    scales = jnp.asarray(variances, loc_pred.dtype).reshape(1, 1, 4)
    moves = loc_pred.reshape(loc_pred.shape[0], anchor.shape[1], 4) * scales
    low, high = anchor[..., :2], anchor[..., 2:]
    half = jnp.asarray(0.5, anchor.dtype)
    centre = moves[..., :2] * (high - low) + (low + high) * half
    reach = half * jnp.exp(moves[..., 2:]) * (high - low)
    corners = jnp.concatenate([(centre - reach)[..., ::-1], (centre + reach)[..., ::-1]], -1)
    return jnp.clip(corners, 0, 1) if clip else corners


def _multibox_transform_loc(
    cls_pred: Any,
    loc_pred: Any,
    anchor: Any,
    clip: bool,
    threshold: float,
    variances: Sequence[float],
    keep_background: bool,
    apply_softmax: bool,
) -> Any:
    scores = jax.nn.softmax(cls_pred, 1) if apply_softmax else cls_pred
    kept = computed_once(scores >= jnp.asarray(threshold).astype(scores.dtype))
    if not keep_background:
        kept = kept.at[:, :1].set(False)
    scores = jnp.where(kept, scores, jnp.zeros_like(scores))
    return _boxes(loc_pred, anchor, clip, variances), scores


def _as_variances(value: Any) -> tuple[float, ...]:
    values = as_floats(value)
    if len(values) != 4:
        raise TypeError(f"must be 4 numbers, for x, y, width and height, found {list(values)}")
    return values


@op(
    "relax.vision.multibox_transform_loc",
    lower=_multibox_transform_loc,
    gradient=traced_gradient("relax.vision.multibox_transform_loc"),
    cost=LOWERED,
)
def multibox_transform_loc(
    cls_pred: TensorType,
    loc_pred: TensorType,
    anchor: TensorType,
    clip: bool = False,
    threshold: float = 0.0,
    variances: Annotated[tuple[float, ...], _as_variances] = (1.0, 1.0, 1.0, 1.0),
    keep_background: bool = True,
    apply_softmax: bool = True,
) -> TupleType:
    """The boxes of a single-shot detector, (ymin, xmin, ymax, xmax), and their scores.

    `cls_pred` of shape (images, classes, anchors) holds scores of each class, or with
    `apply_softmax` their logits; scores below `threshold` become 0, and with `keep_background`
    False those of class 0. `anchor` of shape (1, anchors, 4) holds (left, top, right, bottom), and
    `loc_pred` of shape (images, 4 * anchors) holds (x, y, w, h) for each anchor of centre c and
    size s: centre = p * variance * s + c, size = exp(p * variance) * s.
    """
    require_ndim("cls_pred", cls_pred, 3)
    require_ndim("loc_pred", loc_pred, 2)
    require_ndim("anchor", anchor, 3)
    require_float(cls_pred, "cls_pred")
    dtype = common_dtype(cls_pred=cls_pred, loc_pred=loc_pred, anchor=anchor)
    vdevice = cls_pred.vdevice
    if cls_pred.dims is None:
        _require_dims("anchor", anchor, (1, None, 4))
        _require_fours(loc_pred)
        return TupleType((TensorType(None, dtype, 3, vdevice),) * 2)
    images, _, count = cls_pred.dims
    _require_dims("anchor", anchor, (1, count, 4))
    _require_dims("loc_pred", loc_pred, (images, 4 * count))
    boxes = TensorType((images, count, 4), dtype, vdevice=vdevice)
    return TupleType((boxes, TensorType(cls_pred.dims, dtype, vdevice=vdevice)))


def _require_dims(name: str, ty: TensorType, wanted: Sequence[Dim | None]) -> None:
    if ty.dims is None:
        return
    pairs = zip(ty.dims, wanted, strict=True)
    if any(want is not None and can_prove_different(dim, want) for dim, want in pairs):
        shape = dims_text(
            [dim if want is None else want for dim, want in zip(ty.dims, wanted, strict=True)]
        )
        raise OpError(f"`{name}` must have shape {shape}, found {dims_text(ty.dims)}")


def _require_fours(loc_pred: TensorType) -> None:
    length = None if loc_pred.dims is None else loc_pred.dims[1]
    if isinstance(length, int) and length % 4:
        raise OpError(f"the last dimension of `loc_pred` must be a multiple of 4, found {length}")
