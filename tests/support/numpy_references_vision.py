"""What the operators of object detection compute, in numpy, in plain loops."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy_references_nn import softmax

Array = np.ndarray[Any, Any]


def get_valid_counts(
    data: Array, score_threshold: float = 0.0, id_index: int = 0, score_index: int = 1
) -> tuple[Array, ...]:
    counts = np.zeros(len(data), "int32")
    rows, places = np.full_like(data, -1), np.full(data.shape[:2], -1)
    for image, j in np.ndindex(*data.shape[:2]):
        row = data[image, j]
        if row[score_index] > score_threshold and (id_index < 0 or row[id_index] >= 0):
            rows[image, counts[image]] = row
            places[image, counts[image]] = j
            counts[image] += 1
    return counts, rows, places


def overlap(one: Array, other: Array) -> float:
    """Intersection over union of two boxes."""
    low = np.maximum(np.minimum(one[:2], one[2:]), np.minimum(other[:2], other[2:]))
    high = np.minimum(np.maximum(one[:2], one[2:]), np.maximum(other[:2], other[2:]))
    shared = float(np.prod(np.maximum(high - low, 0)))
    areas = (float(abs(np.prod(box[2:] - box[:2]))) for box in (one, other))
    union = sum(areas) - shared
    return shared / union if union > 0 else 0.0


def suppressed(
    boxes: Array,
    scores: Any,
    classes: Any = None,
    top_k: int = -1,
    limit: int = -1,
    iou_threshold: float = 0.5,
    sigma: float = 0.0,
    floor: float = 0.0,
) -> list[tuple[int, float]]:
    """The places of the boxes that remain, in the order of picking, and their last scores."""
    order = sorted(range(len(scores)), key=lambda j: -scores[j])
    left = {j: float(scores[j]) for j in (order[:top_k] if top_k > 0 else order)}
    picked: list[tuple[int, float]] = []
    while left and len(picked) != limit:
        best = max(left, key=lambda j: left[j])
        if left[best] <= floor:
            break
        picked.append((best, left.pop(best)))
        for j in list(left):
            rival = classes is None or classes[j] == classes[best]
            shared = overlap(boxes[best], boxes[j]) if rival else 0.0
            if rival and shared >= iou_threshold:
                left.pop(j)
            elif rival and sigma:
                left[j] *= math.exp(-0.5 / sigma * shared**2)
    return picked


def non_max_suppression(
    data: Array,
    valid_count: Array,
    indices: Array,
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
) -> Any:
    rows, found = np.full_like(data, -1), np.full_like(indices, -1)
    counts = np.zeros((len(data), 1))
    for image, count in enumerate(valid_count):
        table = data[image, :count]
        scores = table[:, score_index]
        picked = suppressed(
            table[:, coord_start : coord_start + 4],
            scores,
            None if force_suppress or id_index < 0 else table[:, id_index],
            top_k,
            max_output_size if max_output_size > 0 else -1,
            iou_threshold,
            soft_nms_sigma,
            score_threshold if soft_nms_sigma else 0.0,
        )
        counts[image] = len(picked)
        order = sorted(range(len(scores)), key=lambda j: -scores[j])
        packed = bool(soft_nms_sigma) or invalid_to_bottom
        for number, (place, score) in enumerate(picked):
            found[image, number] = indices[image, place]
            row = number if packed else order.index(place)
            rows[image, row] = table[place]
            rows[image, row, score_index] = score
    if not return_indices:
        return rows
    return (rows, found, counts) if soft_nms_sigma else (found, counts)


def all_class_non_max_suppression(
    boxes: Array,
    scores: Array,
    max_output_boxes_per_class: Any,
    iou_threshold: Any,
    score_threshold: Any,
    output_format: str = "onnx",
) -> tuple[Array, ...]:
    limit = int(np.squeeze(max_output_boxes_per_class))
    limits: dict[str, Any] = {
        "iou_threshold": float(np.squeeze(iou_threshold)),
        "limit": max(limit, 0),
    }
    images, classes, count = scores.shape
    rows = [
        (image, label, place)
        for image, label in np.ndindex(images, classes)
        for place, _ in suppressed(
            boxes[image], scores[image, label], floor=float(np.squeeze(score_threshold)), **limits
        )
    ]
    if output_format == "onnx":
        packed = np.zeros((images * classes * count, 3))
        packed[: len(rows)] = np.array(rows).reshape(-1, 3)
        return packed, np.array([len(rows)])
    places, best = np.zeros((images, classes * count, 2)), np.zeros((images, classes * count))
    totals = np.zeros(images, int)
    for image, label, place in rows:
        places[image, totals[image]] = label, place
        best[image, totals[image]] = scores[image, label, place]
        totals[image] += 1
    return places, best, totals


def multibox_transform_loc(
    logits: Array,
    moves: Array,
    anchors: Array,
    clip: bool = False,
    threshold: float = 0.0,
    variances: Sequence[float] = (1.0, 1.0, 1.0, 1.0),
    keep_background: bool = True,
    apply_softmax: bool = True,
) -> tuple[Array, Array]:
    scores = softmax(logits, 1) if apply_softmax else logits
    scores = np.where(scores >= threshold, scores, 0)
    if not keep_background:
        scores[:, 0] = 0
    boxes = np.zeros((len(logits), anchors.shape[1], 4))
    vx, vy, vw, vh = variances
    for image, anchor in np.ndindex(*boxes.shape[:2]):
        left, top, right, bottom = anchors[0, anchor]
        x, y, w, h = moves[image, 4 * anchor : 4 * anchor + 4]
        middle_x = x * vx * (right - left) + (left + right) / 2
        middle_y = y * vy * (bottom - top) + (top + bottom) / 2
        half_w = math.exp(w * vw) * (right - left) / 2
        half_h = math.exp(h * vh) * (bottom - top) / 2
        box = [middle_y - half_h, middle_x - half_w, middle_y + half_h, middle_x + half_w]
        boxes[image, anchor] = np.clip(box, 0, 1) if clip else box
    return boxes, scores


def _interpolated(plane: Array, y: float, x: float) -> float:
    height, width = plane.shape
    if y < -1 or x < -1 or y > height or x > width:
        return 0.0
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    top, left = int(y), int(x)
    bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
    upper = plane[top, left] * (1 - x + left) + plane[top, right] * (x - left)
    lower = plane[bottom, left] * (1 - x + left) + plane[bottom, right] * (x - left)
    return float(upper * (1 - y + top) + lower * (y - top))


def roi_align(
    data: Array,
    rois: Array,
    pooled_size: Any,
    spatial_scale: float,
    sample_ratio: int = -1,
    aligned: bool = False,
    layout: str = "NCHW",
    mode: str = "avg",
) -> Array:
    planes = np.moveaxis(data, layout.index("C"), 1)
    size = _pair(pooled_size)
    total = max if mode == "max" else np.mean
    out = np.zeros((len(rois), planes.shape[1], *size))
    for number, roi in enumerate(rois):
        x1, y1, x2, y2 = (corner * spatial_scale for corner in roi[1:])
        extents = [y2 - y1, x2 - x1]
        extents = extents if aligned else [max(extent, 1.0) for extent in extents]
        bins = [extent / count for extent, count in zip(extents, size, strict=True)]
        counts = [sample_ratio if sample_ratio > 0 else max(math.ceil(b), 0) for b in bins]
        for channel, i, j in np.ndindex(*out.shape[1:]):
            samples = [
                _interpolated(
                    planes[int(roi[0]), channel],
                    y1 + (i + (p + 0.5) / counts[0]) * bins[0],
                    x1 + (j + (q + 0.5) / counts[1]) * bins[1],
                )
                for p, q in np.ndindex(*counts)
            ]
            out[number, channel, i, j] = total(samples) if samples else 0.0
    return np.moveaxis(out, 1, layout.index("C"))


def _pair(size: Any) -> tuple[int, int]:
    """Height and width; one number is both."""
    height, width = np.broadcast_to(size, 2)
    return int(height), int(width)


def roi_pool(data: Array, rois: Array, pooled_size: Any, spatial_scale: float) -> Array:
    bins = _pair(pooled_size)
    out = np.zeros((len(rois), data.shape[1], *bins), data.dtype)
    for number, roi in enumerate(rois):
        left, top, right, bottom = (math.floor(c * spatial_scale + 0.5) for c in roi[1:])
        extents = max(bottom - top + 1, 1), max(right - left + 1, 1)
        for place in np.ndindex(*bins):
            rows, columns = (
                [
                    start + k
                    for k in range(math.floor(i * n / b), math.ceil((i + 1) * n / b))
                    if 0 <= start + k < length
                ]
                for start, n, i, b, length in zip(
                    (top, left), extents, place, bins, data.shape[2:], strict=True
                )
            )
            window = data[int(roi[0])][:, rows][:, :, columns]
            if window.size:
                out[(number, slice(None), *place)] = window.max((1, 2))
    return out


VISION: dict[str, Callable[..., Any]] = {
    "relax.vision.get_valid_counts": get_valid_counts,
    "relax.vision.non_max_suppression": non_max_suppression,
    "relax.vision.all_class_non_max_suppression": all_class_non_max_suppression,
    "relax.vision.multibox_transform_loc": multibox_transform_loc,
    "relax.vision.roi_align": roi_align,
    "relax.vision.roi_pool": roi_pool,
}
