"""What single operators of PyTorch are refused for, each with what to do or what is not known."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from refusals import t as tensor

from relaxjax.ir.dims import SymbolicVar
from relaxjax.torch.aten import TABLE
from relaxjax.torch.program import TensorMeta

N = SymbolicVar("n")


IMAGE, MASK, PLACES = tensor(2, 3, 7, 7), tensor(4, dtype="bool"), tensor(4, dtype="int64")
SCALE, SQUARE = tensor(3), tensor(3, 3)
LAYOUT = TensorMeta("float32", (3, 3), (3, 3), (3, 1), False)
BATCH_NORM = (IMAGE, SCALE, SCALE, None, None, False, 0.1, 1e-5, True)

CASES: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
    "scaled_dot_product_attention.default": (
        (tensor(2, 3, N),) * 3, {}, "heads of a symbolic width needs a `scale`"
    ),
    "arange.start_step": ((N, 0, -2), {}, "or backwards, of sizes that are not known"),
    "index.Tensor": ((tensor(4), [MASK]), {}, "as many elements as the mask is true at"),
    "index_put.default": (
        (tensor(4), [MASK], tensor(2)), {}, "different values at the places of a mask"
    ),
    "multi_margin_loss.default": ((tensor(4, 3), PLACES, 3), {}, "`p` is 1 or 2, found 3"),
    "one_hot.default": ((PLACES,), {}, "one_hot without a number of classes"),
    "batch_norm.default": (BATCH_NORM, {}, "running statistics, which are not given"),
    "instance_norm.default": (
        (IMAGE, SCALE, SCALE, None, None, False, 0.1, 1e-5), {}, "on running statistics, which are"
    ),
    "linalg_svd.default": (
        (tensor(3, 5),), {}, "has singular values for, whose directions are free: give `full_m"
    ),
    "svd.default": ((SQUARE,), {"compute_uv": False}, "write torch.linalg.svdvals"),
    "linalg_qr.default": ((SQUARE,), {"mode": "r"}, 'in PyTorch: give `mode="reduced"`'),
    "qr.default": (
        (tensor(5, 3),), {"some": False}, "columns beside those that a matrix of 5 rows"
    ),
    "linalg_lu.default": ((SQUARE,), {"pivot": False}, "without swapped rows: give `pivot=True`"),
    "lu_unpack.default": (
        (tensor(N, 3), PLACES), {}, "triangles of a matrix of n rows and 3 columns, which are not"
    ),
    "istft.default": (
        (tensor(9, 4, dtype="complex64"), 16), {"return_complex": True}, "a signal of complex"
    ),
    "pad.default": ((IMAGE, [1, 1], "mirror"), {}, 'no padding of the mode "mirror"'),
    "adaptive_max_pool2d.default": (
        (tensor(2, 3, N, 7), [3, 3]), {}, "lengths, from an axis of n to 3: export"
    ),
    "upsample_nearest2d.vec": (
        (tensor(1, 2, N, N), None, [1.5, 1.5]), {}, "an axis of n times 1.5 has no size"
    ),
    "linspace.default": (
        (0, 10, 5), {"dtype": "int64"}, "in int64, which PyTorch does not round alike everywhere"
    ),
    "linalg_householder_product.default": (
        (tensor(3, 3, dtype="complex64"), tensor(3, dtype="complex64")), {},
        "reflections of complex numbers are not there here"
    ),
    "lgamma.default": (
        (tensor(3, dtype="complex64"),), {}, "`lgamma` of complex numbers is not there here"
    ),
    "as_strided.default": (
        (SQUARE, [2, N], [3, 1]), {"layout": LAYOUT}, "by sizes or strides that are not known"
    ),
    "as_strided_copy.default": (
        (SQUARE, [2, 2], [3, 1], 8), {"layout": LAYOUT}, "it shows elements 8 to 12 of a tensor"
    ),
    "as_strided_scatter.default": (
        (SQUARE, SQUARE, [3, 3], [0, 1]), {"layout": LAYOUT}, "that is at several places: write to"
    ),
    "matrix_exp.default": (
        (tensor(3, 3, dtype="complex64"),), {}, "a matrix of complex numbers is not there here"
    ),
    "split.Tensor": ((tensor(N), 3), {}, "an axis of n is cut into pieces of 3"),
    "unbind.int": ((tensor(N, 2),), {}, "an axis of n is taken apart"),
}  # fmt: skip


@pytest.mark.parametrize("target", CASES)
def test_an_operator_is_refused_with_its_reason(target: str) -> None:
    given, options, message = CASES[target]
    rule: Callable[..., Any] = TABLE[f"aten.{target}"].rule
    with pytest.raises(ValueError, match=re.escape(message)):
        rule(*given, **options)


def test_memory_with_gaps_is_not_shown() -> None:
    layout = TensorMeta("float32", (3, 3), (3, 3), (6, 1), False)
    with pytest.raises(ValueError, match=re.escape("which has gaps or elements that are several")):
        TABLE["aten.as_strided.default"].rule(SQUARE, [2], [3], layout=layout)
