"""Images against numpy, and the errors of bad arguments."""

import itertools
from typing import Any

import jax
import numpy as np
import pytest
from applying import applied, inferred, tensor
from numpy_references_image import PLACES, ROUND, affine_grid, grid_sample, resize2d, resize3d

from relaxjax.ir import ShapeExpr, ShapeType, SymbolicVar, TensorType, Var
from relaxjax.ir.builder import BlockBuilder
from relaxjax.lowering import to_jax
from relaxjax.ops import OpError
from relaxjax.ops.emit import call
from relaxjax.passes import Gradient

RANDOM = np.random.default_rng(3)
IMAGES = RANDOM.normal(size=(2, 3, 4, 5)).astype("float32")
VOLUMES = RANDOM.normal(size=(1, 2, 3, 4, 5)).astype("float32")


@pytest.mark.parametrize("mode", PLACES)
@pytest.mark.parametrize("method", ["linear", "cubic", "nearest_neighbor"])
def test_resize_by_every_method_and_transformation(method: str, mode: str) -> None:
    options: dict[str, Any] = {"method": method, "coordinate_transformation_mode": mode}
    if mode == "tf_crop_and_resize":
        options |= {"roi": (0.12, -0.2, 0.9, 1.1), "extrapolation_value": 2.5}
    roundings = ROUND if method == "nearest_neighbor" else ["round"]
    for rounding, size in itertools.product(roundings, [(3, 9), (1, 5)]):
        options["rounding_method"] = rounding
        got = applied("image.resize2d", IMAGES, size, **options)
        wanted = resize2d(IMAGES, size, **options)
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5, err_msg=f"{rounding} {size}")


def test_an_image_of_any_size_is_resized_in_its_own_precision() -> None:
    """Its places were in float32, whatever the image was."""
    n = SymbolicVar("n")
    x, builder = Var("x", TensorType((1, 2, n, 5), "float64")), BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            found = builder.emit_output(call("image.resize2d", x, (n * 3, 7)))
        builder.emit_func_output(found)
    mod = Gradient("main", cotangent=True)(builder.get())
    image = RANDOM.normal(size=(1, 2, 7, 5))
    given = RANDOM.normal(size=(1, 2, 21, 7))
    with jax.enable_x64(True):
        found, (slope,) = to_jax(mod, "main_adjoint")(image, given)
    np.testing.assert_allclose(found, resize2d(image, (21, 7)), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(
        np.sum(image * np.asarray(slope)), np.sum(given * np.asarray(found)), rtol=1e-12
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"method": "cubic", "cubic_exclude": 1, "cubic_alpha": -0.5},
        {
            "coordinate_transformation_mode": "tf_crop_and_resize",
            "roi": (0.1, -0.2, 0.3, 0.9, 1.1, 0.8),
        },
    ],
)
def test_resize_of_volumes(options: dict[str, Any]) -> None:
    got = applied("image.resize3d", VOLUMES, (2, 6, 4), **options)
    np.testing.assert_allclose(got, resize3d(VOLUMES, (2, 6, 4), **options), rtol=1e-4, atol=1e-5)


def test_resize_chooses_a_rounding() -> None:
    """Of two images in depth, one a half of the other: without a rounding the one before."""
    nearest: dict[str, Any] = {"method": "nearest_neighbor"}
    floor = applied("image.resize3d", VOLUMES, 2, **nearest, rounding_method="floor")
    np.testing.assert_array_equal(applied("image.resize3d", VOLUMES, 2, **nearest), floor)
    nearest["coordinate_transformation_mode"] = "align_corners"
    even = applied("image.resize3d", VOLUMES, 2, **nearest, rounding_method="round")
    np.testing.assert_array_equal(applied("image.resize3d", VOLUMES, 2, **nearest), even)


@pytest.mark.parametrize(("layout", "axes"), [("NHWC", (0, 2, 3, 1)), ("HWNC", (2, 3, 0, 1))])
def test_resize_in_other_layouts(layout: str, axes: tuple[int, ...]) -> None:
    got = applied(
        "image.resize2d", np.ascontiguousarray(IMAGES.transpose(axes)), (3, 7), None, layout
    )
    wanted = applied("image.resize2d", IMAGES, (3, 7)).transpose(axes)
    np.testing.assert_allclose(got, wanted, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["uint8", "int32"])
def test_resize_of_integers_keeps_a_plain_image(dtype: str) -> None:
    """Interpolation between equal integers gives the same integer, and is cut off elsewhere."""
    plain = np.full((1, 1, 5, 7), 201, dtype)
    for method in ("linear", "cubic"):
        assert (applied("image.resize2d", plain, (9, 4), method=method) == 201).all()
    ramp = np.array([[[[0, 7]]]], dtype)
    got = applied("image.resize2d", ramp, (1, 4), coordinate_transformation_mode="align_corners")
    np.testing.assert_array_equal(got[0, 0, 0], [0, 2, 4, 7])


def test_resize_to_another_dtype() -> None:
    got = applied("image.resize2d", IMAGES, 6, out_dtype="float16")
    assert got.dtype == np.float16
    np.testing.assert_allclose(got, resize2d(IMAGES, (6, 6)), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("align_corners", [True, False])
@pytest.mark.parametrize("size", [(3, 4), (2, 3, 4), (1, 5)])
def test_affine_grid(size: tuple[int, ...], align_corners: bool) -> None:
    count = len(size)
    maps = RANDOM.normal(size=(2, count, count + 1)).astype("float32")
    got = applied("image.affine_grid", maps, size, align_corners)
    wanted = affine_grid(maps, size, align_corners)
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("align_corners", [True, False])
@pytest.mark.parametrize("mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("method", ["bilinear", "nearest", "bicubic"])
def test_grid_sample(method: str, mode: str, align_corners: bool) -> None:
    cases = [(IMAGES, "NCHW"), (VOLUMES, "NCDHW")][: 1 if method == "bicubic" else 2]
    for data, layout in cases:
        count = len(layout) - 2
        grid = RANDOM.uniform(-2, 2, (data.shape[0], count, *(2, 3, 2)[:count])).astype("float32")
        got = applied("image.grid_sample", data, grid, method, layout, mode, align_corners)
        wanted = grid_sample(data, grid, method, layout, mode, align_corners)
        np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-4)


def test_grid_sample_with_channels_last() -> None:
    grid = RANDOM.uniform(-1, 1, (2, 2, 3, 3)).astype("float32")
    last = np.ascontiguousarray(IMAGES.transpose(0, 2, 3, 1))
    got = applied("image.grid_sample", last, grid, layout="NHWC")
    wanted = applied("image.grid_sample", IMAGES, grid).transpose(0, 2, 3, 1)
    np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_the_grid_of_the_identity_gives_the_image_back() -> None:
    grid = applied("image.affine_grid", np.array([[[1, 0, 0], [0, 1, 0]]] * 2, "float32"), (4, 5))
    got = applied("image.grid_sample", IMAGES, grid, align_corners=True)
    np.testing.assert_allclose(got, IMAGES, rtol=1e-4, atol=1e-5)


def test_symbolic_and_unknown_shapes() -> None:
    n, m = SymbolicVar("n"), SymbolicVar("m")
    images = tensor(n, 3, 8, m)
    assert inferred("image.resize2d", images, (m, 5)) == tensor(n, 3, m, 5)
    unknown = TensorType(None, "float32", 4)
    assert inferred("image.resize2d", unknown, (4, 5)) == unknown
    assert inferred("image.resize2d", images, Var("s", ShapeType(None, 2))) == unknown
    assert inferred("image.grid_sample", images, unknown) == unknown
    assert inferred("image.affine_grid", tensor(n, 2, 3), (m, 5)) == tensor(n, 2, m, 5)
    assert inferred("image.affine_grid", TensorType(None, "float32", 3), (4, 5)) == unknown
    some = inferred("image.affine_grid", tensor(n, 2, 3), Var("s", ShapeType()))
    assert some == TensorType(None, "float32")


X, X3, G = tensor(2, 3, 8, 8), tensor(2, 3, 4, 8, 8), tensor(2, 2, 5, 6)
ERRORS: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("resize2d", (X, (4, 5)), {"layout": "OIHW"}, '`layout` must name the axes of "NCHW"'),
    ("resize2d", (X, (4, 5)), {"layout": "NCH2hW"}, '`layout` .*, found "NCH2hW"'),
    ("resize2d", (X, (4, 5)), {"layout": "NC-HW"}, '`layout` .*, found "NC-HW"'),
    ("resize2d", (tensor(2, 3, 4), (4, 5)), {}, "`data` must have 4 dimensions, found 3"),
    ("resize2d", (X, (4, 5, 6)), {}, "`size` must have 2 dimensions, found 3"),
    ("resize2d", (X, (4, 5)), {"method": "area"}, '`method` must be one of "linear", .* "area"'),
    (
        "resize2d",
        (X, (4, 5)),
        {"coordinate_transformation_mode": "corners"},
        "`coordinate_transformation_mode` must be one of",
    ),
    ("resize2d", (X, (4, 5)), {"rounding_method": "up"}, "`rounding_method` must be one of"),
    ("resize2d", (X, (4, 5)), {"roi": (0.0, 1.0)}, "`roi` must be 1 or 4 numbers, found"),
    ("resize3d", (X, (4, 5, 6)), {}, "`data` must have 5 dimensions, found 4"),
    ("resize3d", (X3, (4, 5)), {}, "`size` must have 3 dimensions, found 2"),
    ("affine_grid", (tensor(2, 2), (4, 5)), {}, "`data` must have 3 dimensions, found 2"),
    ("affine_grid", (tensor(2, 2, 3), (4, 5, 6, 7)), {}, "`size` must have 2 or 3 dimensions"),
    ("affine_grid", (tensor(2, 2, 3), (4, 5, 6)), {}, r"`data` must have shape \(2, 3, 4\)"),
    ("affine_grid", (tensor(2, 2, 3, dtype="int32"), (4, 5)), {}, "`data` .* float dtype"),
    ("grid_sample", (X, G), {"layout": "NCWH"}, "`layout` must be one of NCHW, NHWC, NCDHW"),
    ("grid_sample", (X, G), {"method": "linear"}, "`method` must be one of"),
    ("grid_sample", (X, G), {"padding_mode": "wrap"}, "`padding_mode` must be one of"),
    ("grid_sample", (X3, G), {}, "`data` must have 4 dimensions, found 5"),
    ("grid_sample", (X, X3), {}, "`grid` must have 4 dimensions, found 5"),
    ("grid_sample", (X, tensor(2, 5, 6, 2)), {}, r"`grid` must have shape \(images, 2, ...\)"),
    ("grid_sample", (X, tensor(3, 2, 5, 6)), {}, "`grid` must be for the 2 images of `data`"),
    ("grid_sample", (X, tensor(2, 2, 5, 6, dtype="int32")), {}, "`grid` .* float dtype"),
    ("grid_sample", (tensor(2, 3, 8, 8, dtype="int32"), G), {}, "`data` .* float dtype"),
    (
        "grid_sample",
        (X3, tensor(2, 3, 4, 5, 6)),
        {"layout": "NCDHW", "method": "bicubic"},
        "`method` may be bicubic in two dimensions only",
    ),
]


@pytest.mark.parametrize(("name", "args", "attrs", "message"), ERRORS)
def test_bad_arguments(
    name: str, args: tuple[Any, ...], attrs: dict[str, Any], message: str
) -> None:
    with pytest.raises(OpError, match=f"relax.image.{name}: {message}"):
        inferred(f"image.{name}", *args, **attrs)


def test_a_size_may_be_a_shape() -> None:
    assert inferred("image.resize2d", X, ShapeExpr((4, 5))) == tensor(2, 3, 4, 5)
    assert inferred("image.resize3d", X3, 4) == tensor(2, 3, 4, 4, 4)
