"""Sizes, views and losses of PyTorch."""

import types
from typing import Any

import numpy as np
import pytest
from refusals import t as variable

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Var
from relaxjax.ir.types import TensorType
from relaxjax.losses import CrossEntropyLoss, HuberLoss
from relaxjax.lowering import VirtualMachine, build
from relaxjax.torch import TorchImportError
from relaxjax.torch.aten import TABLE
from relaxjax.torch.aten.promotion import result_dtype
from relaxjax.torch.loss_modules import is_torch_loss, loss_of
from relaxjax.torch.sizes import Sizes
from relaxjax.torch.tensors import Tensor, View, is_view

N = "Symbol('s77', positive=True, integer=True)"


def test_sizes_are_read_as_dimensions() -> None:
    sizes = Sizes()
    n = sizes.dim(N)
    assert sizes.dim(f"Add(Mul(Integer(2), {N}), Integer(-1))") == n * 2 - 1
    assert sizes.dim(f"FloorDiv({N}, Integer(2))") == n // 2
    assert sizes.dim(f"Pow({N}, Integer(2))") == n * n
    assert sizes.dim(3) == 3


@pytest.mark.parametrize("text", ["__import__('os')", "Sin(Integer(1))", "Integer(1.5)"])
def test_other_sizes_are_refused(text: str) -> None:
    with pytest.raises(TorchImportError, match="is not read"):
        Sizes().dim(text)


def test_a_size_to_a_negative_power_is_refused() -> None:
    with pytest.raises(TorchImportError, match="to the power of -1"):
        Sizes().dim(f"Pow({N}, Integer(-1))")


@pytest.mark.parametrize(
    ("sizes", "strides", "wanted", "found"),
    [
        ((2, 3, 4), (12, 4, 1), (6, 4), True),
        ((2, 3, 4), (12, 4, 1), (2, 2, 3, 2), True),
        ((4, 3, 2), (1, 4, 12), (12, 2), False),
        ((3, 1, 4), (4, 99, 1), (12,), True),
        ((2, 3), (4, 1), (6,), False),
        ((2, -1), (4, 1), (8,), None),
    ],
)
def test_whether_a_shape_is_a_view(sizes: Any, strides: Any, wanted: Any, found: Any) -> None:
    assert is_view(sizes, strides, wanted) is found


def test_what_may_be_a_copy_is_not_read_after_a_write() -> None:
    base = Tensor(variable(2))
    part = View(base, variable(2), lambda x: x, lambda base, new: new, is_certain=False)
    base.write(variable(2))
    with pytest.raises(TorchImportError, match="may be a view of it or a copy"):
        part.read()


def test_nothing_is_written_to_a_view_whose_place_is_not_known() -> None:
    part = View(Tensor(variable(2)), variable(2), lambda x: x, None)
    with pytest.raises(TorchImportError, match="what is written to here is a view"):
        part.write(variable(2))


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ((variable(2, dtype="int64"), 1.5), "float32"),
        ((variable(2), variable(dtype="float64")), "float32"),
        ((variable(2, dtype="int32"), variable(dtype="int64")), "int32"),
        ((variable(2, dtype="float16"), variable(2, dtype="bfloat16")), "float32"),
        ((variable(2, dtype="uint8"), variable(2, dtype="int8")), "int16"),
        ((variable(2, dtype="bool"), 1), "int64"),
        ((variable(2, dtype="float16"), variable(2, dtype="int64")), "float16"),
    ],
)
def test_the_dtype_of_a_result(values: Any, dtype: str) -> None:
    assert result_dtype(*values) == dtype


def torch_loss(name: str, **options: Any) -> Any:
    """An object as torch makes one, as far as it is looked at."""
    kind = type(name, (types.SimpleNamespace,), {"__module__": "torch.nn.modules.loss"})
    return kind(**{"reduction": "mean", **options})


@pytest.mark.parametrize("name", ["upsample_nearest2d", "upsample_bilinear2d"])
def test_the_sizes_of_an_image_that_is_resized(name: str) -> None:
    rule, by_scales = TABLE[f"aten.{name}.default"].rule, TABLE[f"aten.{name}.vec"].rule
    image = Var("image", TensorType((1, 2, 5, 5), "float32"))
    by = rule(self=image, output_size=[7, 7], scales_h=1.5, scales_w=1.5)
    assert by.ty.dims == (1, 2, 7, 7)
    by = by_scales(input=image, output_size=None, scale_factors=[1.5, 1.5])
    assert by.ty.dims == (1, 2, 7, 7)
    assert rule(self=image, output_size=[10, 10], scales_h=2.0, scales_w=2.0).ty.dims == (
        1,
        2,
        10,
        10,
    )
    assert rule(self=image, output_size=[7, 7]).ty.dims == (1, 2, 7, 7)


def test_losses_of_torch_are_ours_with_the_same_options() -> None:
    smooth = torch_loss("CrossEntropyLoss", ignore_index=-1, label_smoothing=0.1, weight=None)
    assert loss_of(smooth) == CrossEntropyLoss(ignore_index=-1, label_smoothing=0.1)
    assert loss_of(torch_loss("HuberLoss", delta=2.0)) == HuberLoss(delta=2.0)
    assert is_torch_loss(smooth)
    assert not is_torch_loss(CrossEntropyLoss())


def test_a_loss_that_is_not_there() -> None:
    with pytest.raises(TypeError, match="there is no loss here for torch"):
        loss_of(torch_loss("LossOfMine"))
    with pytest.raises(TypeError, match="AdaptiveLogSoftmaxWithLoss: it has weights of its own"):
        loss_of(torch_loss("AdaptiveLogSoftmaxWithLoss"))
    with pytest.raises(TypeError, match=r"give relaxjax\.losses\.from_jax"):
        loss_of(torch_loss("TripletMarginWithDistanceLoss"))


@pytest.mark.parametrize(("dim", "axes"), [(0, (1,)), (1, (0,)), (-1, (0, 1))])
def test_weights_have_the_lengths_that_they_are_given(dim: int, axes: tuple[int, ...]) -> None:
    """-1 is for all axes together, as torch writes it."""
    v = np.arange(1.0, 7.0, dtype="float32").reshape(2, 3)
    lengths = np.sqrt((v * v).sum(axes, keepdims=True))
    params = [
        Var(name, TensorType(one.shape, "float32")) for name, one in (("v", v), ("g", lengths))
    ]
    builder = BlockBuilder()
    with builder.function("main", params):
        weight, norms = TABLE["aten._weight_norm_interface.default"].rule(*params, dim)
        same = TABLE["aten._weight_norm.default"].rule(*params, dim)
        builder.emit_func_output([weight, norms, same])
    found = VirtualMachine(build(builder.get()))["main"](v, 2 * lengths)
    for one, wanted in zip(found, (2 * v, lengths, 2 * v), strict=True):
        np.testing.assert_allclose(one, wanted, rtol=1e-6)
