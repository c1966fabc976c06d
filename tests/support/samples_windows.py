"""Samples of convolutions, pooling and attention."""

from typing import Any

from operator_samples import Array, Sample, exactly, floats, integers, sample

SAMPLES: dict[str, list[Sample]] = {}

SAMPLES["relax.nn.conv1d"] = [
    sample(floats(2, 3, 7), floats(4, 3, 3)),
    sample(floats(2, 7, 4), floats(3, 2, 6), 2, 1, 2, 2, "NWC", "WIO", second_order=False),
    sample(floats(1, 2, 5), floats(2, 2, 1), strides=2, second_order=False),
]
SAMPLES["relax.nn.conv2d"] = [
    sample(floats(2, 3, 5, 7), floats(4, 3, 3, 2)),
    sample(floats(1, 2, 7, 6), floats(3, 2, 3, 3), strides=2, padding=1, dilation=2),
    sample(
        floats(2, 6, 7, 4),
        floats(3, 2, 2, 6),
        (2, 3),
        (1, 0, 2, 1),
        groups=2,
        data_layout="NHWC",
        kernel_layout="HWIO",
        out_layout="NCHW",
        second_order=False,
    ),
    sample(floats(5, 2, 4, 3), floats(3, 2, 1, 1), strides=(2, 1), second_order=False),
    sample(
        floats(1, 2, 4, 4, dtype="float32"),
        floats(2, 2, 2, 2, dtype="float32"),
        out_dtype="float64",
        second_order=False,
    ),
    sample(
        floats(1, 2, 4, 4, dtype="bfloat16"), floats(2, 2, 3, 3, dtype="bfloat16"), smooth=False
    ),
]
SAMPLES["relax.nn.conv2d"] += [
    # One kernel for each channel, and kernels of one element, are computed in forms of their own.
    sample(floats(2, 3, 7, 6), floats(3, 1, 3, 2), 2, (1, 0, 2, 1), (1, 2), 3),
    sample(
        floats(1, 6, 5, 3), floats(2, 2, 1, 3), groups=3, data_layout="NHWC", kernel_layout="HWIO"
    ),
    sample(floats(1, 2, 3, 4), floats(3, 2, 1, 1), strides=2, padding=1),
    sample(floats(2, 2, 3, 3), floats(4, 2, 3, 3)),
]
SAMPLES["relax.nn.conv3d"] = [
    sample(floats(1, 2, 3, 4, 4), floats(2, 2, 2, 2, 2), second_order=False),
    sample(
        floats(1, 4, 4, 4, 2),
        floats(2, 2, 2, 2, 2),
        2,
        1,
        data_layout="NDHWC",
        kernel_layout="DHWIO",
        second_order=False,
    ),
    sample(floats(1, 2, 2, 2, 5), floats(3, 2, 1, 1, 1), second_order=False),
    sample(
        floats(1, 4, 3, 4, 5),
        floats(2, 2, 2, 2, 2),
        (1, 2, 2),
        (1, 0, 1, 1, 2, 1),
        (2, 1, 2),
        2,
        second_order=False,
    ),
]
SAMPLES["relax.nn.conv1d_transpose"] = [
    sample(floats(2, 3, 5), floats(3, 4, 3)),
    sample(floats(2, 4, 4), floats(4, 3, 2), 2, 1, 1, 2, 2, second_order=False),
    sample(
        floats(1, 5, 2),
        floats(3, 2, 2),
        3,
        data_layout="NWC",
        kernel_layout="WOI",
        second_order=False,
    ),
]
SAMPLES["relax.nn.conv2d_transpose"] = [
    sample(floats(2, 3, 5, 4), floats(3, 4, 3, 2)),
    sample(floats(1, 4, 3, 4), floats(4, 2, 3, 3), 2, (1, 0), (1, 0), 2, 2, second_order=False),
    sample(
        floats(1, 3, 4, 2),
        floats(2, 2, 3, 2),
        (2, 3),
        1,
        1,
        data_layout="NHWC",
        kernel_layout="HWOI",
        out_layout="NCHW",
        second_order=False,
    ),
]
SAMPLES["relax.nn.conv2d_transpose"] += [
    sample(floats(2, 3, 4, 3), floats(3, 1, 3, 2), (2, 3), (1, 0), (1, 2), 2, 3),
    sample(floats(1, 2, 3, 4), floats(2, 3, 1, 1), 2, 1, 1, out_layout="NHWC"),
]
SAMPLES["relax.nn.conv3d_transpose"] = [
    sample(floats(1, 2, 2, 3, 2), floats(2, 2, 2, 2, 2), second_order=False),
    sample(floats(1, 2, 2, 2, 2), floats(2, 1, 2, 2, 2), 2, 1, 1, groups=2, second_order=False),
    sample(floats(1, 2, 1, 1, 5), floats(2, 2, 1, 1, 1), second_order=False),
    sample(
        floats(1, 2, 2, 1, 3),
        floats(2, 1, 2, 2, 2),
        (1, 2, 2),
        1,
        (0, 1, 1),
        (2, 1, 2),
        2,
        second_order=False,
    ),
]

_POOLS: dict[int, list[tuple[Array, tuple[int, ...], dict[str, Any]]]] = {
    1: [
        (floats(2, 3, 5), (2, 3, 2), {"pool_size": 2, "strides": 2}),
        (floats(1, 7, 2), (1, 4, 2), {"pool_size": 3, "strides": 2, "padding": 1, "layout": "NWC"}),
        (
            floats(2, 1, 6),
            (2, 1, 3),
            {"pool_size": 2, "strides": 2, "dilation": 2, "ceil_mode": True},
        ),
        (floats(1, 2, 7), (1, 2, 4), {"pool_size": 2, "strides": 2, "padding": 1, "dilation": 2}),
        # Of windows that would begin behind the end there is none.
        (
            floats(1, 2, 5),
            (1, 2, 2),
            {"pool_size": 2, "strides": 3, "padding": (1, 0), "ceil_mode": True},
        ),
        (floats(1, 1, 4), (1, 1, 1), {"pool_size": 2, "strides": 4, "ceil_mode": True}),
    ],
    2: [
        (floats(2, 3, 5, 4), (2, 3, 2, 2), {"pool_size": 2, "strides": 2}),
        (
            floats(1, 2, 5, 6),
            (1, 2, 3, 4),
            {"pool_size": (3, 2), "strides": 2, "padding": 1, "ceil_mode": True},
        ),
        (
            floats(1, 6, 7, 2),
            (1, 2, 3, 4),
            {
                "pool_size": 2,
                "strides": (2, 2),
                "layout": "NHWC",
                "padding": (0, 0, 0, 1),
                "out_layout": "NCHW",
            },
        ),
        (floats(1, 1, 9, 9), (1, 1, 1, 1), {"pool_size": 9}),
        (
            floats(1, 2, 5, 5),
            (1, 2, 3, 3),
            {"pool_size": 2, "dilation": 2, "count_include_pad": True},
        ),
        (
            floats(1, 1, 5, 6),
            (1, 1, 3, 3),
            {"pool_size": 2, "strides": 2, "padding": (1, 0, 1, 2), "dilation": (2, 3)},
        ),
    ],
    3: [
        (floats(1, 2, 3, 4, 4), (1, 2, 2, 3, 3), {"pool_size": 2}),
        (
            floats(1, 2, 5, 2, 2),
            (1, 2, 3, 2, 2),
            {"pool_size": 2, "strides": 2, "padding": 1, "count_include_pad": False},
        ),
        (floats(1, 2, 2, 3, 1), (1, 1, 2, 2, 1), {"pool_size": (2, 1, 2), "layout": "NDHWC"}),
        (
            floats(1, 1, 3, 4, 5),
            (1, 1, 2, 2, 3),
            {"pool_size": 2, "strides": 2, "padding": 1, "dilation": 2},
        ),
    ],
}
for _count, _cases in _POOLS.items():
    for _kind in ("max", "avg"):
        SAMPLES[f"relax.nn.{_kind}_pool{_count}d"] = [
            sample(data, **attrs, second_order=_count < 2) for data, _, attrs in _cases
        ]
        SAMPLES[f"relax.grad.{_kind}_pool{_count}d_backward"] = [
            sample(floats(*out), data, **attrs, second_order=_count < 2)
            for data, out, attrs in _cases
        ]
# The first and the last window hold nothing but padding.
_AROUND: dict[str, Any] = {"padding": 1, "count_include_pad": False}
SAMPLES["relax.nn.avg_pool1d"] += [sample(floats(1, 2, 5), **_AROUND)]
SAMPLES["relax.grad.avg_pool1d_backward"] += [sample(floats(1, 2, 7), floats(1, 2, 5), **_AROUND)]
SAMPLES["relax.nn.adaptive_avg_pool1d"] = [
    sample(floats(2, 3, 5), 2),
    sample(floats(1, 6, 5), 3, "NWC"),
    sample(floats(1, 2, 3)),
]
SAMPLES["relax.nn.adaptive_avg_pool2d"] = [
    sample(floats(2, 3, 5, 6), (3, 2)),
    sample(floats(1, 4, 4, 5), 1, "NHWC", second_order=False),
    sample(floats(1, 2, 3, 3, dtype="bfloat16"), (2, 5), smooth=False),
]
SAMPLES["relax.nn.adaptive_avg_pool3d"] = [
    sample(floats(1, 2, 3, 4, 5), (2, 2, 3), second_order=False),
    sample(floats(1, 2, 2, 2, 2), 1, second_order=False),
    sample(floats(1, 4, 2, 2, 3), 2, "NDHWC", "NCDHW", second_order=False),
]

SAMPLES["relax.nn.attention"] = [
    sample(floats(2, 5, 2, 3), floats(2, 7, 2, 3), floats(2, 7, 2, 4)),
    sample(
        floats(1, 3, 4, 2),
        floats(1, 5, 2, 2),
        floats(1, 5, 2, 3),
        scale=0.3,
        causal_mask="BottomRight",
        window_size=2,
        second_order=False,
    ),
    sample(*[floats(1, 3, 1, 2, dtype="bfloat16")] * 3, smooth=False),
]
SAMPLES["relax.nn.attention_bias"] = [
    sample(
        floats(2, 5, 2, 3),
        floats(2, 7, 2, 3),
        floats(2, 7, 2, 4),
        floats(2, 2, 5, 7),
        second_order=False,
    ),
    sample(*[floats(1, 3, 2, 2)] * 3, floats(1, 2, 3, 3), window_size=1, second_order=False),
    sample(
        *[floats(1, 5, 1, 2)] * 3, floats(1, 1, 1, 5), causal_mask="TopLeft", second_order=False
    ),
]
SAMPLES["relax.nn.masked_attention"] = [
    sample(
        floats(2, 3, 2, 3),
        floats(2, 4, 2, 3),
        floats(2, 4, 2, 4),
        exactly([[[[True, False, True, True]]], [[[False, True, True, False]]]], "bool"),
        second_order=False,
    ),
    sample(
        floats(1, 3, 4, 2),
        *[floats(1, 3, 2, 2)] * 2,
        exactly([[[[True, False, False], [False, False, False], [True, True, True]]]], "bool"),
        scale=0.3,
        hidden=-1e9,
        second_order=False,
    ),
    sample(
        *[floats(1, 2, 2, 2)] * 3,
        exactly([[[[True, False]], [[True, True]]]], "bool"),
        second_order=False,
    ),
]
SAMPLES["relax.nn.attention_var_len"] = [
    sample(
        *[floats(1, 6, 2, 3)] * 3,
        exactly([0, 2, 6], "int32"),
        exactly([4], "int32"),
        second_order=False,
    ),
    sample(
        *[floats(1, 5, 1, 2)] * 3,
        exactly([0, 2, 5], "int32"),
        exactly([3], "int32"),
        scale=0.5,
        causal_mask="TopLeft",
        second_order=False,
    ),
    sample(
        floats(1, 3, 2, 2),
        *[floats(1, 5, 1, 2)] * 2,
        exactly([0, 1, 3], "int32"),
        exactly([2], "int32"),
        exactly([0, 2, 5], "int32"),
        exactly([3], "int32"),
        causal_mask="BottomRight",
        window_size=2,
        second_order=False,
    ),
]
SAMPLES["relax.nn.pad"] = [
    sample(floats(2, 5), [1, 2, 0, 3]),
    sample(floats(5, 4), [-1, 0, 2, -2], pad_value=1.5),
    *[
        sample(floats(3, 5), [1, 2, 2, 0], mode, second_order=False)
        for mode in ("reflect", "replicate", "circular")
    ],
    sample(integers(3), [1, 1], pad_value=7, smooth=False),
]
SAMPLES["relax.nn.pixel_shuffle"] = [
    sample(floats(2, 4, 5, 7), 2),
    sample(floats(9, 2, 1), 3),
    sample(floats(2, 1, 2, 3, 3), 1),
]
SAMPLES["relax.nn.batch_flatten"] = [
    sample(floats(2, 5, 3)),
    sample(floats(5, 2)),
    sample(floats(0, 2, 2)),
]
