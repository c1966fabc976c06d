"""Operators of PyTorch at the edges of what they take: nothing, a scalar, no step, the same row."""

from typing import Any

import numpy as np
import pytest
from aten_results import slopes, value

from relaxjax.torch.aten import TABLE

ROWS = np.arange(12, dtype="float32").reshape(4, 3)
GROUPS = {"weight": None, "bias": None, "N": 0, "C": 4, "HxW": 3, "group": 2, "eps": 1e-5}
IDS = np.array([[1, 2, 2], [0, 2, 3]])
NUMBERS = np.array([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3], [5, 8, 9, 7, 9]], "float32")[None, None]


def rule(name: str) -> Any:
    return TABLE[f"aten.{name}"].rule


def test_the_gradient_of_a_row_by_how_often_it_is_read() -> None:
    def read(weight: Any, ids: Any, **options: Any) -> Any:
        return rule("embedding.default")(weight, ids, scale_grad_by_freq=True, **options)

    np.testing.assert_array_equal(value(read, ROWS, IDS), ROWS[IDS])
    np.testing.assert_allclose(slopes(read, ROWS, IDS)[0], np.ones((4, 3)), rtol=1e-6)
    found = slopes(read, ROWS, np.array([2, 2, 1]), padding_idx=1)[0]
    np.testing.assert_allclose(found, [[0] * 3, [0] * 3, [1] * 3, [0] * 3], rtol=1e-6)
    infinite = np.array([[np.inf, 1], [2, 3]], "float32")
    np.testing.assert_array_equal(value(read, infinite, np.array([0, 0])), infinite[[0, 0]])


def test_the_gradient_of_a_bag_by_how_often_a_row_is_read() -> None:
    options = {"scale_grad_by_freq": True}
    ids, offsets = IDS.reshape(-1), np.array([0, 3])
    found = slopes("embedding_bag.default", ROWS, ids, offsets, **options)[0]
    np.testing.assert_allclose(found, np.ones((4, 3)), rtol=1e-6)
    found = slopes("embedding_bag.default", ROWS, ids, offsets, mode=1, **options)[0]
    np.testing.assert_allclose(found, np.full((4, 3), 1 / 3), rtol=1e-6)


@pytest.mark.parametrize(
    ("size", "largest", "places"),
    [
        (2, [9, 6, 9, 9], [5, 7, 5, 12]),
        ([1, None], [9, 8, 9, 7, 9], [5, 11, 12, 13, 14]),
        ([3, 5], NUMBERS.ravel(), range(15)),
    ],
)
def test_where_the_largest_elements_of_an_adapted_window_stand(
    size: Any, largest: Any, places: Any
) -> None:
    pool = rule("adaptive_max_pool2d.default")
    np.testing.assert_array_equal(value(pool, NUMBERS, output_size=size).ravel(), largest)
    found = value(lambda x: pool(x, size)[1], NUMBERS)
    assert found.dtype.kind == "i"
    np.testing.assert_array_equal(found.ravel(), places)
    hit = np.bincount(list(places), minlength=15)
    np.testing.assert_array_equal(slopes(pool, NUMBERS, output_size=size)[0].ravel(), hit)


def test_no_differences() -> None:
    """What stands before and behind it does not count, where no difference is taken."""
    found = value(lambda x, y: rule("diff.default")(x, 0, -1, y, y), ROWS, ROWS)
    np.testing.assert_array_equal(found, ROWS)


def test_a_scalar_and_its_slope_below_zero() -> None:
    x, weight = np.array(-2, "float32"), np.array([0.5], "float32")
    assert value("prelu.default", x, weight) == -1
    by_x, by_weight = slopes("prelu.default", x, weight)
    assert by_x == 0.5
    assert by_weight == [-2]


@pytest.mark.parametrize(
    ("name", "shape", "options"),
    [
        ("repeat.default", (0,), {"repeats": [0, 2]}),
        ("view.default", (3, 0, 2), {"size": [0, 5]}),
        ("reshape.default", (0, 4), {"shape": [2, 0, 3]}),
        ("flatten.using_ints", (0, 2, 3), {"start_dim": 1}),
    ],
)
def test_the_shape_of_nothing(name: str, shape: Any, options: Any) -> None:
    shapes = {"repeats": (0, 0), "size": (0, 5), "shape": (2, 0, 3), "start_dim": (0, 6)}
    wanted = shapes[next(iter(options))]
    x = np.zeros(shape, "float32")
    assert value(name, x, **options).shape == wanted
    assert slopes(name, x, **options)[0].shape == shape


def test_a_logit_whose_bounds_are_crossed() -> None:
    """The lower bound is looked at first, as PyTorch does it; the slope is 0 everywhere."""
    x = np.array([0.1, 0.5, 0.9], "float32")
    found = value("logit.default", x, eps=0.7)
    wanted = np.log(np.array([0.7, 0.7, 0.3]) / np.array([0.3, 0.3, 0.7]))
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    np.testing.assert_array_equal(slopes("logit.default", x, eps=0.7)[0], [0, 0, 0])


def test_the_groups_of_no_images() -> None:
    found = value("native_group_norm.default", np.zeros((0, 4, 3), "float32"), **GROUPS)
    assert found.shape == (0, 4, 3)


def test_the_similarity_of_two_numbers() -> None:
    found = value("cosine_similarity.default", *(np.array(x, "float32") for x in (-2, 3)), dim=-1)
    assert found.shape == ()
    np.testing.assert_allclose(found, -1, rtol=1e-6)


def test_no_places_are_read() -> None:
    gather = rule("gather.default")
    nothing = np.zeros(0, "int64")
    assert value(lambda x, ids: gather(x, 1, ids), ROWS, nothing).shape == (0,)
    (found,) = slopes(lambda x, ids: gather(x, 1, ids), ROWS, nothing)
    np.testing.assert_array_equal(found, np.zeros_like(ROWS))


@pytest.mark.parametrize(("length", "count"), [(0, 3), (3, 0)])
def test_places_in_rows_of_nothing(length: int, count: int) -> None:
    rows = [np.zeros((2, size), "float32") for size in (length, count)]
    found = value("searchsorted.Tensor", *rows)
    np.testing.assert_array_equal(found, np.zeros((2, count)))


def test_the_distance_of_integers() -> None:
    x = np.array([[3, 0], [0, 0]])
    found = value("pairwise_distance.default", x, np.array([[0, 4], [0, 0]]), eps=0.0)
    np.testing.assert_allclose(found, [5, 0], rtol=1e-6)


def test_truths_are_counted_where_sizes_differ_alone() -> None:
    truths = np.array([[True, False], [True, True]])
    assert value("sum_to_size.default", truths, size=[2, 2]).dtype == "bool"
    np.testing.assert_array_equal(value("sum_to_size.default", truths, size=[1, 2]), [[2, 1]])


@pytest.mark.parametrize("padding", [1, 2], ids=["border", "reflection"])
def test_an_image_has_no_slope_at_its_ends(padding: int) -> None:
    image = np.array([[[[1, 4, 2], [0, 5, 9]]]], "float32")
    grid = np.array([[[[-1, 0], [1, 0], [0, -1], [0, 1], [0.5, 0]]]], "float32")
    options = {"interpolation_mode": 0, "padding_mode": padding, "align_corners": True}
    found = slopes("grid_sampler.default", image, grid, **options)[1]
    assert not found[0, 0, :2, 0].any()
    assert not found[0, 0, 2:4, 1].any()
    np.testing.assert_allclose(found[0, 0, 4], [1.0, 2.0], rtol=1e-6)
