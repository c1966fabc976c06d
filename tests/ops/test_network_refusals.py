"""What the operators of neural networks refuse, what gradients refuse, and how they say it."""

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
from refusals import cases, i, t

from relaxjax.ir import Expr, PrimExpr, PrimType, ShapeExpr, TensorType, TupleType, Var
from relaxjax.ir.op import arguments, get_op
from relaxjax.ops import OpError


def nn(name: str, *args: Any, **attrs: Any) -> Expr:
    return get_op(f"relax.nn.{name}")(*args, **attrs)


IMAGE, KERNEL = t(1, 4, 5, 5), t(6, 4, 3, 3)
REFUSALS: dict[str, list[tuple[Callable[[], Any], str]]] = {
    "activation": [
        (lambda: nn("prelu", t(2, 3), t(3, 1)), "`alpha` must have 1 dimension, found 2"),
        (lambda: nn("prelu", t(2, 3), t(2)), "`alpha` must have 3 elements or 1, found 2"),
        (lambda: nn("dropout", t(2), 1.0), "relax.nn.dropout: `rate` must be in [0, 1), found 1.0"),
        (
            lambda: nn("noise", ShapeExpr((2,)), "gamma"),
            "`distribution` must be normal, uniform or exponential, found gamma",
        ),
        (
            lambda: nn("noise", ShapeExpr((2,)), dtype="int32"),
            "relax.nn.noise: `dtype` must be a float dtype, found int32",
        ),
    ],
    "sparse": [
        (
            lambda: nn("sparse_dense", t(2, 7), t(3, 2, 3), i(3), i(4)),
            "last dimension of `data` must be a whole number of blocks of 3 columns, found 7",
        ),
        (
            lambda: nn("sparse_dense", t(2, 6), t(3, 2), i(3), i(4)),
            "`weight_data` must have 3 dimensions, found 2",
        ),
        (
            lambda: nn("sparse_dense", t(), t(3, 2, 3), i(3), i(4)),
            "`data` must have at least 1 dimension, found a scalar",
        ),
        (
            lambda: nn("sparse_dense", t(2, 6), t(3, 2, 0), i(3), i(4)),
            "blocks must have elements, but those of `weight_data` are (2, 0)",
        ),
    ],
    "loss": [
        (
            lambda: nn("cross_entropy_with_logits", t(2, 3), t(3)),
            "`predictions` and `labels` must have the same rank, found 2 and 1",
        ),
        (
            lambda: nn("cross_entropy_with_logits", t(2, 3), t(2, 4)),
            "`predictions` and `labels` must have the same shape, found (2, 3) and (2, 4)",
        ),
        (
            lambda: nn("nll_loss", t(2, 3), i(2), reduction="max"),
            "relax.nn.nll_loss: `reduction` must be one of none, mean, sum, found max",
        ),
        (
            lambda: nn("nll_loss", t(), i()),
            "`predictions` must have a dimension for the classes, but it is a scalar",
        ),
        (
            lambda: nn("nll_loss", t(2, 3), i(2, 2)),
            "`targets` must have 1 dimension, one less than `predictions`, found 2",
        ),
        (
            lambda: nn("nll_loss", t(2, 3), i(3)),
            "(2) beside `predictions` of shape (2, 3), whose classes are along axis 1, found (3)",
        ),
        (
            lambda: nn("nll_loss", t(2, 3), i(2), t(3, 1)),
            "relax.nn.nll_loss: `weights` must have 1 dimension, found 2",
        ),
        (
            lambda: nn("nll_loss", t(2, 3), i(2), t(4)),
            "`weights` must have an element for each of the 3 classes, found 4",
        ),
    ],
    "norms": [
        (
            lambda: nn("layer_norm", t(2, 3), t(2), t(2), axes=-1),
            "relax.nn.layer_norm: `gamma` must have shape (3), as the axes of `data`, found (2)",
        ),
        (
            lambda: nn("rms_norm", t(2, 3), t(1, 3)),
            "relax.nn.rms_norm: `weight` must have shape (3), as the axes of `data`, found (1, 3)",
        ),
        (
            lambda: nn("group_norm", t(2, 4, 3), t(4), t(4), 2, 1, [1]),
            "relax.nn.group_norm: `axes` may not hold the channel axis 1, found [1]",
        ),
        (
            lambda: nn("group_norm", t(2, 4, 3), t(4), t(4), 3, 1, [2]),
            "relax.nn.group_norm: `num_groups` must divide the 4 channels, found 3",
        ),
        (
            lambda: nn("batch_norm", t(2, 3), t(3), t(3), t(3), t(2), axis=1),
            "`moving_var` must have shape (3), as the channels of `data`, found (2)",
        ),
    ],
    "layouts": [
        (
            lambda: nn("conv2d", IMAGE, KERNEL, data_layout="NCHWQX"),
            'relax.nn.conv2d: `data_layout` must be like "NCHW", found "NCHWQX"',
        ),
        (
            lambda: nn("conv2d", IMAGE, KERNEL, kernel_layout="OIHH"),
            'relax.nn.conv2d: `kernel_layout` must have each letter of "OIHW" once, found "OIHH"',
        ),
        (
            lambda: nn("conv2d", t(1, 2, 5, 5, 4), KERNEL, data_layout="NCHW4c"),
            '"NCHW4c" has channels in packets: bring the tensors into "NCHW" by R.permute_dims and',
        ),
        (
            lambda: nn("conv2d", IMAGE, KERNEL, kernel_layout="OIHW4i8o"),
            '`kernel_layout` must have each axis once, but "OIHW4i8o" has channels in packets',
        ),
        (
            lambda: nn("avg_pool2d", IMAGE, out_layout="NCHW4c"),
            '`out_layout` must have each axis once, but "NCHW4c" has channels in packets',
        ),
        (
            lambda: nn("conv2d", IMAGE, KERNEL, strides=(1, 1, 1)),
            "relax.nn.conv2d: `strides` must have 1 or 2 values, found [1, 1, 1]",
        ),
        (
            lambda: nn("conv2d", IMAGE, KERNEL, padding=(1, 1, 1)),
            "relax.nn.conv2d: `padding` must have 1, 2 or 4 values, found [1, 1, 1]",
        ),
        (
            lambda: nn("conv2d", IMAGE, KERNEL, dilation=0),
            "relax.nn.conv2d: `dilation` must be positive, found [0, 0]",
        ),
        (
            lambda: nn("conv2d", t(4, 5, 5), KERNEL),
            'relax.nn.conv2d: `data` must have 4 dimensions, as its layout "NCHW", found 3',
        ),
        (
            lambda: nn("max_pool2d", IMAGE, layout="NCHWQX"),
            'relax.nn.max_pool2d: `layout` must be like "NCHW", found "NCHWQX"',
        ),
        (
            lambda: nn("adaptive_avg_pool2d", IMAGE, layout="NC"),
            'relax.nn.adaptive_avg_pool2d: `layout` must be like "NCHW", found "NC"',
        ),
    ],
    "windows": [
        (
            lambda: nn("conv2d", IMAGE, t(6, 3, 3, 3)),
            "`data` must have 3 * 1 channels, those of `weight` times `groups`, found 4",
        ),
        (
            lambda: nn("conv2d", IMAGE, t(5, 2, 3, 3), groups=2),
            "relax.nn.conv2d: `groups` must divide the 5 output channels, found 2",
        ),
        (
            lambda: nn("conv2d", IMAGE, KERNEL, dilation=3, padding=(0, 1)),
            "the kernel does not fit into `data` along H: it reaches over 7 elements of 5, padded",
        ),
        (
            lambda: nn("conv2d_transpose", IMAGE, t(4, 6, 3, 3), strides=2, output_padding=2),
            "`output_padding` must be less than `strides`, found [2, 2] and [2, 2]",
        ),
        (
            lambda: nn("conv2d_transpose", IMAGE, t(3, 6, 3, 3)),
            "relax.nn.conv2d_transpose: `data` must have 3 channels, as `weight`, found 4",
        ),
        (
            lambda: nn("conv2d_transpose", IMAGE, t(4, 6, 3, 3), groups=3),
            "relax.nn.conv2d_transpose: `groups` must divide the 4 input channels, found 3",
        ),
        (
            lambda: nn("max_pool2d", IMAGE, 6),
            "the window does not fit into `data` along H: it reaches over 6 elements of 5, padded",
        ),
    ],
    "padding": [
        (
            lambda: nn("pad", t(2), [1, 1], "mirror"),
            "`pad_mode` must be one of constant, reflect, replicate, edge, circular, found mirror",
        ),
        (
            lambda: nn("pad", t(2), [-1, 1], "reflect"),
            "relax.nn.pad: `pad_width` must not be negative for reflect, found [-1, 1]",
        ),
        (
            lambda: nn("pad", t(2), [1]),
            "relax.nn.pad: `pad_width` must have 2 values, two for each axis, found [1]",
        ),
        (lambda: nn("pixel_shuffle", IMAGE, 0), "`upscale_factor` must be positive, found 0"),
        (
            lambda: nn("pixel_shuffle", t(2, 2), 2),
            "`data` must have at least 3 dimensions, found 2",
        ),
        (
            lambda: nn("pixel_shuffle", IMAGE, 3),
            "`data` must have a multiple of 9 channels, found 4",
        ),
        (lambda: nn("batch_flatten", t(2)), "`data` must have at least 2 dimensions, found 1"),
    ],
    "attention": [
        (
            lambda: nn("attention", *[t(1, 3, 2, 2)] * 3, causal_mask="Left"),
            "relax.nn.attention: `causal_mask` must be TopLeft, BottomRight or None, found Left",
        ),
        (
            lambda: nn("attention", *[t(1, 3, 2, 2)] * 3, window_size=0),
            "relax.nn.attention: `window_size` must be positive, found 0",
        ),
        (
            lambda: nn("attention", t(3, 2, 2), *[t(1, 3, 2, 2)] * 2),
            "the batch, the sequence, the heads and the head's own, found 3",
        ),
        (
            lambda: nn("attention", t(1, 3, 3, 2), *[t(1, 3, 2, 2)] * 2),
            "relax.nn.attention: `query` must have a multiple of the 2 heads of `key`, found 3",
        ),
        (
            lambda: nn("attention", t(1, 3, 2, 4), *[t(1, 3, 2, 2)] * 2),
            "relax.nn.attention: `key` must have a head dimension of 4, found 2",
        ),
        (
            lambda: nn("attention", *[t(1, 3, 2, 2)] * 2, t(1, 4, 2, 2)),
            "relax.nn.attention: `value` must have a sequence of 3, found 4",
        ),
        (
            lambda: nn("attention_bias", *[t(1, 3, 2, 2)] * 3, t(3, 3)),
            "relax.nn.attention_bias: `bias` must have 4 dimensions, found 2",
        ),
        (
            lambda: nn("attention_bias", *[t(1, 3, 2, 2)] * 3, t(1, 2, 3, 4)),
            "`bias` must broadcast to (1, 2, 3, 3), which are the batch, the heads, the",
        ),
        (
            lambda: nn("masked_attention", *[t(1, 3, 2, 2)] * 3, t(1, 2, 3, 3)),
            "relax.nn.masked_attention: `mask` must be of dtype bool, found float32",
        ),
        (
            lambda: nn("masked_attention", *[t(1, 3, 2, 2)] * 3, t(3, 3, dtype="bool")),
            "relax.nn.masked_attention: `mask` must have 4 dimensions, found 2",
        ),
        (
            lambda: nn(
                "masked_attention",
                *[t(1, 3, 2, 2)] * 3,
                t(1, 2, 3, 3, dtype="bool"),
                hidden=-math.inf,
            ),
            "relax.nn.masked_attention: `hidden` must be finite, found -inf",
        ),
        (
            lambda: nn("attention_var_len", *[t(1, 3, 2, 2)] * 3, i(2, 1), i(1)),
            "relax.nn.attention_var_len: `seqstart_q` must have 1 dimension, found 2",
        ),
    ],
}
REFUSALS["quantization"] = [
    (
        lambda: get_op("relax.quantize")(i(2), t(), t(dtype="int8")),
        "relax.quantize: the dtype of `data` must be one of float32, float16, found int64",
    ),
    (
        lambda: get_op("relax.quantize")(t(2), t(1, 2), t(dtype="int8")),
        "relax.quantize: `scale` must have 0 or 1 dimensions, found 2",
    ),
    (
        lambda: get_op("relax.quantize")(t(2, 3), t(2), t(dtype="int8")),
        "`scale` must have 3 elements, one for each along the axis -1, found 2",
    ),
    (
        lambda: get_op("relax.dequantize")(t(2), t(), t(dtype="int8"), out_dtype="int8"),
        "relax.dequantize: `out_dtype` must be one of float16, float32, found int8",
    ),
]


@pytest.mark.parametrize(("build", "message"), cases(REFUSALS))
def test_what_is_refused_is_told(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(OpError, match=re.escape(message)):
        build()


def _gradient(name: str, *args: Any, **attrs: Any) -> Any:
    """What the gradient rule of an operator's call gives."""
    operator = get_op(f"relax.{name}")
    call, rule = operator(*args, **attrs), operator.gradient
    assert callable(rule)
    given, named = arguments(call)
    return rule(Var("g", call.ty), Var("y", call.ty), *given, **named)


UNKNOWN = Var("x", TensorType(None, "float32", ndim=2))
RANKLESS = Var("x", TensorType(None, "float32"))
GRADIENTS: list[tuple[Callable[[], Any], str]] = [
    (
        lambda: _gradient("abs", t(2, dtype=None)),
        "relax.abs: the dtype of `x` must be known here, but its type is R.Tensor((2,))",
    ),
    (
        lambda: _gradient("mean", UNKNOWN, axis=1),
        "relax.mean: the shape of `x` must be known here, but its type is R.Tensor(",
    ),
    (
        lambda: _gradient("matmul", RANKLESS, t(2, 2)),
        "relax.matmul: the rank of `x` must be known here, but its type is R.Tensor(",
    ),
    (
        lambda: _gradient("clip", t(2), Var("low", PrimType("float64")), 1),
        "relax.clip: `low` must be written out, so that its gradient can use it",
    ),
    (
        lambda: _gradient("split", t(4), [3, 1]),
        "relax.split: the gradient needs places to cut at in ascending order, found [3, 1]",
    ),
    (
        lambda: _gradient(
            "strided_slice", t(4), [0], Var("b", TupleType((PrimType("int64"),))), [2]
        ),
        "relax.strided_slice: the gradient needs places that are written out",
    ),
    (
        lambda: _gradient("dynamic_strided_slice", t(4), i(1), i(1), i(1)),
        "relax.dynamic_strided_slice: the gradient needs places that are constants",
    ),
]


@pytest.mark.parametrize(("build", "message"), GRADIENTS)
def test_what_a_gradient_needs_is_told(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(OpError, match=re.escape(message)):
        build()


def test_scalars_of_the_host_may_be_typed() -> None:
    """A narrower dtype than Python's is kept, and the result has it."""
    call = get_op("relax.one_hot")(i(2), PrimExpr(1.0, "float32"), PrimExpr(0.0, "float32"), 3)
    assert call.ty == TensorType((2, 3), "float32")
