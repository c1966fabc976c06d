"""Object detection against plain loops in numpy, and the errors of bad arguments."""

import math
from typing import Any

import numpy as np
import pytest
from applying import applied, inferred, tensor

from relaxjax.ir.dims import SymbolicVar
from relaxjax.ir.types import TensorType, TupleType
from relaxjax.ops import OpError

Array = np.ndarray[Any, Any]
RANDOM = np.random.default_rng(7)


def _overlap(one: Array, other: Array) -> float:
    low = np.maximum(np.minimum(one[:2], one[2:]), np.minimum(other[:2], other[2:]))
    high = np.minimum(np.maximum(one[:2], one[2:]), np.maximum(other[:2], other[2:]))
    shared = float(np.prod(np.maximum(high - low, 0)))
    areas = (float(abs(np.prod(box[2:] - box[:2]))) for box in (one, other))
    union = sum(areas) - shared
    return shared / union if union > 0 else 0.0


def _rows(images: int, boxes: int) -> Array:
    rows = RANDOM.random((images, boxes, 6))
    rows[..., 0] = RANDOM.integers(-1, 2, (images, boxes))
    rows[..., 4:] = rows[..., 2:4] + RANDOM.uniform(0.2, 0.7, (images, boxes, 2))
    return rows.astype("float32")


@pytest.mark.parametrize("id_index", [0, -1])
@pytest.mark.parametrize("threshold", [0.0, 0.4, 2.0])
def test_valid_boxes_come_first(threshold: float, id_index: int) -> None:
    data = _rows(3, 9)
    counts, rows, places = applied(
        "vision.get_valid_counts", data, score_threshold=threshold, id_index=id_index
    )
    for image in range(3):
        good = [
            j
            for j in range(9)
            if data[image, j, 1] > threshold and (id_index < 0 or data[image, j, 0] >= 0)
        ]
        assert counts[image] == len(good)
        np.testing.assert_array_equal(places[image], good + [-1] * (9 - len(good)))
        np.testing.assert_array_equal(rows[image, : len(good)], data[image, good])
        assert (rows[image, len(good) :] == -1).all()


def _suppress(rows: Array, count: int, options: dict[str, Any]) -> list[tuple[int, float]]:
    """The places that remain, in order of picking, and their last scores."""
    soft, every = options.get("soft_nms_sigma", 0.0), options.get("force_suppress", False)
    floor = options.get("score_threshold", 0.0) if soft else 0.0
    order = sorted(range(count), key=lambda j: -rows[j, 1])
    if options.get("top_k", -1) > 0:
        order = order[: options["top_k"]]
    scores = {j: float(rows[j, 1]) for j in order}
    picked: list[tuple[int, float]] = []
    while scores:
        best = max(scores, key=lambda j: scores[j])
        if scores[best] <= floor or len(picked) == options.get("max_output_size", -1):
            break
        picked.append((best, scores.pop(best)))
        for j in list(scores):
            rival = every or options.get("id_index", 0) < 0 or rows[j, 0] == rows[best, 0]
            shared = _overlap(rows[best, 2:], rows[j, 2:]) if rival else 0.0
            if rival and shared >= options.get("iou_threshold", 0.5):
                scores.pop(j)
            elif rival and soft:
                scores[j] *= math.exp(-0.5 / soft * shared**2)
    return picked


NMS = [
    {},
    {"iou_threshold": 0.1, "force_suppress": True},
    {"top_k": 3},
    {"max_output_size": 2},
    {"id_index": -1, "iou_threshold": 0.3},
    {"soft_nms_sigma": 0.5, "iou_threshold": 0.9},
    {"soft_nms_sigma": 0.2, "score_threshold": 0.3, "force_suppress": True},
    {"soft_nms_sigma": 1.0, "max_output_size": 3, "iou_threshold": 0.6},
]


@pytest.mark.parametrize("options", NMS)
def test_suppression_as_indices(options: dict[str, Any]) -> None:
    data, valid = _rows(2, 10), np.array([8, 10], "int32")
    indices = np.arange(20, dtype="int32").reshape(2, 10) * 3
    *rows, found, counts = applied("vision.non_max_suppression", data, valid, indices, **options)
    for image in range(2):
        picked = _suppress(data[image], int(valid[image]), options)
        assert counts[image, 0] == len(picked)
        wanted = [int(indices[image, j]) for j, _ in picked]
        np.testing.assert_array_equal(found[image], wanted + [-1] * (10 - len(picked)))
        for number, (place, score) in enumerate(picked if rows else []):
            row = [*data[image, place, :1], score, *data[image, place, 2:]]
            np.testing.assert_allclose(rows[0][image, number], row, rtol=1e-5)
        assert not rows or (rows[0][image, len(picked) :] == -1).all()


@pytest.mark.parametrize("options", NMS[:5])
def test_suppression_as_rows(options: dict[str, Any]) -> None:
    """What is suppressed becomes -1 in its place among the sorted rows, or goes to the end."""
    data, valid = _rows(1, 10), np.array([9], "int32")
    options = {**options, "return_indices": False}
    indices = np.zeros((1, 10), "int32")
    stays = applied("vision.non_max_suppression", data, valid, indices, **options)[0]
    packed = applied(
        "vision.non_max_suppression", data, valid, indices, **options, invalid_to_bottom=True
    )[0]
    picked = [j for j, _ in _suppress(data[0], 9, options)]
    order = sorted(range(9), key=lambda j: -data[0, j, 1])
    rows = [data[0, j] if j in picked else np.full(6, -1) for j in order]
    np.testing.assert_array_equal(stays, [*rows, np.full(6, -1)])
    np.testing.assert_array_equal(packed[: len(picked)], data[0, picked])
    assert (packed[len(picked) :] == -1).all()


@pytest.mark.parametrize(
    ("limit", "iou", "floor"), [(2, 0.3, 0.2), (9, 0.5, 0.0), (4, 0.1, -2.0), (0, 0.5, 0.0)]
)
def test_suppression_by_class(limit: int, iou: float, floor: float) -> None:
    """Scores may be negative: what overlaps too much is suppressed all the same."""
    boxes = RANDOM.random((2, 9, 4)).astype("float32")
    scores = RANDOM.uniform(-0.5, 1, (2, 3, 9)).astype("float32")
    limits = (np.array(limit, "int64"), np.array([iou], "float32"), np.array(floor, "float32"))
    name = "vision.all_class_non_max_suppression"
    packed, total = applied(name, boxes, scores, *limits)
    places, best, totals = applied(name, boxes, scores, limit, iou, floor, "tensorflow")
    wanted: list[tuple[int, int, int]] = []
    for image, label in np.ndindex(2, 3):
        rows = np.zeros((9, 6), "float32")
        rows[:, 1], rows[:, 2:] = scores[image, label] - floor, boxes[image]
        picked = _suppress(rows, 9, {"iou_threshold": iou, "max_output_size": limit})
        wanted += [(image, label, j) for j, _ in picked]
    assert packed.shape == (54, 3)
    assert total == [len(wanted)]
    np.testing.assert_array_equal(packed[: len(wanted)], np.array(wanted).reshape(-1, 3))
    assert not packed[len(wanted) :].any()
    for image in range(2):
        mine = [row for row in wanted if row[0] == image]
        assert totals[image] == len(mine)
        np.testing.assert_array_equal(
            places[image, : len(mine)], np.array([row[1:] for row in mine]).reshape(-1, 2)
        )
        np.testing.assert_array_equal(best[image, : len(mine)], [scores[row] for row in mine])
        assert not best[image, len(mine) :].any()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"clip": True, "threshold": 0.4, "variances": (0.1, 0.1, 0.2, 0.2)},
        {"keep_background": False, "apply_softmax": False, "threshold": 0.1},
    ],
)
def test_boxes_of_a_single_shot_detector(options: dict[str, Any]) -> None:
    logits, moves = RANDOM.normal(size=(2, 3, 4)), RANDOM.normal(size=(2, 16))
    anchors = np.sort(RANDOM.random((1, 4, 4)), -1)
    given = (array.astype("float32") for array in (logits, moves, anchors))
    boxes, scores = applied("vision.multibox_transform_loc", *given, **options)
    powers = np.exp(logits)
    wanted = powers / powers.sum(1, keepdims=True) if options.get("apply_softmax", True) else logits
    wanted = np.where(wanted >= options.get("threshold", 0.0), wanted, 0)
    if not options.get("keep_background", True):
        wanted[:, 0] = 0
    np.testing.assert_allclose(scores, wanted, rtol=1e-4, atol=1e-6)
    vx, vy, vw, vh = options.get("variances", (1.0,) * 4)
    for image, anchor in np.ndindex(2, 4):
        left, top, right, bottom = anchors[0, anchor]
        x, y, w, h = moves[image, 4 * anchor : 4 * anchor + 4]
        middle_x = x * vx * (right - left) + (left + right) / 2
        middle_y = y * vy * (bottom - top) + (top + bottom) / 2
        half_w = math.exp(w * vw) * (right - left) / 2
        half_h = math.exp(h * vh) * (bottom - top) / 2
        box = [middle_y - half_h, middle_x - half_w, middle_y + half_h, middle_x + half_w]
        box = np.clip(box, 0, 1) if options.get("clip") else box
        np.testing.assert_allclose(boxes[image, anchor], box, rtol=1e-4, atol=1e-5)


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


def _roi_align(
    data: Array, roi: Array, size: tuple[int, int], scale: float, options: dict[str, Any]
) -> Array:
    x1, y1, x2, y2 = roi[1:] * scale
    extents = [y2 - y1, x2 - x1]
    if not options.get("aligned"):
        extents = [max(extent, 1.0) for extent in extents]
    bins = [extent / count for extent, count in zip(extents, size, strict=True)]
    ratio = options.get("sample_ratio", -1)
    counts = [ratio if ratio > 0 else max(math.ceil(b), 0) for b in bins]
    out = np.zeros((data.shape[1], *size))
    for channel, i, j in np.ndindex(*out.shape):
        samples = [
            _interpolated(
                data[int(roi[0]), channel],
                y1 + (i + (p + 0.5) / counts[0]) * bins[0],
                x1 + (j + (q + 0.5) / counts[1]) * bins[1],
            )
            for p, q in np.ndindex(*counts)
        ]
        total = max if options.get("mode") == "max" else np.mean
        out[channel, i, j] = total(samples) if samples else 0.0
    return out


DATA = RANDOM.normal(size=(2, 3, 9, 8)).astype("float32")
ROIS = np.array(
    [
        [0, 1, 1, 6, 7],
        [1, -3, -2, 5, 4],  # over a border
        [0, 2.3, 3.1, 2.9, 3.4],  # within one place
        [1, -30, -30, 40, 40],  # larger than the image
        [1, 6, 6, 2, 2],  # of negative extent
        [0, 20, 20, 30, 30],  # outside
    ],
    "float32",
)


@pytest.mark.parametrize("size", [(3, 2), (1, 1)])
@pytest.mark.parametrize(
    "options",
    [
        {"sample_ratio": 2},
        {},
        {"aligned": True},
        {"mode": "max", "sample_ratio": 2},
        {"mode": "max"},
        {"mode": "max", "sample_ratio": 3, "aligned": True},
    ],
)
def test_roi_align(options: dict[str, Any], size: tuple[int, int]) -> None:
    got = applied("vision.roi_align", DATA, ROIS, pooled_size=size, spatial_scale=0.8, **options)
    for number, roi in enumerate(ROIS):
        wanted = _roi_align(DATA, roi, size, 0.8, options)
        np.testing.assert_allclose(got[number], wanted, rtol=1e-4, atol=1e-5)


def test_roi_align_with_channels_last() -> None:
    last = np.ascontiguousarray(DATA.transpose(0, 2, 3, 1))
    got = applied("vision.roi_align", last, ROIS, 2, 0.5, layout="NHWC")
    wanted = applied("vision.roi_align", DATA, ROIS, 2, 0.5).transpose(0, 2, 3, 1)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("size", [(3, 2), (1, 1), (4, 5)])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_roi_pool(size: tuple[int, int], dtype: str) -> None:
    data = (DATA * 10).astype(dtype)
    got = applied("vision.roi_pool", data, ROIS, size, 0.8)
    for number, roi in enumerate(ROIS):
        left, top, right, bottom = (math.floor(c * np.float32(0.8) + 0.5) for c in roi[1:])
        height, width = max(bottom - top + 1, 1), max(right - left + 1, 1)
        for i, j in np.ndindex(*size):
            rows = range(
                min(max(top + math.floor(i * height / size[0]), 0), 9),
                min(max(top + math.ceil((i + 1) * height / size[0]), 0), 9),
            )
            columns = range(
                min(max(left + math.floor(j * width / size[1]), 0), 8),
                min(max(left + math.ceil((j + 1) * width / size[1]), 0), 8),
            )
            window = data[int(roi[0])][:, list(rows)][:, :, list(columns)]
            wanted = window.max((1, 2)) if window.size else np.zeros(3, dtype)
            np.testing.assert_array_equal(got[number, :, i, j], wanted)


def test_unknown_shapes() -> None:
    """Of unknown shapes the ranks and dtypes are inferred."""
    n, unknown = SymbolicVar("n"), TensorType(None, "float32", 3)
    ints = tensor(n, dtype="int32"), tensor(n, 5, dtype="int32")
    one, two = TensorType(None, "int32", 1), TensorType(None, "int32", 2)
    assert inferred("vision.get_valid_counts", unknown) == TupleType((one, unknown, two))
    assert inferred("vision.non_max_suppression", unknown, *ints) == TupleType((two, two))
    boxes = inferred("vision.all_class_non_max_suppression", unknown, unknown, 3, 0.5, 0.0)
    assert boxes == TupleType((TensorType(None, "int64", 2), TensorType(None, "int64", 1)))
    decoded = inferred("vision.multibox_transform_loc", unknown, tensor(n, 8), tensor(1, 2, 4))
    assert decoded == TupleType((unknown, unknown))
    regions = tensor(n, 5)
    pooled = inferred("vision.roi_align", TensorType(None, "float32", 4), regions, 2, 0.5)
    assert pooled == TensorType(None, "float32", 4)


D, V, P = tensor(2, 6, 6), tensor(2, dtype="int32"), tensor(2, 6, dtype="int32")
X, R = tensor(2, 3, 8, 8), tensor(5, 5)
C, L, A = tensor(2, 3, 5), tensor(2, 20), tensor(1, 5, 4)
ERRORS: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("get_valid_counts", (tensor(2, 6),), {}, "`data` must have 3 dimensions, found 2"),
    ("get_valid_counts", (D,), {"score_index": 6}, r"`score_index` must be in \[0, 6\), found 6"),
    ("get_valid_counts", (D,), {"id_index": -2}, r"`id_index` must be in \[-1, 6\), found -2"),
    ("get_valid_counts", (tensor(2, 6, 1),), {}, r"`score_index` must be in \[0, 1\), found 1"),
    (
        "get_valid_counts",
        (TensorType(None, "float32", 3),),
        {"score_index": -1},
        r"`score_index` must be in \[0, the length of a row\), found -1",
    ),
    ("non_max_suppression", (tensor(2, 6), V, P), {}, "`data` must have 3 dimensions"),
    ("non_max_suppression", (D, P, P), {}, "`valid_count` must have 1 dimension, found 2"),
    ("non_max_suppression", (D, V, V), {}, "`indices` must have 2 dimensions, found 1"),
    ("non_max_suppression", (D, tensor(2, dtype="int64"), P), {}, "`valid_count` .* dtype int32"),
    ("non_max_suppression", (D, V, tensor(2, 6)), {}, "`indices` .* int32, found float32"),
    ("non_max_suppression", (D, tensor(3, dtype="int32"), P), {}, r"`valid_count` .* \(2\)"),
    (
        "non_max_suppression",
        (D, V, tensor(2, 7, dtype="int32")),
        {},
        r"`indices` must have shape \(2, 6\), as the images and boxes of `data`, found \(2, 7\)",
    ),
    ("non_max_suppression", (D, V, P), {"coord_start": 3}, r"`coord_start \+ 3` .* found 6"),
    ("non_max_suppression", (D, V, P), {"coord_start": -1}, "`coord_start`"),
    ("all_class_non_max_suppression", (A, A, 1, 0.5, 0.0, "coco"), {}, "`output_format` must be"),
    ("all_class_non_max_suppression", (P, C, 1, 0.5, 0.0), {}, "`boxes` must have 3 dimensions"),
    ("all_class_non_max_suppression", (A, P, 1, 0.5, 0.0), {}, "`scores` must have 3 dimensions"),
    (
        "all_class_non_max_suppression",
        (tensor(2, 5, 4), C, 1, tensor(2), 0.0),
        {},
        "`iou_threshold` must be a number or a tensor of one element",
    ),
    (
        "all_class_non_max_suppression",
        (tensor(2, 7, 4), C, 1, 0.5, 0.0),
        {},
        r"`boxes` must have shape \(2, 5, 4\), as .* of `scores`, found \(2, 7, 4\)",
    ),
    ("multibox_transform_loc", (L, L, A), {}, "`cls_pred` must have 3 dimensions"),
    ("multibox_transform_loc", (C, C, A), {}, "`loc_pred` must have 2 dimensions"),
    ("multibox_transform_loc", (C, L, L), {}, "`anchor` must have 3 dimensions"),
    ("multibox_transform_loc", (C, tensor(2, 24), A), {}, r"`loc_pred` .* \(2, 20\), found"),
    ("multibox_transform_loc", (C, L, tensor(2, 5, 4)), {}, r"`anchor` .* \(1, 5, 4\), found"),
    ("multibox_transform_loc", (C, tensor(2, 20, dtype="float16"), A), {}, "dtypes must be the"),
    ("multibox_transform_loc", (tensor(1, 2, 3, dtype="int32"), L, A), {}, "float dtype"),
    (
        "multibox_transform_loc",
        (TensorType(None, "float32", 3), tensor(2, 21), A),
        {},
        "the last dimension of `loc_pred` must be a multiple of 4, found 21",
    ),
    ("roi_align", (D, R, 2, 0.5), {}, "`data` must have 4 dimensions"),
    ("roi_align", (X, V, 2, 0.5), {}, "`rois` must have 2 dimensions"),
    ("roi_align", (X, tensor(5, 4), 2, 0.5), {}, r"`rois` must have shape \(regions, 5\)"),
    ("roi_align", (X, R, 2, 0.5), {"layout": "NCWH"}, "`layout` must be one of NCHW, NHWC"),
    ("roi_align", (X, R, 2, 0.5), {"mode": "sum"}, "`mode` must be one of avg, max, found sum"),
    ("roi_align", (tensor(2, 3, 8, 8, dtype="int32"), R, 2, 0.5), {}, "`data` .* float dtype"),
    ("roi_pool", (X, R, 2, 0.5), {"layout": "NHWC"}, '`layout` must be "NCHW"'),
]


@pytest.mark.parametrize(("name", "args", "attrs", "message"), ERRORS)
def test_bad_arguments(
    name: str, args: tuple[Any, ...], attrs: dict[str, Any], message: str
) -> None:
    with pytest.raises(OpError, match=f"relax.vision.{name}: .*{message}"):
        inferred(f"vision.{name}", *args, **attrs)


def test_bad_attributes() -> None:
    with pytest.raises(TypeError, match="`pooled_size` must be 1 or 2 integers"):
        inferred("vision.roi_align", X, R, (1, 2, 3), 0.5)
    with pytest.raises(TypeError, match="`variances` must be 4 numbers"):
        inferred("vision.multibox_transform_loc", C, L, A, variances=(1.0, 1.0))


def test_a_backward_operator_needs_something_to_differentiate() -> None:
    data = tensor(2, 3, 8, 8, dtype="int32")
    with pytest.raises(OpError, match="`data` must have a float dtype to have an adjoint"):
        inferred("grad.roi_pool_backward", tensor(5, 3, 2, 2, dtype="int32"), data, R, 2, 0.5)
    with pytest.raises(TypeError, match="`output_grad` must be a Relax expression"):
        inferred("grad.roi_pool_backward", 1.0, X, R, 2, 0.5)


def test_adjoints_of_several_arguments_are_a_tuple() -> None:
    ty = inferred("grad.roi_align_backward", tensor(5, 3, 2, 2), X, R, 2, 0.5)
    assert ty == TupleType((X, R))
    whole = tensor(5, 5, dtype="int32")
    assert inferred("grad.roi_align_backward", tensor(5, 3, 2, 2), X, whole, 2, 0.5) == X
