"""Operators of PyTorch that find places and cut images, beside numpy; what has no known size."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from aten_results import slopes, value
from refusals import t as tensor

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.dims import SymbolicVar
from relaxjax.ir.expr import Var
from relaxjax.ir.span import Span
from relaxjax.ir.types import TensorType
from relaxjax.lowering import VirtualMachine, build
from relaxjax.torch import TorchImportError
from relaxjax.torch.aten import TABLE
from relaxjax.torch.aten.places import INSTEAD
from relaxjax.torch.importer import check_known
from relaxjax.torch.interpreter import OTHERS
from relaxjax.torch.program import Graph, Node

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(2, 3, 4)).astype("float32")
ROWS = np.array([[True, False, True], [False, True, False]])
IMAGE = RANDOM.normal(size=(1, 2, 5, 4)).astype("float32")
TABLE_OF_ROWS, IDS = RANDOM.normal(size=(6, 3)).astype("float32"), np.array([1, 2, 4, 5, 4, 3])
OFFSETS = np.array([0, 3, 3])


def _computed(
    target: str, given: tuple[Any, ...], options: dict[str, Any], first: Any = None
) -> Any:
    """What an overload gives; the first axis of the first array is `first`, or as long as it is."""
    names = [index for index, one in enumerate(given) if isinstance(one, np.ndarray)]
    params = {}
    for index in names:
        shape = given[index].shape
        shape = (first, *shape[1:]) if first is not None and index == 0 else shape
        params[index] = Var(f"x{index}", TensorType(shape, given[index].dtype.name))
    builder = BlockBuilder()
    with builder.function("main", list(params.values())):
        args = [params.get(index, one) for index, one in enumerate(given)]
        found = TABLE[f"aten.{target}"].rule(*args, **options)
        builder.emit_func_output(found[0] if isinstance(found, tuple) else found)
    run = VirtualMachine(build(builder.get()))["main"]
    return np.asarray(run(*(given[index] for index in names)))


def _scattered() -> Any:
    wanted = X.copy()
    wanted[ROWS] = IMAGE.ravel()[:12].reshape(3, 4)
    return wanted


def _columns() -> Any:
    """Windows of 2 by 2, two rows and one column apart, with a row of zeros above and below."""
    padded = np.pad(IMAGE, [(0, 0), (0, 0), (1, 1), (0, 0)])
    places = [(row, column) for row in (0, 2, 4) for column in range(3)]
    windows = [padded[0, :, r : r + 2, c : c + 2].reshape(-1) for r, c in places]
    return np.stack(windows, axis=1)[None]


def _summed(columns: Any) -> Any:
    image = np.zeros((1, 2, 7, 4), "float32")
    places = [(row, column) for row in (0, 2, 4) for column in range(3)]
    for place, (r, c) in enumerate(places):
        image[0, :, r : r + 2, c : c + 2] += columns[0, :, place].reshape(2, 2, 2)
    return image[:, :, 1:6]


def _bags(rows: Any) -> Any:
    return np.stack([rows[:3].sum(0), np.zeros(3), rows[3:].sum(0)])


INF, NAN = float("inf"), float("nan")
WINDOWS = ([2, 2], [1, 1], [1, 0], [2, 1])
COLUMNS = RANDOM.normal(size=(1, 8, 9)).astype("float32")
KEPT = (IDS != 4)[:, None]
CASES: dict[str, tuple[str, tuple[Any, ...], dict[str, Any], Any]] = {
    "a source in its order": (
        "masked_scatter.default", (X, ROWS[..., None], IMAGE), {}, _scattered()
    ),
    "the first places": (
        "nonzero_static.default", (ROWS,), {"size": 2}, np.argwhere(ROWS)[:2]
    ),
    "more places than there are": (
        "nonzero_static.default",
        (ROWS,),
        {"size": 8, "fill_value": -7},
        np.concatenate([np.argwhere(ROWS), np.full((5, 2), -7)]),
    ),
    "a search from the right": (
        "searchsorted.Tensor",
        (np.array([0.0, 1.0, 1.0]), np.array([1.0, -1.0, 2.0])),
        {"side": "right"},
        [3, 0, 3],
    ),
    "sums of bags": (
        "embedding_bag.padding_idx",
        (TABLE_OF_ROWS, IDS, OFFSETS),
        {},
        _bags(TABLE_OF_ROWS[IDS]),
    ),
    "means of bags without a row": (
        "embedding_bag.padding_idx",
        (TABLE_OF_ROWS, IDS, np.array([0, 3, 3, 6])),
        {"mode": 1, "padding_idx": -2, "include_last_offset": True},
        _bags(TABLE_OF_ROWS[IDS] * KEPT) / np.array([[2], [1], [2]]),
    ),
    "sums of bags without the last row": (
        "embedding_bag.padding_idx",
        (TABLE_OF_ROWS, IDS, OFFSETS),
        {"padding_idx": -1},
        _bags(TABLE_OF_ROWS[IDS] * np.not_equal(IDS, len(TABLE_OF_ROWS) - 1)[:, None]),
    ),
    "sums of bags, spelt out": (
        "_embedding_bag.default", (TABLE_OF_ROWS, IDS, OFFSETS), {}, _bags(TABLE_OF_ROWS[IDS])
    ),
    "sums of bags without a row, spelt out": (
        "_embedding_bag.default",
        (TABLE_OF_ROWS, IDS, OFFSETS),
        {"padding_idx": len(TABLE_OF_ROWS) - 2},
        _bags(TABLE_OF_ROWS[IDS] * KEPT),
    ),
    "a triangle": ("triu_indices.default", (3, 4, 1), {}, np.triu_indices(3, 1, 4)),
    "the other triangle": ("tril_indices.default", (3, 4), {}, np.tril_indices(3, 0, 4)),
    "windows": ("im2col.default", (IMAGE, *WINDOWS), {}, _columns()),
    "windows of one image": ("im2col.default", (IMAGE[0], *WINDOWS), {}, _columns()[0]),
    "sums of windows": ("col2im.default", (COLUMNS, [5, 4], *WINDOWS), {}, _summed(COLUMNS)),
    "sums of windows of one image": (
        "col2im.default", (COLUMNS[0], [5, 4], *WINDOWS), {}, _summed(COLUMNS)[0]
    ),
    "what stands at the other end": (
        "pad.default",
        (IMAGE, [1, 2, 2, 0], "circular"),
        {},
        np.pad(IMAGE, [(0, 0), (0, 0), (2, 0), (1, 2)], mode="wrap"),
    ),
    "a product of vectors": (
        "linalg_cross.default", (X[0, :, :3], X[1, :, :3]), {}, np.cross(X[0, :, :3], X[1, :, :3])
    ),
    "distances": (
        "cdist.default", (X, X), {}, np.linalg.norm(X[:, :, None] - X[:, None], axis=-1)
    ),
    "one row of an image": (
        "upsample_linear1d.vec", (X, [8], True), {}, [
            [np.interp(np.linspace(0, 3, 8), np.arange(4), row) for row in rows] for rows in X
        ]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_it_is_what_numpy_computes(name: str) -> None:
    target, given, options, wanted = CASES[name]
    found = _computed(target, given, options)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_the_largest_rows_of_bags() -> None:
    """The first of equal ones has the adjoint; nothing is the largest of an empty bag."""
    table = np.array([[1.0, 5.0], [4.0, 5.0], [9.0, -INF], [NAN, 0.0]], "float32")
    ids, offsets = np.array([1, 0, 2, 2, 3]), np.array([0, 2, 2, 4])
    given, options = (table, ids, offsets), {"mode": 2}
    found = value("embedding_bag.padding_idx", *given, **options)
    np.testing.assert_array_equal(found, [[4, 5], [0, 0], [9, -INF], [NAN, 0]])
    (slope,) = slopes("embedding_bag.padding_idx", *given, **options)
    np.testing.assert_array_equal(slope, [[0, 0], [1, 1], [1, 1], [0, 1]])
    found = value("embedding_bag.padding_idx", *given, **options, padding_idx=2)
    np.testing.assert_array_equal(found, [[4, 5], [0, 0], [0, 0], [NAN, 0]])


@pytest.mark.parametrize("name", ["the first places", "more places than there are", "windows"])
def test_a_batch_of_any_size(name: str) -> None:
    target, given, options, wanted = CASES[name]
    found = _computed(target, given, options, SymbolicVar("n"))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("start", [0, 1, 2])
def test_every_third_place_of_any_size(start: int) -> None:
    """As the bags of rows begin that stand in a table of ids."""
    n = SymbolicVar("n")
    x = Var("x", TensorType((n,), "int64"))
    builder = BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(TABLE["aten.arange.start_step"].rule(3 * n + 1, start, 3))
    found = VirtualMachine(build(builder.get()))["main"](np.zeros(2, "int64"))
    np.testing.assert_array_equal(np.asarray(found), np.arange(start, 7, 3))


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "a row from behind": (
        lambda: TABLE["aten.embedding_bag.padding_idx"].rule(
            tensor(SymbolicVar("n"), 3),
            tensor(6, dtype="int64"),
            tensor(2, dtype="int64"),
            padding_idx=-2,
        ),
        "of a table whose length is not known",
    ),
    "sums of images of any size": (
        lambda: TABLE["aten.col2im.default"].rule(tensor(1, 8, 9), [SymbolicVar("n"), 4], *WINDOWS),
        "of a size that is not known are not put together",
    ),
    "a triangle of any size": (
        lambda: TABLE["aten.tril_indices.default"].rule(SymbolicVar("n"), 3),
        "the places in a triangle of n by 3, which is not known",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    make, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("name", INSTEAD)
def test_what_has_no_known_size_is_listed_with_what_to_do(name: str) -> None:
    span = Span("net.py", 7, 0, 7, 1)
    nodes = Node(f"aten.{name}.default", {}, ("y",), span), Node("my.kernel.default", {}, ("z",))
    with pytest.raises(TorchImportError) as caught:
        check_known("net", Graph((), nodes, (), {}), OTHERS)
    first, second = str(caught.value).splitlines()[1:3]
    assert first == f"  aten.{name}.default, 1 time, at net.py:7; {INSTEAD[name]}"
    assert second == "  my.kernel.default, 1 time"
