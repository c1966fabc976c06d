"""Object detection against numpy, and the errors of bad arguments."""

from typing import Any

import numpy as np
import pytest
from applying import applied, inferred, tensor
from numpy_references_vision import (
    all_class_non_max_suppression,
    get_valid_counts,
    multibox_transform_loc,
    non_max_suppression,
    roi_align,
    roi_pool,
)

from relaxjax.ir import SymbolicVar, TensorType, TupleType
from relaxjax.ops import OpError

Array = np.ndarray[Any, Any]
RANDOM = np.random.default_rng(7)


def _rows(images: int, boxes: int) -> Array:
    rows = RANDOM.random((images, boxes, 6))
    rows[..., 0] = RANDOM.integers(-1, 2, (images, boxes))
    rows[..., 4:] = rows[..., 2:4] + RANDOM.uniform(0.2, 0.7, (images, boxes, 2))
    return rows.astype("float32")


@pytest.mark.parametrize("id_index", [0, -1])
@pytest.mark.parametrize("threshold", [0.0, 0.4, 2.0])
def test_valid_boxes_come_first(threshold: float, id_index: int) -> None:
    data = _rows(3, 9)
    found = applied("vision.get_valid_counts", data, score_threshold=threshold, id_index=id_index)
    wanted = get_valid_counts(data, threshold, id_index)
    for part, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(part, other)


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
    found = applied("vision.non_max_suppression", data, valid, indices, **options)
    wanted = non_max_suppression(data, valid, indices, **options)
    for part, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(part, other, rtol=1e-5)


@pytest.mark.parametrize("options", NMS[:5])
def test_suppression_as_rows(options: dict[str, Any]) -> None:
    """What is suppressed becomes -1 in its place among the sorted rows, or goes to the end."""
    data, valid = _rows(1, 10), np.array([9], "int32")
    indices = np.zeros((1, 10), "int32")
    for packed in (False, True):
        given = {**options, "return_indices": False, "invalid_to_bottom": packed}
        found = applied("vision.non_max_suppression", data, valid, indices, **given)
        wanted = non_max_suppression(data, valid, indices, **given)
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("limit", "iou", "floor"), [(2, 0.3, 0.2), (9, 0.5, 0.0), (4, 0.1, -2.0), (0, 0.5, 0.0)]
)
def test_suppression_by_class(limit: int, iou: float, floor: float) -> None:
    """Scores may be negative: what overlaps too much is suppressed all the same."""
    boxes = RANDOM.random((2, 9, 4)).astype("float32")
    scores = RANDOM.uniform(-0.5, 1, (2, 3, 9)).astype("float32")
    limits = (np.array(limit, "int64"), np.array([iou], "float32"), np.array(floor, "float32"))
    name = "vision.all_class_non_max_suppression"
    found = (
        *applied(name, boxes, scores, *limits),
        *applied(name, boxes, scores, limit, iou, floor, "tensorflow"),
    )
    wanted = (
        *all_class_non_max_suppression(boxes, scores, limit, iou, floor),
        *all_class_non_max_suppression(boxes, scores, limit, iou, floor, "tensorflow"),
    )
    for part, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(part, other)


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
    logits, moves, anchors = (array.astype("float32") for array in (logits, moves, anchors))
    found = applied("vision.multibox_transform_loc", logits, moves, anchors, **options)
    wanted = multibox_transform_loc(logits, moves, anchors, **options)
    for part, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(part, other, rtol=1e-4, atol=1e-5)


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
    wanted = roi_align(DATA, ROIS, size, 0.8, **options)
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


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
    np.testing.assert_array_equal(got, roi_pool(data, ROIS, size, 0.8))


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
