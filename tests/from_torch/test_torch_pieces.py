"""Diagonals, pieces, products and sizes of PyTorch, beside numpy."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from aten_results import program, slopes, value
from refusals import t as tensor

from relaxjax import to_jax
from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.dims import SymbolicVar
from relaxjax.ir.expr import Constant, Var
from relaxjax.ir.types import TensorType
from relaxjax.passes import Gradient
from relaxjax.torch.aten import TABLE

RANDOM = np.random.default_rng(0)
INF, NAN = float("inf"), float("nan")


def floats(*shape: int) -> Any:
    return RANDOM.normal(size=shape).astype("float32")


X, Y, CUBE, V = floats(3, 4), floats(3, 4), floats(2, 3, 4), floats(4)
SQUARE, INTS = floats(3, 3), np.array([3, -1, 2, 2], "int32")
PLACES = np.array([[0, -1], [5, 0]])
LOWER = np.tril(SQUARE) + 3 * np.eye(3, dtype="float32")
HOLES = np.where(X > 1, np.float32(NAN), X)

CASES: list[tuple[str, tuple[Any, ...], dict[str, Any], Any]] = [
    ("diagonal.default", (CUBE,), {"offset": -1, "dim1": -1, "dim2": 0},
     CUBE.diagonal(-1, 2, 0)),
    ("diagonal.default", (X,), {"offset": 9}, X.diagonal(9)),
    ("linalg_diagonal.default", (CUBE,), {"offset": 1}, CUBE.diagonal(1, 1, 2)),
    ("diag.default", (X,), {"diagonal": 1}, np.diag(X, 1)),
    ("diag.default", (V,), {"diagonal": -2}, np.diag(V, -2)),
    ("diag_embed.default", (X,), {"dim1": 0, "dim2": 2}, np.stack([np.diag(r) for r in X], 1)),
    ("diagflat.default", (X,), {"offset": 1}, np.diag(X.ravel(), 1)),
    ("diagonal_scatter.default", (SQUARE, V[:2]), {"offset": 1},
     SQUARE - np.diag(SQUARE.diagonal(1), 1) + np.diag(V[:2], 1)),
    ("fill_diagonal.default", (X,), {"fill_value": 2.0}, np.where(np.eye(3, 4), 2, X)),
    ("median.dim", (CUBE,), {"dim": -2, "keepdim": True}, np.median(CUBE, 1, keepdims=True)),
    ("median.default", (INTS,), {}, 2),
    ("kthvalue.default", (X,), {"k": 2, "dim": 0}, np.sort(X, 0)[1]),
    ("quantile.scalar", (CUBE,), {"q": 0.3, "dim": 1, "keepdim": True},
     np.quantile(CUBE, np.float32(0.3), 1, keepdims=True)),
    ("quantile.default", (CUBE, np.array([0.1, 0.7], "float32")), {"dim": -1},
     np.quantile(CUBE, [0.1, 0.7], -1)),
    ("quantile.scalar", (X,), {"q": 0.4, "interpolation": "midpoint"},
     np.quantile(X, 0.4, method="midpoint")),
    ("quantile.scalar", (X,), {"q": 0.4, "dim": 0, "interpolation": "nearest"},
     np.quantile(X, 0.4, 0, method="nearest")),
    ("nanquantile.scalar", (HOLES,), {"q": 0.3, "dim": 1, "interpolation": "higher"},
     np.nanquantile(HOLES, 0.3, 1, method="higher")),
    ("cummax.default", (X,), {"dim": 1}, np.maximum.accumulate(X, 1)),
    ("cummin.default", (X,), {"dim": 0}, np.minimum.accumulate(X, 0)),
    ("logcumsumexp.default", (X,), {"dim": 1}, np.logaddexp.accumulate(X, 1)),
    ("msort.default", (X,), {}, np.sort(X, 0)),
    ("isin.Tensor_Tensor", (INTS, np.array([2, 5], "int32")), {"invert": True},
     [True, True, False, False]),
    ("nanmean.default", (HOLES,), {"dim": 1}, np.nanmean(HOLES, 1)),
    ("hstack.default", ([X, Y],), {}, np.hstack([X, Y])),
    ("hstack.default", ([V, V[:1]],), {}, np.hstack([V, V[:1]])),
    ("vstack.default", ([V, X],), {}, np.vstack([V, X])),
    ("dstack.default", ([X, Y],), {}, np.dstack([X, Y])),
    ("column_stack.default", ([V[:3], X],), {}, np.column_stack([V[:3], X])),
    ("atleast_3d.default", (X,), {}, np.atleast_3d(X)),
    ("block_diag.default", ([X, V, SQUARE],), {},
     np.block([[X, np.zeros((3, 7))], [np.zeros((1, 4)), V, np.zeros((1, 3))],
               [np.zeros((3, 8)), SQUARE]])),
    ("cartesian_prod.default", ([V[:2], V[1:4]],), {}, [[a, b] for a in V[:2] for b in V[1:4]]),
    ("combinations.default", (V[:3],), {"with_replacement": True},
     V[[[0, 0], [0, 1], [0, 2], [1, 1], [1, 2], [2, 2]]]),
    ("fliplr.default", (X,), {}, np.fliplr(X)),
    ("flipud.default", (X,), {}, np.flipud(X)),
    *(("rot90.default", (CUBE,), {"k": k, "dims": [1, -1]}, np.rot90(CUBE, k, (1, 2)))
      for k in (-1, 1, 2, 4)),
    ("sum_to_size.default", (CUBE,), {"size": [3, 1]}, CUBE.sum((0, 2))[:, None]),
    ("sum_to_size.default", (X > 0,), {"size": [3, 4]}, (X > 0).astype("int64")),
    ("inner.default", (CUBE, V), {}, np.inner(CUBE, V)),
    ("tensordot.default", (CUBE, floats(4, 2, 5)), {"dims_self": [0, -1], "dims_other": [1, 0]},
     None),
    ("kron.default", (X, SQUARE), {}, np.kron(X, SQUARE)),
    ("kron.default", (CUBE, V), {}, np.kron(CUBE, V)),
    ("linalg_multi_dot.default", ([X, X.T, Y],), {}, X @ X.T @ Y),
    ("linalg_matrix_power.default", (SQUARE,), {"n": 5}, np.linalg.matrix_power(SQUARE, 5)),
    ("linalg_matrix_power.default", (LOWER,), {"n": -2}, np.linalg.matrix_power(LOWER, -2)),
    ("linalg_matrix_power.default", (SQUARE,), {"n": 0}, np.eye(3)),
    ("addr.default", (SQUARE, V[:3], V[1:]), {"beta": 2, "alpha": 0.5},
     2 * SQUARE + 0.5 * np.outer(V[:3], V[1:])),
    ("addbmm.default", (floats(3, 3), CUBE, floats(2, 4, 3)), {"beta": 0}, None),
    ("linalg_vecdot.default", (X, Y), {"dim": 0}, (X * Y).sum(0)),
    ("cross.default", (X, Y), {}, np.cross(X.T, Y.T).T),
    ("linalg_cross.default", (X.T.copy(), V[:3]), {}, np.cross(X.T, V[:3])),
    ("linalg_svdvals.default", (X,), {}, np.linalg.svd(X, compute_uv=False)),
    ("logdet.default", (LOWER,), {}, np.log(np.linalg.det(LOWER))),
    ("logdet.default", (np.array([[0, 1], [1, 0]], "float32"),), {}, NAN),
    ("linalg_solve_triangular.default", (LOWER, X), {"upper": False}, np.linalg.solve(LOWER, X)),
    ("linalg_solve_triangular.default", (LOWER.T.copy(), Y.T.copy()),
     {"upper": True, "left": False}, np.linalg.solve(LOWER, Y).T),
    ("cholesky_solve.default", (X, LOWER), {}, np.linalg.solve(LOWER @ LOWER.T, X)),
    ("linalg_norm.default", (X,), {"ord": -INF}, np.linalg.norm(X, -INF)),
    ("linalg_norm.default", (CUBE,), {"ord": 1, "dim": [0, 2], "keepdim": True},
     np.linalg.norm(CUBE, 1, (0, 2), keepdims=True)),
    ("linalg_norm.ord_str", (CUBE,), {"ord": "nuc", "dim": [2, 1]},
     np.linalg.norm(CUBE, "nuc", (2, 1))),
    ("linalg_norm.default", (CUBE,), {}, np.linalg.norm(CUBE)),
    ("linalg_norm.default", (V,), {"ord": 3}, np.linalg.norm(V, 3)),
    ("take.default", (X, PLACES), {}, X.ravel()[PLACES]),
    ("hypot.default", ([3e30, INF, NAN], [4e30, NAN, INF]), {}, [5e30, INF, INF]),
    ("copysign.Scalar", (INTS,), {"other": -0.0}, -np.abs(INTS)),
    ("signbit.default", ([0.0, -0.0, -INF],), {}, [False, True, True]),
    ("heaviside.default", ([-1.0, 0, 2], [0.5, 0.5, 0.5]), {}, [0, 0.5, 1]),
    ("ldexp.Tensor", (V, INTS), {}, np.ldexp(V, INTS)),
    ("logaddexp2.default", (X, V), {}, np.logaddexp2(X, V)),
    ("isclose.default", ([1.0, INF, NAN], [1.0 + 1e-6, INF, NAN]), {"equal_nan": True},
     [True, True, True]),
    ("isclose.default", ([1.0, INF, NAN], [1.1, -INF, NAN]), {}, [False, False, False]),
    ("rad2deg.default", (V,), {}, np.rad2deg(V)),
    ("special_ndtr.default", ([-INF, 0.0, INF],), {}, [0, 0.5, 1]),
    ("special_entr.default", ([0.0, 1, -1],), {}, [0, 0, -INF]),
    ("special_xlog1py.default", ([0.0, 0, 1], [-1.0, NAN, 1]), {}, [0, NAN, np.log(2)]),
    ("isneginf.default", ([-INF, INF, 0],), {}, [True, False, False]),
    ("mvlgamma.default", ([3.0],), {"p": 2}, [np.log(np.pi) / 2 + np.log(2) + 0.284682870472919]),
    ("upsample_nearest1d.vec", (CUBE,), {"output_size": [8]}, CUBE.repeat(2, 2)),
    ("_upsample_nearest_exact1d.vec", (CUBE,), {"output_size": [3]}, CUBE[:, :, [0, 2, 3]]),
    ("upsample_nearest3d.vec", (CUBE[None, None],), {"output_size": [2, 3, 8]},
     CUBE[None, None].repeat(2, 4)),
    ("pixel_unshuffle.default", (floats(1, 4, 4),), {"downscale_factor": 2}, None),
]  # fmt: skip


def _wanted(name: str, given: tuple[Any, ...]) -> Any:
    """What numpy says in more than a line."""
    if name.startswith("tensordot"):
        return np.tensordot(given[0], given[1], ([0, 2], [1, 0]))
    if name.startswith("addbmm"):
        return (given[1] @ given[2]).sum(0)
    image = given[0]
    return np.stack([image[0, i::2, j::2] for i in (0, 1) for j in (0, 1)])


def _flat(name: str, given: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """An operator of a list as one of its elements."""
    if not isinstance(given[0], list) or not isinstance(given[0][0], np.ndarray):
        return name, given
    return (lambda *each, **options: TABLE[f"aten.{name}"].rule(list(each), **options)), (
        *given[0],
    )


@pytest.mark.parametrize("place", range(len(CASES)), ids=lambda i: f"{i}-{CASES[i][0]}")
def test_it_is_what_numpy_computes(place: int) -> None:
    name, given, options, wanted = CASES[place]
    found = value(*_flat(name, given)[:1], *_flat(name, given)[1], **options)
    wanted = _wanted(name, given) if wanted is None else wanted
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=1e-5)
    assert found.shape == np.shape(wanted)


@pytest.mark.parametrize(
    ("name", "given", "wanted"),
    [
        ("tensor_split.sections", {"sections": 3, "dim": 1}, np.array_split(X, 3, 1)),
        ("tensor_split.indices", {"indices": [1, -1, 9], "dim": -1}, np.split(X, [1, 3, 9], 1)),
        ("hsplit.int", {"sections": 2}, np.hsplit(X, 2)),
        ("vsplit.array", {"indices": [2]}, np.vsplit(X, [2])),
    ],
)
def test_pieces_and_what_is_written_to_them(name: str, given: Any, wanted: Any) -> None:
    entry = TABLE[f"aten.{name}"]
    for place, piece in enumerate(wanted):
        found = value(lambda x, place=place: entry.rule(x, **given)[place], X)
        np.testing.assert_array_equal(found, piece)
        assert entry.put is not None
        new = np.zeros_like(piece)
        found = value(partial(entry.put, place=place, **given), X, new)
        parts = [new if i == place else one for i, one in enumerate(wanted)]
        axis = 0 if name.startswith("v") else 1
        np.testing.assert_array_equal(found, np.concatenate(parts, axis))


def test_what_is_written_to_a_diagonal() -> None:
    put = TABLE["aten.diagonal.default"].put
    assert put is not None
    new = np.zeros((3, 2), "float32")
    found = value(lambda x, y: put(x, y, offset=-1, dim1=2, dim2=0), CUBE, new)
    wanted = CUBE.copy()
    wanted[[0, 1], :, [1, 2]] = 0
    np.testing.assert_array_equal(found, wanted)
    gradient = slopes(lambda x, y: put(x, y, offset=-1, dim1=2, dim2=0), CUBE, new)
    np.testing.assert_array_equal(gradient[0], CUBE * 0 + (wanted == CUBE))
    np.testing.assert_array_equal(gradient[1], np.ones((3, 2)))


def test_what_is_put_counts_from_behind_too() -> None:
    found = value("put.default", X, np.array([0, -1]), np.array([5.0, 6.0], "float32"))
    assert (found[0, 0], found[2, 3]) == (5, 6)
    more = value("put.default", X, np.array([1, 1]), V[:2], accumulate=True)
    np.testing.assert_allclose(more[0, 1], X[0, 1] + V[0] + V[1], rtol=1e-6)


@pytest.mark.parametrize("dtype", ["int32", "uint8", "float32"])
@pytest.mark.parametrize("reduce", ["amax", "amin", "prod", "sum", "mean"])
def test_what_is_written_alone(reduce: str, dtype: str) -> None:
    """Elements that nothing is written to stay as they are."""
    x, source = np.array([9, 9, 9], dtype), np.array([4, 2, 6, 1], dtype)
    places = Constant(np.array([0, 0, 1, 0]))
    ways: dict[str, Callable[[Any], Any]] = {
        "amax": max,
        "amin": min,
        "prod": np.prod,
        "sum": sum,
        "mean": np.mean,
    }
    of_first = ways[reduce](source[[0, 1, 3]].tolist())
    wanted = np.array([of_first, 6, 9]).astype(dtype)
    rule = TABLE["aten.scatter_reduce.two"].rule
    options = {"dim": 0, "index": places, "reduce": reduce, "include_self": False}
    found = value(lambda y, s: rule(y, src=s, **options), x, source)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize(
    ("reduce", "wanted"), [("sum", [True, True, False]), ("prod", [False, True, False])]
)
def test_truth_values_that_are_written_together(reduce: str, wanted: list[bool]) -> None:
    places, rule = Constant(np.array([0, 0, 1])), TABLE["aten.scatter_reduce.two"].rule
    options = {"dim": 0, "index": places, "reduce": reduce}
    x, source = np.array([True, reduce == "prod", False]), np.array([True, False, True])
    np.testing.assert_array_equal(value(lambda y, s: rule(y, src=s, **options), x, source), wanted)
    put = value("put.default", x, np.array([0, 2]), source[:2], accumulate=True)
    np.testing.assert_array_equal(put, x)


@pytest.mark.parametrize(("include_self", "wanted"), [(True, [-1, -2, 9]), (False, [-4, -4, 9])])
def test_means_of_integers_are_rounded_down(include_self: bool, wanted: list[int]) -> None:
    places, rule = Constant(np.array([0, 0, 1])), TABLE["aten.scatter_reduce.two"].rule
    options = {"dim": 0, "index": places, "reduce": "mean", "include_self": include_self}
    x, source = np.array([4, 1, 9], "int32"), np.array([-5, -2, -4], "int32")
    np.testing.assert_array_equal(value(lambda y, s: rule(y, src=s, **options), x, source), wanted)


def test_a_diagonal_of_any_size() -> None:
    n = SymbolicVar("n")
    x = Var("x", TensorType((2, n, n), "float32"))
    rule, put = TABLE["aten.diagonal.default"].rule, TABLE["aten.diagonal.default"].put
    assert put is not None
    assert rule(x, dim1=1, dim2=2).ty == TensorType((2, n), "float32")
    with pytest.raises(ValueError, match="matrices of n columns"):
        put(x, tensor(2, n), dim1=1, dim2=2)


def test_the_numbers_of_a_diagonal_of_any_size() -> None:
    n = SymbolicVar("n")
    x, builder = Var("x", TensorType((n, n), "float32")), BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            found = builder.emit_output(TABLE["aten.diagonal.default"].rule(x, offset=-1))
        builder.emit_func_output(found)
    mod = Gradient("main", cotangent=True)(builder.get())
    np.testing.assert_array_equal(to_jax(mod, "main")(SQUARE), SQUARE.diagonal(-1))
    _, (slope,) = to_jax(mod, "main_adjoint")(SQUARE, V[:2])
    np.testing.assert_array_equal(slope, np.diag(V[:2], -1))


def test_the_dtype_of_integers_beside_floats() -> None:
    mod = program("kron.default", [INTS, V], {})
    assert mod["main"].ret_ty == TensorType((16,), "float32")
    found = to_jax(program("kron.default", [INTS > 0, INTS > 2], {}), "main")(INTS > 0, INTS > 2)
    assert found.dtype == "bool"


N = SymbolicVar("n")
REFUSED: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
    "fill_diagonal.default": ((tensor(3, 2), 1.0), {"wrap": True}, "of matrices alone"),
    "combinations.default": ((tensor(N),), {}, "the sets of elements of n"),
    "tensor_split.sections": ((tensor(N), 3), {}, "an axis of n is cut into 3 parts"),
    "cross.default": ((tensor(2, 4), tensor(2, 4)), {}, "has the length 3: give `dim`"),
    "pdist.default": ((tensor(N, 2),), {}, "all pairs of n rows"),
}  # fmt: skip


@pytest.mark.parametrize("target", REFUSED)
def test_a_piece_is_refused_with_its_reason(target: str) -> None:
    given, options, message = REFUSED[target]
    with pytest.raises(ValueError, match=re.escape(message)):
        TABLE[f"aten.{target}"].rule(*given, **options)
