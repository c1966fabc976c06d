"""Samples of the operators on images."""

from typing import Any

from operator_samples import Array, Sample, dims, floats, integers, sample

SAMPLES: dict[str, list[Sample]] = {}


def places(*shape: int, dtype: str = "float64") -> Array:
    """Places of a grid, some of them outside of the image."""
    return floats(*shape, dtype=dtype, low=-1.4, high=1.4)


_TWO: list[tuple[Array, Any, dict[str, Any]]] = [
    (floats(2, 3, 4, 5), (7, 3), {}),
    (floats(1, 5, 4, 2), (3, 6), {"layout": "NHWC", "method": "cubic", "cubic_exclude": 1}),
    (
        floats(1, 2, 5, 7),
        (3, 4),
        {
            "roi": (0.1, -0.2, 0.9, 1.1),
            "coordinate_transformation_mode": "tf_crop_and_resize",
            "extrapolation_value": 2.5,
        },
    ),
    (
        floats(1, 2, 4, 3),
        5,
        {
            "method": "nearest_neighbor",
            "rounding_method": "floor",
            "coordinate_transformation_mode": "asymmetric",
        },
    ),
    (floats(1, 1, 4, 4, 2), (2, 8), {"layout": "NCHW2c"}),
    (
        floats(2, 1, 3, 3, dtype="float32"),
        (3, 1),
        {"out_dtype": "float64", "coordinate_transformation_mode": "align_corners"},
    ),
]
_RESULTS = [(2, 3, 7, 3), (1, 3, 6, 2), (1, 2, 3, 4), (1, 2, 5, 5), (1, 1, 2, 8, 2), (2, 1, 3, 1)]
_THREE: list[tuple[Array, Any, dict[str, Any]]] = [
    (floats(1, 2, 3, 4, 5), (2, 6, 3), {}),
    (floats(1, 2, 5, 3, 1), (4, 2, 3), {"layout": "NDHWC", "method": "nearest_neighbor"}),
    (
        floats(1, 1, 2, 3, 3),
        3,
        {"method": "cubic", "coordinate_transformation_mode": "pytorch_half_pixel"},
    ),
]
_RESULTS_3D = [(1, 2, 2, 6, 3), (1, 4, 2, 3, 1), (1, 1, 3, 3, 3)]


def _size(size: Any) -> Any:
    return dims(*size) if isinstance(size, tuple) else dims(size)


SAMPLES["relax.image.resize2d"] = [
    *(sample(data, _size(size), **attrs) for data, size, attrs in _TWO),
    sample(integers(1, 2, 5, 4, high=90), dims(3, 8), smooth=False),
    sample(floats(1, 1, 5, 4, dtype="bfloat16"), dims(7, 2), smooth=False),
]
SAMPLES["relax.image.resize3d"] = [
    sample(data, _size(size), **attrs, second_order=False) for data, size, attrs in _THREE
]
SAMPLES["relax.grad.resize2d_backward"] = [
    sample(floats(*result, dtype=attrs.get("out_dtype", "float64")), data, _size(size), **attrs)
    for (data, size, attrs), result in zip(_TWO, _RESULTS, strict=True)
]
SAMPLES["relax.grad.resize3d_backward"] = [
    sample(floats(*result), data, _size(size), **attrs, second_order=False)
    for (data, size, attrs), result in zip(_THREE, _RESULTS_3D, strict=True)
]
SAMPLES["relax.image.affine_grid"] = [
    sample(floats(2, 2, 3), dims(3, 5)),
    sample(floats(5, 3, 4), dims(2, 3, 7), align_corners=False),
    sample(floats(1, 2, 3), dims(4), False),
    sample(floats(2, 2, 3, dtype="bfloat16"), dims(1, 4), smooth=False),
]
_GRIDS: list[tuple[Array, Array, tuple[int, ...], dict[str, Any]]] = [
    (floats(2, 3, 4, 5), places(2, 2, 2, 3), (2, 3, 2, 3), {}),
    (
        floats(1, 5, 4, 2),
        places(1, 2, 3, 2),
        (1, 3, 2, 2),
        {"method": "bicubic", "layout": "NHWC", "padding_mode": "border"},
    ),
    (
        floats(1, 2, 3, 4, 3),
        places(1, 3, 2, 1, 2),
        (1, 2, 2, 1, 2),
        {"layout": "NCDHW", "padding_mode": "reflection", "align_corners": True},
    ),
    (floats(1, 2, 5, 4), places(1, 2, 2, 2), (1, 2, 2, 2), {"method": "nearest"}),
]
SAMPLES["relax.image.grid_sample"] = [
    *(sample(d, g, **attrs, second_order=not attrs) for d, g, _, attrs in _GRIDS),
    sample(integers(1, 2, 5, 4), places(1, 2, 7, 3), "nearest", smooth=False),
    sample(floats(1, 1, 3, 3, dtype="float16"), places(1, 2, 2, 2, dtype="float32"), smooth=False),
]
SAMPLES["relax.grad.grid_sample_backward"] = [
    sample(floats(*result), d, g, **attrs, second_order=False, smooth=not attrs)
    for d, g, result, attrs in _GRIDS[:3]
]
