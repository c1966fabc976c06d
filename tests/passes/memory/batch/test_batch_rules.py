"""What an operator gives of a part of the batch is the part of what it gives of the whole batch."""

from typing import Any

import chex
import numpy as np
import pytest
from parsing import parse_main

from relaxjax.ir.module import IRModule
from relaxjax.lowering import to_jax
from relaxjax.passes import SplitBatch

ROWS, IMAGES = (4, 6), (4, 5, 5, 2)
WINDOWS = (
    "window_dimensions=[1, 2, 2, 1], window_strides=[1, 2, 2, 1], "
    "padding=[[0, 0], [0, 1], [1, 0], [0, 0]], base_dilation=[1, 1, 1, 1], "
    "window_dilation=[1, 1, 1, 1]"
)


def convolved(data: str, kernel: str, specs: tuple[str, str, str], more: str = "") -> str:
    names = ("lhs_spec", "rhs_spec", "out_spec")
    told = ", ".join(f'"{name}": {spec}' for name, spec in zip(names, specs, strict=True))
    return (
        f"L.conv_general_dilated({data}, {kernel}, window_strides=[1, 1], "
        f"padding=[[1, 1], [1, 1]], lhs_dilation=[1, 1], rhs_dilation=[1, 1], "
        f'dimension_numbers={{"ConvDimensionNumbers": {{{told}}}}}, '
        f"{more or 'feature_group_count=1, batch_group_count=1'})"
    )


def product(left: str, right: str, summed: str, batch: str = "[[], []]") -> str:
    return f"L.dot_general({left}, {right}, dimension_numbers=[{summed}, {batch}])"


def picked(table: str, places: str, **numbers: Any) -> str:
    found: dict[str, Any] = {
        "offset_dims": [],
        "collapsed_slice_dims": [],
        "start_index_map": [],
        "operand_batching_dims": [],
        "start_indices_batching_dims": [],
    }
    sizes = numbers.pop("sizes")
    told = str(found | numbers).replace("'", '"')
    return (
        f'L.gather({table}, {places}, dimension_numbers={{"GatherDimensionNumbers": {told}}}, '
        f"slice_sizes={sizes}, unique_indices=False, indices_are_sorted=False, "
        'mode={"GatherScatterMode": "CLIP"})'
    )


def put(name: str, table: str, places: str, numbers_at: str, **numbers: Any) -> str:
    found: dict[str, Any] = {
        "update_window_dims": [],
        "inserted_window_dims": [],
        "scatter_dims_to_operand_dims": [],
        "operand_batching_dims": [],
        "scatter_indices_batching_dims": [],
    }
    told = str(found | numbers).replace("'", '"')
    return (
        f"L.{name}({table}, {places}, {numbers_at}, "
        f'dimension_numbers={{"ScatterDimensionNumbers": {told}}}, indices_are_sorted=False, '
        'unique_indices=False, mode={"GatherScatterMode": "CLIP"})'
    )


ZEROS = 'z = L.broadcast_in_dim(R.const(0.0, "float32"), shape={}, broadcast_dimensions=[])\n'
OF_ROWS = {"offset_dims": [1], "collapsed_slice_dims": [0], "start_index_map": [0]}
TO_ROWS = {
    "update_window_dims": [1],
    "inserted_window_dims": [0],
    "scatter_dims_to_operand_dims": [0],
}
OWN = {"operand_batching_dims": [0], "start_indices_batching_dims": [0]}
OWN_TO = {"operand_batching_dims": [0], "scatter_indices_batching_dims": [0]}

# The last value of each body, of `x` and others, whose samples are along the first axis.
SPLIT: dict[str, tuple[str, dict[str, Any]]] = {
    "elementwise": ("y = L.mul(L.sin(x), w)", {"x": ROWS, "w": (1, 6)}),
    "a whole of as many rows": ("y = L.add(x, w)", {"x": ROWS, "w": ROWS}),
    "by a number": ('y = L.mul(x, R.const(2.0, "float32"))', {"x": ROWS}),
    "a choice": ("y = L.select_n(L.lt(x, w), x, L.neg(x))", {"x": ROWS, "w": ROWS}),
    "several at once": ("y = L.optimization_barrier(x, L.neg(x))", {"x": ROWS}),
    "broadcast": (
        "y = L.broadcast_in_dim(x, shape=[3, 4, 6, 2], broadcast_dimensions=[1, 2])",
        {"x": ROWS},
    ),
    "reshape": ("y = L.reshape(x, new_sizes=[4, 2, 3])", {"x": (4, 6)}),
    "reshape of steps": (
        "y = L.reshape(L.transpose(x, permutation=[1, 0, 2]), new_sizes=[12, 2])",
        {"x": (4, 3, 2)},
    ),
    "back from steps": (
        (
            "f = L.reshape(L.transpose(x, permutation=[1, 0, 2]), new_sizes=[12, 2])\n"
            "y = L.reshape(L.exp(f), new_sizes=[3, 4, 2])"
        ),
        {"x": (4, 3, 2)},
    ),
    "a whole of flattened steps": (
        "y = L.add(L.reshape(L.transpose(x, permutation=[1, 0, 2]), new_sizes=[12, 2]), w)",
        {"x": (4, 3, 2), "w": (12, 2)},
    ),
    "squeeze": ("y = L.squeeze(x, dimensions=[1])", {"x": (4, 1, 3)}),
    "sums of rows": ("y = L.reduce_sum(x, axes=[1])", {"x": ROWS}),
    "a sum of samples": ("y = L.reduce_sum(x, axes=[0])", {"x": ROWS}),
    "a maximum": ("y = L.reduce_max(x, axes=[1])", {"x": ROWS}),
    "the place of one": ('y = L.argmax(x, axes=[1], index_dtype="int32")', {"x": ROWS}),
    "cumulative": ("y = L.cumsum(x, axis=1, reverse=True)", {"x": ROWS}),
    "sorted": ("y = L.sort(x, dimension=1, is_stable=True, num_keys=1)", {"x": ROWS}),
    "largest": ("y = L.top_k(x, k=2, axis=1)", {"x": ROWS}),
    "split": ("y = L.split(x, sizes=[2, 4], axis=1)", {"x": ROWS}),
    "unstack": ("y = L.unstack(x, axis=1)", {"x": (4, 2)}),
    "stack before": ("y = L.stack(x, L.neg(x), axis=0)", {"x": ROWS}),
    "stack behind": ("y = L.stack(x, L.neg(x), axis=2)", {"x": ROWS}),
    "concatenate": ("y = L.concatenate(x, w, L.neg(x), dimension=1)", {"x": ROWS, "w": (4, 1)}),
    "slice": (
        "y = L.slice(x, start_indices=[0, 1], limit_indices=[4, 6], strides=[1, 2])",
        {"x": ROWS},
    ),
    "pad": (
        'y = L.pad(x, R.const(1.0, "float32"), padding_config=[[0, 0, 0], [1, 2, 1]])',
        {"x": ROWS},
    ),
    "rev": ("y = L.rev(x, dimensions=[1])", {"x": ROWS}),
    "dynamic slice": (
        'y = L.dynamic_slice(x, R.const(0, "int32"), R.const(2, "int32"), slice_sizes=[4, 3])',
        {"x": ROWS},
    ),
    "dynamic write": (
        'y = L.dynamic_update_slice(w, x, R.const(0, "int32"), R.const(2, "int32"))',
        {"x": (4, 2), "w": ROWS},
    ),
    "waves": (
        'y = L.real(L.fft(L.complex(x, x), fft_type={"FftType": "FFT"}, fft_lengths=[6]))',
        {"x": ROWS},
    ),
    "windows": (f"y = L.reduce_window_max(x, {WINDOWS})", {"x": IMAGES}),
    "sums of windows": (f"y = L.reduce_window_sum(x, {WINDOWS})", {"x": IMAGES}),
    "product": (f"y = {product('x', 'w', '[[1], [0]]')}", {"x": ROWS, "w": (6, 3)}),
    "product from the right": (f"y = {product('w', 'x', '[[0], [1]]')}", {"x": ROWS, "w": (6, 3)}),
    "a gradient of weights": (
        f"y = {product('x', 'L.sin(x)', '[[0], [0]]')}",
        {"x": ROWS},
    ),
    "a sum over a whole": (f"y = {product('w', 'x', '[[0], [0]]')}", {"x": ROWS, "w": (4, 3)}),
    "products of samples": (
        f"y = {product('x', 'L.sin(x)', '[[2], [2]]', '[[0], [0]]')}",
        {"x": (4, 3, 5)},
    ),
    "samples and a whole": (
        f"y = {product('w', 'x', '[[2], [2]]', '[[1], [0]]')}",
        {"x": (4, 3, 5), "w": (2, 4, 5)},
    ),
    "convolution": (
        f"y = {convolved('x', 'w', ('[0, 3, 1, 2]', '[3, 2, 0, 1]', '[0, 3, 1, 2]'))}",
        {"x": IMAGES, "w": (3, 3, 2, 3)},
    ),
    "the gradient of a kernel": (
        f"y = {convolved('x', 'L.sin(x)', ('[3, 0, 1, 2]', '[3, 0, 1, 2]', '[2, 3, 0, 1]'))}",
        {"x": IMAGES},
    ),
    "samples for kernels": (
        f"y = {convolved('w', 'x', ('[0, 3, 1, 2]', '[0, 3, 1, 2]', '[0, 3, 1, 2]'))}",
        {"x": IMAGES, "w": (1, 5, 5, 2)},
    ),
    "rows of a table": (
        f"y = {picked('w', 'x', sizes=[1, 3], **OF_ROWS)}",
        {"x": ("int", (4, 1)), "w": (5, 3)},
    ),
    "rows of own tables": (
        "y = "
        + picked(
            "x",
            "p",
            sizes=[1, 1, 2],
            **OWN,
            offset_dims=[2],
            collapsed_slice_dims=[1],
            start_index_map=[1],
        ),
        {"x": (4, 5, 2), "p": ("int", (4, 3, 1))},
    ),
    "columns of samples": (
        "y = "
        + picked(
            "x", "p", sizes=[4, 1], offset_dims=[0], collapsed_slice_dims=[1], start_index_map=[1]
        ),
        {"x": ROWS, "p": ("int", (3, 1))},
    ),
    "rows that are added": (
        ZEROS.format([5, 3]) + f"y = {put('scatter_add', 'z', 'p', 'x', **TO_ROWS)}",
        {"x": (4, 3), "p": ("int", (4, 1))},
    ),
    "numbers in own rows": (
        "y = "
        + put(
            "scatter",
            "x",
            "p",
            "L.slice(x, start_indices=[0, 0], limit_indices=[4, 2])",
            **OWN_TO,
            inserted_window_dims=[1],
            scatter_dims_to_operand_dims=[1],
        ),
        {"x": ROWS, "p": ("int", (4, 2, 1))},
    ),
    "columns that are added": (
        "y = "
        + put(
            "scatter_add",
            "w",
            "p",
            "x",
            update_window_dims=[0],
            inserted_window_dims=[1],
            scatter_dims_to_operand_dims=[1],
        ),
        {"x": (4, 2), "w": ROWS, "p": ("int", (2, 1))},
    ),
    "each place of a row": (
        ZEROS.format([4])
        + 'p = L.iota(dtype="int32", shape=[4, 1], dimension=0)\n'
        + "y = "
        + put("scatter", "z", "p", "x", inserted_window_dims=[0], scatter_dims_to_operand_dims=[0]),
        {"x": (4,)},
    ),
    "what waits": ("y = R.grad.delay(x, L.sin(x))", {"x": ROWS}),
    "what is stored": ("y = R.grad.once(x)", {"x": ROWS}),
    "numbers of samples": (
        'n = L.iota(dtype="float32", shape=[4, 6], dimension=0)\ny = L.add(x, n)',
        {"x": ROWS},
    ),
    "numbers beside samples": (
        'n = L.iota(dtype="float32", shape=[4, 6], dimension=1)\ny = L.add(x, n)',
        {"x": ROWS},
    ),
    # Sums, and what is computed of them.
    "a sum that is moved": (
        (
            "s = L.reduce_sum(x, axes=[0])\n"
            "y = L.pad(L.rev(L.reshape(L.neg(s), new_sizes=[2, 3]), dimensions=[0]), "
            'R.const(0.0, "float32"), padding_config=[[0, 1, 0], [1, 0, 0]])'
        ),
        {"x": ROWS},
    ),
    "a sum times a whole": (
        f"s = L.reduce_sum(x, axes=[0])\ny = {product('s', 'w', '[[0], [0]]')}",
        {"x": ROWS, "w": (6, 3)},
    ),
    "a choice of sums": (
        "s = L.reduce_sum(x, axes=[0])\n"
        + ZEROS.format([6])
        + 'y = L.select_n(L.lt(w, R.const(0.0, "float32")), s, z)',
        {"x": ROWS, "w": (6,)},
    ),
    "sums side by side": (
        (
            "s = L.reduce_sum(x, axes=[0])\ny = L.split(L.stack(s, L.sub(s, s), axis=1), "
            "sizes=[1, 1], axis=1)"
        ),
        {"x": ROWS},
    ),
    "a function of a sum": (
        "s = L.reduce_sum(x, axes=[0])\ny = L.exp(L.mul(s, s))",
        {"x": ROWS},
    ),
    "a sum and a whole": ("s = L.reduce_sum(x, axes=[0])\ny = L.add(s, w)", {"x": ROWS, "w": (6,)}),
    "two results": (
        "s = L.reduce_sum(x, axes=[0])\ne = L.exp(x)\nreturn L.log(s), (e, s, w)",
        {"x": ROWS, "w": (6,)},
    ),
    "nothing of samples": ("y = L.sin(w)", {"x": ROWS, "w": (6,)}),
}


def module(body: str, types: dict[str, Any]) -> IRModule:
    told = {
        name: f'R.Tensor({of[1]}, "int32")' if of[0] == "int" else of for name, of in types.items()
    }
    return parse_main(body if "return" in body else f"{body}\nreturn y", **told)


def arguments(types: dict[str, Any]) -> list[Any]:
    rng = np.random.default_rng(0)
    return [
        rng.integers(0, 2, of[1]).astype("int32")
        if of[0] == "int"
        else rng.uniform(0.5, 1.5, of).astype("float32")
        for of in types.values()
    ]


def axes(types: dict[str, Any]) -> dict[str, int]:
    """Samples are along the first axis of `x`, and of places that are as many."""
    count = {"x", "p"} if types.get("p") and types["p"][1][0] == 4 else {"x"}
    return dict.fromkeys(count & set(types), 0)


@pytest.mark.parametrize(("body", "types"), SPLIT.values(), ids=SPLIT)
def test_a_part_is_computed_as_the_whole(
    body: str, types: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    mod, given = module(body, types), arguments(types)
    wanted = to_jax(mod, "main")(*given)
    monkeypatch.setattr("relaxjax.passes.memory.batch.reading._EARLY", 0)
    for parts in (2, 4):
        split = SplitBatch("main", parts, axes(types))(mod)
        chex.assert_trees_all_close(to_jax(split, "main")(*given), wanted, rtol=1e-5)


# Bodies in which samples are mixed, and the value that tells.
MIXED: dict[str, tuple[str, dict[str, Any], str]] = {
    "a mean that is taken off": (
        "s = L.reshape(L.reduce_sum(x, axes=[0]), new_sizes=[1, 6])\ny = L.sub(x, s)",
        {"x": ROWS},
        "y",
    ),
    "samples beside samples": (f"y = {product('x', 'x', '[[1], [1]]')}", {"x": ROWS}, "y"),
    "another axis of samples": (
        "y = L.add(x, L.transpose(x, permutation=[1, 0]))",
        {"x": (4, 4)},
        "y",
    ),
    "a maximum of samples": ("y = L.reduce_max(x, axes=[0])", {"x": ROWS}, "y"),
    "cumulative along samples": ("y = L.cumsum(x, axis=0, reverse=False)", {"x": ROWS}, "y"),
    "sorted samples": ("y = L.sort(x, dimension=0, is_stable=True, num_keys=1)", {"x": ROWS}, "y"),
    "half of the samples": (
        "y = L.slice(x, start_indices=[0, 0], limit_indices=[2, 6])",
        {"x": ROWS},
        "y",
    ),
    "samples in reverse": ("y = L.rev(x, dimensions=[0])", {"x": ROWS}, "y"),
    "more samples": (
        'y = L.pad(x, R.const(0.0, "float32"), padding_config=[[1, 0, 0], [0, 0, 0]])',
        {"x": ROWS},
        "y",
    ),
    "samples one after the other": ("y = L.concatenate(x, x, dimension=0)", {"x": ROWS}, "y"),
    "samples in two axes": ("y = L.reshape(x, new_sizes=[2, 2, 6])", {"x": ROWS}, "y"),
    "samples across others": ("y = L.reshape(x, new_sizes=[8, 3])", {"x": (6, 4)}, "y"),
    "split samples": ("y = L.split(x, sizes=[2, 2], axis=0)", {"x": ROWS}, "y"),
    "unstacked samples": ("y = L.unstack(x, axis=0)", {"x": ROWS}, "y"),
    "picked samples": (
        f"y = {picked('x', 'p', sizes=[1, 6], **OF_ROWS)}",
        {"x": ROWS, "p": ("int", (3, 1))},
        "y",
    ),
    "rows that are replaced": (
        ZEROS.format([5, 3]) + f"y = {put('scatter', 'z', 'p', 'x', **TO_ROWS)}",
        {"x": (4, 3), "p": ("int", (4, 1))},
        "y",
    ),
    "rows that are added to others": (
        f"y = {put('scatter_add', 'w', 'p', 'x', **TO_ROWS)}",
        {"x": (4, 3), "w": (5, 3), "p": ("int", (4, 1))},
        "y",
    ),
    "windows of samples": (
        (
            "y = L.reduce_window_sum(x, window_dimensions=[2, 1], window_strides=[1, 1], "
            "padding=[[0, 0], [0, 0]], base_dilation=[1, 1], window_dilation=[1, 1])"
        ),
        {"x": ROWS},
        "y",
    ),
    "waves of samples": (
        'y = L.real(L.fft(L.complex(x, x), fft_type={"FftType": "FFT"}, fft_lengths=[4, 6]))',
        {"x": ROWS},
        "gv1",
    ),
    "a square of a sum for a sample": (
        "s = L.reduce_sum(x, axes=[0, 1])\nt = L.mul(s, s)\ny = L.mul(x, t)",
        {"x": ROWS},
        "y",
    ),
    "whether any sample is so": (
        f"y = {product('x', 'x', '[[0], [0]]')}",
        {"x": 'R.Tensor((4, 3), "bool")'},
        "y",
    ),
    "an operator with no rule": (
        'y = L.clz(L.convert_element_type(x, new_dtype="int32"))',
        {"x": ROWS},
        "y",
    ),
}


@pytest.mark.parametrize(("body", "types", "name"), MIXED.values(), ids=MIXED)
def test_what_mixes_samples_is_an_error(
    body: str, types: dict[str, Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mod = module(body, types)
    monkeypatch.setattr("relaxjax.passes.memory.batch.reading._EARLY", 0)
    with pytest.raises(ValueError, match=f"in parts, because `{name}` is computed of several"):
        SplitBatch("main", 2, axes(types))(mod)
