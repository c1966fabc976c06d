"""Weights of dense layers handed in otherwise: transposed already, or as their blocks."""

from typing import Any

import numpy as np
import pytest
from parsing import parse_flow, parse_functions, parse_main
from same_results import drawn_arguments, results

from relaxjax.ir import IRModule, assert_structural_equal
from relaxjax.passes import (
    DenseToSparse,
    Gradient,
    SimplifyFCTranspose,
    process_params,
    search_fc_transpose,
)

DENSE = parse_flow(
    """
    w1 = R.permute_dims(w)
    a = R.matmul(x, w1)
    v1 = R.permute_dims(v, axes=[1, 0])
    gv = R.add(R.matmul(a, v1), R.matmul(a, v))
    """,
    x=(2, 6),
    w=(4, 6),
    v=(4, 4),
)


def test_a_weight_is_taken_transposed() -> None:
    body = """
        a = R.matmul(x, w_t)
        v1 = R.permute_dims(v, axes=[1, 0])
        gv = R.add(R.matmul(a, v1), R.matmul(a, v))
    """
    after = parse_flow(body, x=(2, 6), w_t=(6, 4), v=(4, 4))
    names = search_fc_transpose(DENSE["main"])
    assert names == ["w"]
    found = SimplifyFCTranspose(names)(DENSE)
    assert_structural_equal(found, after)
    assert [param.name for param in found["main"].params] == ["x", "w_t", "v"]
    assert SimplifyFCTranspose(names)(found) is found
    x, w, v = drawn_arguments(DENSE["main"])
    expected = results(DENSE, "main", [x, w, v])
    np.testing.assert_allclose(results(found, "main", [x, w.T, v]), expected, rtol=1e-5)


def test_a_weight_that_is_read_otherwise_too_is_refused() -> None:
    for name in ("v", "x"):
        match = (
            f"names `{name}`, which is no parameter .* that is read transposed only; there are `w`"
        )
        with pytest.raises(ValueError, match=match):
            SimplifyFCTranspose(["w", name])(DENSE)
    assert SimplifyFCTranspose()(DENSE) is DENSE


def test_the_adjoint_of_a_transposed_weight_is_transposed() -> None:
    scalar = parse_flow(
        "gv = R.sum(R.exp(R.matmul(x, R.permute_dims(w))))\nreturn gv", x=(2, 6), w=(4, 6)
    )
    x, w = drawn_arguments(scalar["main"])
    _, (_, expected) = results(Gradient("main")(scalar), "main_adjoint", [x, w])
    after = Gradient("main")(SimplifyFCTranspose(["w"])(scalar))
    _, (_, found) = results(after, "main_adjoint", [x, w.T])
    np.testing.assert_allclose(found.T, expected, rtol=1e-5)


def mostly_zero(rows: int, columns: int, block: tuple[int, int], seed: int = 0) -> Any:
    """A matrix of which one block in eight is not zero."""
    random = np.random.default_rng(seed)
    grid = (rows // block[0], block[0], columns // block[1], block[1])
    used = np.zeros(grid[::2], bool)
    used.flat[random.permutation(used.size)[: used.size // 8]] = True
    values = random.normal(size=grid) * used[:, None, :, None]
    return values.reshape(rows, columns).astype("float32")


PAIR = parse_flow("""
    a = R.nn.relu(R.matmul(x, w))
    v1 = R.permute_dims(v)
    b = R.matmul(a, v1)
    gv = R.matmul(b, u)
    """, x=(3, 64), w=(64, 32), v=(64, 32), u=(64, 8))  # fmt: skip


@pytest.mark.parametrize("block", [(16, 16), (4, 2)])
def test_sparse_weights(block: tuple[int, int]) -> None:
    """Of weights as they are and transposed; a dense one stays."""
    random = np.random.default_rng(1)
    x, u = (random.normal(size=shape).astype("float32") for shape in ((3, 64), (64, 8)))
    params = {"w": mostly_zero(32, 64, block).T, "v": mostly_zero(64, 32, block), "u": u}
    sparse = process_params(PAIR["main"], params, block)
    assert sparse.weight_name == ["w", "v"]
    module = DenseToSparse(sparse.weight_name, sparse.weight_shape)(PAIR)
    names = [param.name for param in module["main"].params]
    assert names == ["x", *(f"{w}_{p}" for w in "wv" for p in ("data", "indices", "indptr")), "u"]
    expected = results(PAIR, "main", [x, *params.values()])
    found = results(module, "main", [x, *sparse.params.values()])
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    options = sparse.weight_name, sparse.weight_shape
    assert DenseToSparse(*options)(module) is module


def test_the_text_of_a_sparse_layer() -> None:
    before = parse_main("y = R.matmul(x, w)\nreturn y", x=(8, 64), w=(64, 32))
    after = parse_main(
        "y = R.nn.sparse_dense(x, d, i, p)\nreturn y",
        x=(8, 64),
        d=(2, 16, 16),
        i='R.Tensor((2,), "int32")',
        p='R.Tensor((3,), "int32")',
    )
    shapes = [[(2, 16, 16), (2,), (3,)]]
    assert_structural_equal(DenseToSparse(["w"], shapes)(before), after)
    assert DenseToSparse()(before) is before


def test_sparse_layers_are_trained_in_their_blocks() -> None:
    """The adjoint of the blocks is that of the weight, at the places of the blocks."""
    scalar = parse_flow("gv = R.sum(R.sin(R.matmul(x, w)))\nreturn gv", x=(3, 64), w=(64, 32))
    x = drawn_arguments(scalar["main"])[0]
    weight = mostly_zero(32, 64, (16, 16)).T
    sparse = process_params(scalar["main"], {"w": weight}, (16, 16))
    module = DenseToSparse(sparse.weight_name, sparse.weight_shape)(scalar)
    dense = results(Gradient("main")(scalar), "main_adjoint", [x, weight])
    require = module["main"].params[:2]
    adjoint = Gradient("main", require)(module)
    found = results(adjoint, "main_adjoint", [x, *sparse.params.values()])
    np.testing.assert_allclose(found[0], dense[0], rtol=1e-4)
    np.testing.assert_allclose(found[1][0], dense[1][0], rtol=1e-4, atol=1e-4)
    used = mostly_zero(32, 64, (16, 16)) != 0
    at_blocks = np.asarray(dense[1][1]).T[used]
    np.testing.assert_allclose(
        np.sort(np.ravel(found[1][1])), np.sort(at_blocks), rtol=1e-3, atol=1e-4
    )


def test_what_is_not_sparse_enough_stays() -> None:
    random = np.random.default_rng(0)
    params = {"w": random.normal(size=(64, 32)).astype("float32")}
    sparse = process_params(PAIR["main"], params, (16, 16))
    assert sparse.weight_name == []
    assert list(sparse.params) == ["w"]
    odd = process_params(PAIR["main"], {"w": np.zeros((64, 32), "float32")}, (5, 16))
    assert odd.weight_name == []


UNFIT = (
    "`weight_name` names `w`, which is no weight that is read as .* of floats only; there are none"
)


def test_a_weight_that_is_read_otherwise_is_refused() -> None:
    module: IRModule = parse_main(
        "y = R.matmul(R.matmul(x, w), R.exp(w))\nreturn y", x=(3, 64), w=(64, 64)
    )
    with pytest.raises(ValueError, match=UNFIT):
        DenseToSparse(["w"], [[(2, 16, 16), (2,), (5,)]])(module)


@pytest.mark.parametrize(
    ("data", "weight", "out"),
    [("int8", "int8", "int32"), ("float16", "float16", "float32"), ("int8", "int8", "int8")],
)
def test_a_product_that_is_added_up_in_another_dtype_is_refused(
    data: str, weight: str, out: str
) -> None:
    """Products of blocks are added up in the dtype of the data, which they may overflow."""
    module: IRModule = parse_functions(f"""
        @R.function
        def main(x: R.Tensor((3, 64), "{data}"), w: R.Tensor((64, 64), "{weight}")):
            y = R.matmul(x, w, out_dtype="{out}")
            return y
        """)
    found = process_params(module["main"], {"w": np.zeros((64, 64), weight)}, (16, 16))
    assert found.weight_name == []
    with pytest.raises(ValueError, match=UNFIT):
        DenseToSparse(["w"], [[(2, 16, 16), (2,), (5,)]])(module)


@pytest.mark.parametrize("block", [(0, 2), (-2, 2), (2,), 3, (2.0, 2)])
def test_what_is_no_size_of_blocks(block: Any) -> None:
    with pytest.raises(ValueError, match="`block_size` must be two lengths above 0, found"):
        process_params(PAIR["main"], {}, block)


def test_options_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="of each of the 1 weights in `weight_name`, found 0"):
        DenseToSparse(["w"])(PAIR)
    with pytest.raises(ValueError, match="must have three shapes for `w`, of its blocks"):
        DenseToSparse(["w"], [[(2, 16, 16)]])(PAIR)


def test_packed_weights_are_whole_on_each_device_of_their_mesh() -> None:
    """The dimensions that were parted are gone."""
    mod = parse_functions("""
    I.module_global_infos({"mesh": [R.device_mesh((2, 2), I.Range(0, 4))]})

    @R.function
    def main(
        x: R.Tensor((4, 32), "float32"), w: R.DTensor((32, 64), "float32", "mesh[0]", "R, S[1]")
    ):
        y = R.matmul(x, w)
        z = R.dist.annotate_sharding(y, "mesh[0]", "R, S[1]")
        return z
""")
    found = DenseToSparse(["w"], [[(2, 16, 16), (2,), (5,)]])(mod)
    assert found.script().count('"mesh[0]", "R, R")') == 3
    assert 'R.dist.annotate_sharding(y, device_mesh="mesh[0]", placement="R, S[1]")' in (
        found.script()
    )
