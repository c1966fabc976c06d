"""Samples of the operators of object detection."""

from typing import Any

import numpy as np
from operator_samples import Array, Sample, exactly, floats, integers, positive, sample

from relaxjax.ir.expr import const

SAMPLES: dict[str, list[Sample]] = {}
# Derivatives to the first order only, because those of the second take long to compile.
_FIRST: dict[str, Any] = {"second_order": False}


def detections(images: int, boxes: int, classes: int = 2, dtype: str = "float32") -> Array:
    """Rows (class, score, corner, opposite corner); some classes are -1, no box at all.

    In float32, so that no finite differences are taken: they would move the classes too.
    """

    def draw(random: np.random.Generator, shape: object) -> object:
        rows = random.uniform(0.05, 0.95, (images, boxes, 6))
        rows[..., 0] = random.integers(-1, classes, (images, boxes))
        rows[..., 4:] = rows[..., 2:4] + random.uniform(0.2, 0.6, (images, boxes, 2))
        return rows

    return Array((images, boxes, 6), dtype, draw)


def regions(count: int, images: int, extent: float, dtype: str = "float64") -> Array:
    """Rows (image, x1, y1, x2, y2), some of them reaching over the borders."""

    def draw(random: np.random.Generator, shape: object) -> object:
        rows = random.uniform(-2, extent, (count, 5))
        rows[:, 3:] = rows[:, 1:3] + random.uniform(0.5, extent, (count, 2))
        rows[:, 0] = random.integers(0, images, count)
        return rows

    return Array((count, 5), dtype, draw)


_VALID, _PLACES = exactly([6, 4], "int32"), integers(2, 7, high=90)
SAMPLES["relax.vision.get_valid_counts"] = [
    sample(detections(2, 7), 0.3),
    sample(detections(1, 5, dtype="float64"), 0.5, id_index=-1),
    sample(floats(2, 5, 3), 0.1, id_index=2, score_index=0, **_FIRST),
    sample(floats(2, 0, 2, dtype="float32"), smooth=False),
]
SAMPLES["relax.vision.non_max_suppression"] = [
    sample(detections(2, 7), _VALID, _PLACES, iou_threshold=0.2),
    sample(detections(2, 7), _VALID, _PLACES, return_indices=False, force_suppress=True),
    sample(
        detections(2, 7),
        _VALID,
        _PLACES,
        return_indices=False,
        invalid_to_bottom=True,
        top_k=3,
        smooth=False,
    ),
    sample(
        detections(2, 7),
        _VALID,
        _PLACES,
        soft_nms_sigma=0.3,
        iou_threshold=0.8,
        score_threshold=0.1,
        smooth=False,
    ),
    sample(
        detections(1, 5, dtype="float64"),
        integers(1, high=6),
        integers(1, 5),
        return_indices=False,
        soft_nms_sigma=1.0,
        max_output_size=2,
        id_index=-1,
        second_order=False,
    ),
]
_LIMITS = (const(2, "int64"), const(0.3, "float32"), const(0.1, "float32"))
SAMPLES["relax.vision.all_class_non_max_suppression"] = [
    sample(positive(2, 7, 4), positive(2, 3, 7), *_LIMITS, output_format="onnx"),
    sample(positive(5, 7, 4), positive(5, 2, 7), *_LIMITS, output_format="tensorflow"),
    sample(
        positive(1, 7, 4, dtype="float32"),
        positive(1, 1, 7, dtype="float32"),
        *(
            exactly([value], dtype)
            for value, dtype in ((3, "int32"), (0.4, "float32"), (0, "float32"))
        ),
        output_format="tensorflow",
        smooth=False,
    ),
]
SAMPLES["relax.vision.multibox_transform_loc"] = [
    sample(floats(2, 3, 5), floats(2, 20), positive(1, 5, 4)),
    sample(
        floats(2, 4, 7),
        floats(2, 28),
        positive(1, 7, 4),
        clip=True,
        threshold=0.3,
        variances=(0.1, 0.1, 0.2, 0.2),
        second_order=False,
    ),
    sample(
        floats(1, 2, 3),
        floats(1, 12),
        positive(1, 3, 4),
        keep_background=False,
        apply_softmax=False,
    ),
    sample(
        *(floats(*shape, dtype="float16") for shape in ((1, 2, 3), (1, 12), (1, 3, 4))),
        smooth=False,
    ),
]
SAMPLES["relax.vision.roi_align"] = [
    sample(floats(2, 3, 5, 7), regions(5, 2, 6.0), (3, 2), 0.8, 2, **_FIRST),
    sample(floats(1, 6, 5, 2), regions(3, 1, 9.0), 2, 0.5, layout="NHWC", smooth=False),
    sample(
        floats(1, 2, 6, 5), regions(3, 1, 6.0), 2, 0.7, 2, True, "NCHW", "max", second_order=False
    ),
    sample(floats(1, 1, 4, 4), regions(2, 1, 5.0), 2, 1.0, mode="max", smooth=False),
    sample(floats(2, 1, 4, 4, dtype="bfloat16"), integers(2, 5, high=2), 2, 0.5, smooth=False),
]
SAMPLES["relax.grad.roi_align_backward"] = [
    sample(floats(2, 2, 1, 2), floats(2, 2, 3, 4), regions(2, 2, 4.0), (1, 2), 0.8, 2, **_FIRST),
    sample(
        floats(2, 1, 1, 2),
        floats(1, 4, 4, 2),
        regions(2, 1, 4.0),
        1,
        1.0,
        layout="NHWC",
        smooth=False,
    ),
    sample(
        floats(2, 1, 1, 1),
        floats(1, 1, 3, 3),
        regions(2, 1, 4.0),
        1,
        0.9,
        1,
        mode="max",
        smooth=False,
    ),
]
SAMPLES["relax.vision.roi_pool"] = [
    sample(floats(2, 3, 5, 7), regions(5, 2, 6.0), (3, 2), 0.8),
    sample(floats(1, 2, 6, 6), regions(3, 1, 9.0), 2, 1.0, **_FIRST),
    sample(integers(1, 2, 5, 5), regions(2, 1, 4.0, "float32"), 1, 0.5, smooth=False),
]
SAMPLES["relax.grad.roi_pool_backward"] = [
    sample(floats(3, 2, 2, 2), floats(2, 2, 5, 4), regions(3, 2, 4.0), 2, 0.8),
    sample(floats(2, 1, 3, 1), floats(1, 1, 6, 6), regions(2, 1, 9.0), (3, 1), 1.0, **_FIRST),
    sample(floats(7, 1, 1, 1), floats(1, 1, 3, 3), regions(7, 1, 3.0), 1, 1.0, smooth=False),
]
