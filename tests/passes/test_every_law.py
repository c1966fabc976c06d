"""Every law of every table, by itself: it applies to its samples, whose values stay the same."""

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

import algebra_cases
import chex
import jax
import numpy as np
import pytest
import raising_cases
from parsing import parse_functions

import relaxjax.passes
from relaxjax import Function, IRModule, TensorType, to_jax
from relaxjax.ir.laws import Law, Laws
from relaxjax.ir.rewriting import fixed_point

MATRICES = ", ".join(f'{name}: R.Tensor((2, 2), "float32")' for name in "abcd")
STACK = 'x: R.Tensor((2, 1, 3), "float32"), w: R.Tensor((4, 3, 5), "float32")'

FACTORS = (
    'a: R.Tensor((1, 4), "float32"), b: R.Tensor((4, 4), "float32"), c: R.Tensor((4, 4), "float32")'
)

ROWS = (
    'g: R.Tensor((3, 2), "float32"), h: R.Tensor((2, 2, 2), "bfloat16"), '
    's: R.Tensor((), "float32"), x: R.Tensor((5, 2), "float32"), i: R.Tensor((3,), "int32"), '
    'j: R.Tensor((2, 2), "int32")'
)
ROWS_OF_G = "r = R.grad.rows(g, i, (5, 2))"
ROWS_OF_H = 't = R.grad.rows(h, R.const([[3, 1], [0, 4]], "int32"), (5, 2))'
SCATTER = (
    'dimension_numbers={"ScatterDimensionNumbers": {"update_window_dims": [1], '
    '"inserted_window_dims": [0], "scatter_dims_to_operand_dims": [0], '
    '"operand_batching_dims": [], "scatter_indices_batching_dims": []}}, '
    "indices_are_sorted=False, unique_indices=False, mode={'GatherScatterMode': 'CLIP'}"
)

OWN = (
    'x: R.Tensor((2, 3, 4), "float32"), i: R.Tensor((3, 1), "int32"), '
    'g: R.Tensor((3, 4), "float32")'
)
PAIRS = [
    'k = L.iota(dtype="int32", shape=[3, 1], dimension=0)',
    "p = L.concatenate(i, k, dimension=1)",
]
OF_PAIRS = (
    'dimension_numbers={"GatherDimensionNumbers": {"offset_dims": [1], '
    '"collapsed_slice_dims": [0, 1], "start_index_map": [0, 1], '
    '"operand_batching_dims": [], "start_indices_batching_dims": []}}, slice_sizes=[1, 1, 4], '
    "unique_indices=False, indices_are_sorted=False, mode={'GatherScatterMode': 'CLIP'}"
)
TO_PAIRS = SCATTER.replace('_dims": [0]', '_dims": [0, 1]').replace(
    'operand_dims": [0]', 'operand_dims": [0, 1]'
)

# Laws that are no laws of algebra and of RaiseOps: parameters, and lines that end in `y`.
OTHERS = {
    "by_shape": [(MATRICES, ["y = R.ones_like(a)"]), (MATRICES, ["y = R.zeros_like(b)"])],
    "joined_casts": [
        ('x: R.Tensor((3,), "int8")', ['w = R.astype(x, "int32")', 'y = R.astype(w, "float32")'])
    ],
    "reshaped_once": [
        (MATRICES, ["y = R.reshape(a, (2, 2))"]),
        (MATRICES, ["r = R.reshape(a, (4,))", "y = R.reshape(r, (1, 4))"]),
    ],
    "permuted_after_concat": [
        (
            MATRICES,
            ["p = R.permute_dims(a)", "q = R.permute_dims(b)", "y = R.concat((p, q), axis=0)"],
        )
    ],
    "taken_after_product": [
        (STACK, ['t = R.take(w, R.const([3, 1], "int32"), axis=0)', "y = R.matmul(x, t)"]),
        (MATRICES, ['t = R.take(b, R.const([1, 0, 1], "int32"), axis=1)', "y = R.matmul(a, t)"]),
    ],
    "multiplied_once": [
        (MATRICES, ['t = R.take(b, R.const([1, 0, 1, 1], "int32"), axis=0)', "y = R.matmul(t, a)"]),
        (MATRICES, ["t = R.broadcast_to(b, (2, 2, 2))", "y = R.matmul(t, a)"]),
    ],
    "product_of_matrices": [
        (
            'a: R.Tensor((32, 1, 16), "float32"), b: R.Tensor((1, 32, 16), "float32")',
            ["p = L.mul(a, b)", "y = L.reduce_sum(p, axes=[2])"],
        )
    ],
    "sum_over_batch": [
        (
            'a: R.Tensor((8, 4), "float32"), b: R.Tensor((8, 3), "float32")',
            [
                "p = L.dot_general(a, b, dimension_numbers=[[[], []], [[0], [0]]])",
                "y = L.reduce_sum(p, axes=[0])",
            ],
        )
    ],
    "narrow_product": [
        (
            'a: R.Tensor((128, 128), "float32"), b: R.Tensor((128, 3), "float32")',
            ["y = L.dot_general(a, b, dimension_numbers=[[[0], [0]], [[], []]])"],
        )
    ],
    "reduction_of_slices": [
        ('a: R.Tensor((8192, 2), "float32")', ["y = L.reduce_sum(a, axes=[1])"]),
        ('a: R.Tensor((37, 17000), "float32")', ["y = L.reduce_max(a, axes=[0])"]),
    ],
    "small_products": [
        (
            'a: R.Tensor((256, 4, 4), "float32"), b: R.Tensor((256, 4, 4), "float32")',
            ["y = L.dot_general(a, b, dimension_numbers=[[[2], [1]], [[0], [0]]])"],
        )
    ],
    "product_with_sum": [(MATRICES, ["s = R.add(b, c)", "y = R.matmul(a, s)"])],
    "product_in_order": [(FACTORS, ["p = R.matmul(b, c)", "y = R.matmul(a, p)"])],
    "rows_of_take": [
        (ROWS, ["y = R.grad.take_backward(g, x, i, axis=0)"]),
        (ROWS, ["k = R.subtract(i, R.const(9, 'int32'))", "y = R.grad.take_backward(g, x, k, 0)"]),
    ],
    "rows_of_scatter": [
        (
            ROWS,
            [
                'z = R.zeros((5, 2), "float32")',
                "k = R.reshape(i, (3, 1))",
                f"y = L.scatter_add(z, k, g, {SCATTER})",
            ],
        )
    ],
    "added_rows": [
        (ROWS, [ROWS_OF_G, "t = R.grad.rows(R.multiply(g, s), i, (5, 2))", "y = R.add(r, t)"]),
        (
            ROWS,
            [ROWS_OF_G, 't = R.grad.rows(R.astype(h, "float32"), j, (5, 2))', "y = L.add(t, r)"],
        ),
    ],
    "scaled_rows": [
        (ROWS, [ROWS_OF_G, "y = R.multiply(s, r)"]),
        (ROWS, [ROWS_OF_G, "y = R.divide(r, s)"]),
        (ROWS, [ROWS_OF_G, "w = R.broadcast_to(s, (5, 2))", "y = L.mul(r, w)"]),
    ],
    "negative_rows": [(ROWS, [ROWS_OF_G, "y = R.negative(r)"])],
    "gather_of_own_rows": [(OWN, [*PAIRS, f"y = L.gather(x, p, {OF_PAIRS})"])],
    "scatter_to_own_rows": [
        (OWN, [*PAIRS, f"y = L.scatter{kind}(x, p, g, {TO_PAIRS})"])
        for kind in ("", "_add", "_mul", "_min", "_max")
    ],
    "cast_rows": [
        (ROWS, [ROWS_OF_H, 'y = R.astype(t, "float32")']),
        (ROWS, [ROWS_OF_G, 'y = R.astype(r, "float16")']),
    ],
}


def every_law() -> dict[str, Law]:
    """The laws in all modules of passes, those too that are made for the weights of a function."""
    found: dict[str, Law] = {}
    for info in pkgutil.walk_packages(relaxjax.passes.__path__, "relaxjax.passes."):
        module = importlib.import_module(info.name)
        own = [value for value in vars(module).values() if isinstance(value, Law | Laws)]
        if hasattr(module, "laws"):
            own.append(module.laws(frozenset()))
        for value in own:
            for law in value if isinstance(value, Laws) else [value]:
                assert found.setdefault(law.name, law).write.__code__ is law.write.__code__
                found[law.name] = law
    return found


LAWS = every_law()


def samples() -> Iterator[tuple[str, IRModule]]:
    for name, cases in algebra_cases.CASES.items():
        for before, _ in cases:
            yield name, algebra_cases.program(before)
    for case, (params, lines, _) in raising_cases.CASES.items():
        yield case.partition(",")[0], parse_functions(raising_cases.text(params, lines))
    for name, others in OTHERS.items():
        for params, lines in others:
            yield name, parse_functions(raising_cases.text(params, lines))


SAMPLES = list(samples())


def drawn(function: Function) -> list[Any]:
    """Arguments for a function: numbers from a normal distribution, or 0 and 1."""
    random, arrays = np.random.default_rng(0), []
    for param in function.params:
        assert isinstance(param.ty, TensorType)
        shape = [int(dim) for dim in param.ty.dims or ()]
        whole = str(param.ty.dtype).startswith("int")
        array = random.integers(0, 2, shape) if whole else random.normal(size=shape)
        arrays.append(array.astype(str(param.ty.dtype)))
    return arrays


def test_every_law_has_samples() -> None:
    assert set(LAWS) == {name for name, _ in SAMPLES}


@pytest.mark.parametrize(("name", "module"), SAMPLES, ids=lambda item: str(item)[:30])
def test_a_law_keeps_values(name: str, module: IRModule) -> None:
    function = module["main"]
    changed = fixed_point(function, Laws([LAWS[name]]))
    assert changed is not function
    args = drawn(function)
    with jax.enable_x64("float64" in module.script()):
        values = [to_jax(m, "main")(*args) for m in (module.with_function("main", changed), module)]
    chex.assert_trees_all_close(*values, rtol=2e-5, atol=2e-5)
