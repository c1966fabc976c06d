"""RaiseOps: of which calls of `lax.*` it makes which of `relax.*`, each law in script."""

import pytest
from raising_cases import (
    CASES,
    CAUSAL,
    CONV,
    HEADS,
    IMAGES,
    NORM,
    NOTHINGS,
    OF_ROWS,
    PRECISE,
    ROWS,
    SHIFT,
    SHIFTED,
    SPREAD,
    text,
)
from rewriting import check_kept, check_rewrite

from relaxjax.passes import RaiseOps


@pytest.mark.parametrize("name", CASES)
def test_each_law(name: str) -> None:
    params, before, after = CASES[name]
    check_rewrite(RaiseOps(), text(params, before), text(params, after))


# Whatever might be rounded in another way, or be of something else.
OTHERS: dict[str, tuple[str, list[str]]] = {
    "precision": (IMAGES, [f"y = {CONV % ('[1, 1]', '[1, 1]', PRECISE)}"]),
    "spread and strided": (IMAGES, [f"y = {CONV % ('[2, 2]', '[2, 2]', '')}"]),
    "wider sums": (
        'x: R.Tensor((2, 3), "float16"), w: R.Tensor((3, 5), "float16")',
        [f"y = {OF_ROWS[:-1]}, preferred_element_type='float32')"],
    ),
    "another axis": (
        'x: R.Tensor((2, 3, 4), "float32"), w: R.Tensor((3, 5), "float32")',
        ["y = L.dot_general(x, w, dimension_numbers=[[[1], [0]], [[], []]])"],
    ),
    "axes in another order": (
        'x: R.Tensor((5, 2, 3), "float32"), w: R.Tensor((3, 2, 4), "float32")',
        ["y = L.dot_general(x, w, dimension_numbers=[[[2, 1], [0, 1]], [[], []]])"],
    ),
    "all axes of both": (
        'x: R.Tensor((2, 3), "float32"), w: R.Tensor((2, 3), "float32")',
        ["y = L.dot_general(x, w, dimension_numbers=[[[0, 1], [0, 1]], [[], []]])"],
    ),
    "a difference that repeats": (
        'x: R.Tensor((1, 5), "float32")',
        [f"z = {NOTHINGS % '[3, 5]'}", "y = L.sub(x, z)"],
    ),
    "powers over another number": (
        ROWS,
        [
            *SHIFTED,
            "other = L.broadcast_in_dim(top, shape=[3, 1], broadcast_dimensions=[0])",
            "y = L.div(power, other)",
        ],
    ),
    "a mean of another count": (
        NORM,
        [*(line.replace("5.0", "4.0") for line in SPREAD), SHIFT, "y = L.add(scaled, shift)"],
    ),
    "a mask of all before": (HEADS, [line.replace("L.ge", "L.gt") for line in CAUSAL]),
    "several in one order": (
        'x: R.Tensor((2, 3), "float32"), w: R.Tensor((2, 3), "float32")',
        ["both = L.sort(x, w, dimension=1, is_stable=True, num_keys=1)", "y = both[1]"],
    ),
    "whole numbers in order": (
        'x: R.Tensor((2, 3), "int32")',
        ["one = L.sort(x, dimension=1, is_stable=True, num_keys=1)", "y = one[0]"],
    ),
    "weights of other use": (
        HEADS,
        [
            *CAUSAL[:-1],
            f"z{CAUSAL[-1][1:]}",
            "s = L.reduce_sum(weights, axes=[3])",
            "u = L.broadcast_in_dim(s, shape=[2, 3, 4, 5], broadcast_dimensions=[0, 1, 2])",
            "y = L.add(z, u)",
        ],
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_others_are_left(name: str) -> None:
    check_kept(RaiseOps(), text(*OTHERS[name]))
