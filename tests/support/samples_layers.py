"""Samples of products, activations, losses and norms."""

import numpy as np
from operator_samples import Sample, bools, dims, exactly, floats, integers, positive, sample

from relaxjax.ir.expr import const

SAMPLES: dict[str, list[Sample]] = {}

SAMPLES["relax.matmul"] = [
    sample(floats(2, 5), floats(5, 3)),
    sample(floats(3), floats(3)),
    sample(floats(3), floats(3, 5)),
    sample(floats(5, 2, 3), floats(3)),
    sample(floats(2, 5, 3), floats(3, 4)),
    sample(floats(2, 1, 5, 3), floats(3, 3, 4)),
    sample(floats(3), floats(2, 3, 4)),
    sample(floats(2, 0), floats(0, 3)),
    sample(floats(2, 3, dtype="float32"), floats(3, 2, dtype="float32"), out_dtype="float64"),
    sample(floats(3, dtype="float32"), floats(3, dtype="float32"), out_dtype="float64"),
    sample(floats(2, 3, dtype="bfloat16"), floats(3, dtype="bfloat16"), smooth=False),
    sample(floats(2, 3), integers(3, 2), out_dtype="float32", smooth=False),
    sample(
        integers(2, 3, dtype="int8"), integers(3, 2, dtype="int8"), out_dtype="int32", smooth=False
    ),
]
SAMPLES["relax.outer"] = [
    sample(floats(5), floats(3)),
    sample(floats(0), floats(7)),
    sample(integers(5), integers(2), smooth=False),
]
SAMPLES["relax.where"] = [
    sample(bools(2, 5), floats(5), floats(2, 1)),
    sample(bools(5), floats(), floats(3, 5)),
    sample(bools(), floats(2), floats()),
    sample(bools(0, 3), integers(3), integers(), smooth=False),
]
for _name in ["argmax", "argmin"]:
    SAMPLES[f"relax.{_name}"] = [
        sample(floats(2, 5)),
        sample(floats(2, 5), axis=-1),
        sample(floats(5, 7), axis=0, keepdims=True),
        sample(integers(2, 3), keepdims=True),
    ]
SAMPLES["relax.bucketize"] = [
    sample(floats(2, 5), exactly([-1.0, 0.0, 1.0])),
    sample(floats(5), exactly([0.0]), out_int32=True),
    sample(integers(3), exactly([1, 2], "int32"), right=True),
]
SAMPLES["relax.take"] = [
    sample(floats(2, 5), integers(3, high=5), axis=1),
    sample(floats(2, 5, 3), integers(2, 4, high=5, dtype="int64"), axis=-2),
    sample(floats(5), integers(3, 2, high=5)),
    sample(floats(2, 5), integers(high=5), axis=1),
    sample(floats(2, 5), 1, axis=0),
    sample(floats(3, 2), integers(4, low=-5, high=7), axis=0, mode="clip"),
    sample(floats(3, 2), integers(4, low=-5, high=7), axis=0, mode="wrap"),
    sample(floats(2, 3, 2), exactly([0, 2, 1], "int32"), axis=1, mode="nan"),
    sample(integers(5), integers(0, high=5), axis=0, smooth=False),
]
SAMPLES["relax.grad.take_backward"] = [
    sample(floats(2, 3), floats(2, 5), integers(3, high=5), axis=1),
    sample(floats(3, 4, 2), floats(5, 2), integers(3, 4, high=5), axis=-2),
    sample(floats(7), floats(5), integers(7, high=5)),
]
SAMPLES["relax.grad.rows"] = [
    sample(floats(4, 3), exactly([1, 4, 1, 0], "int32"), dims(5, 3)),
    sample(floats(2, 2), exactly([[3, 3], [-1, 7]], "int64"), dims(5)),
    sample(floats(2, 3), exactly(2, "int64"), dims(4, 2, 3)),
]
SAMPLES["relax.grad.summed_rows"] = [
    sample(floats(5, 3), exactly([4, 1, 4, 0, 4], "int32"), dims(5, 3)),
    sample(floats(2, 3), exactly([[3, -1, 3], [7, 5, 0]], "int64"), dims(5)),
    sample(floats(2, 1, 2), exactly([[1], [1]], "int32"), dims(3, 2)),
]
SAMPLES["relax.grad.put_rows"] = [
    sample(floats(5, 3), floats(3, 3), exactly([4, 0, 9], "int32")),
    sample(floats(5, 3), floats(4, 3), exactly([1, 4, 1, -2], "int32"), accumulate=True),
    sample(floats(5), floats(2, 2), exactly([[3, 0], [0, 5]], "int64"), accumulate=True),
]
for _name in [
    *(
        "grad.no_grad",
        "grad.closed_over",
        "grad.deepest_rule",
        "grad.start_checkpoint",
        "grad.end_checkpoint",
    ),
    "builtin.stop_lift_params",
]:
    SAMPLES[f"relax.{_name}"] = [
        sample(floats(2, 5)),
        sample(floats()),
        sample(integers(0, 3), smooth=False),
    ]
for _name in ["relu", "silu", "gelu", "gelu_tanh", "selu", "leakyrelu", "softplus"]:
    SAMPLES[f"relax.nn.{_name}"] = [
        sample(floats(2, 5)),
        sample(floats(0, 7)),
        sample(floats()),
        sample(floats(3, dtype="bfloat16"), smooth=False),
    ]
SAMPLES["relax.nn.relu"] += [sample(integers(5, low=-2), smooth=False)]
SAMPLES["relax.nn.leakyrelu"] += [sample(floats(3), 0.2)]
SAMPLES["relax.nn.softplus"] += [sample(floats(3), beta=2.0, threshold=1.5)]
# Blocks of 2 x 3 and of 16 x 16 of a matrix of 3 rows of blocks, the second of which is empty.
_BLOCKS = (exactly([1, 0, 1], "int32"), exactly([0, 2, 2, 3], "int32"))
SAMPLES["relax.nn.sparse_dense"] = [
    sample(floats(5, 6), floats(3, 2, 3), *_BLOCKS),
    sample(floats(2, 5, 6), floats(3, 2, 3), *_BLOCKS, second_order=False),
    sample(floats(2, 32), floats(3, 16, 16), *_BLOCKS, second_order=False),
    sample(floats(6), floats(0, 2, 3), exactly([], "int32"), exactly([0, 0], "int32")),
    sample(floats(2, 0), floats(0, 1, 1), exactly([], "int32"), exactly([0, 0, 0], "int32")),
]
SAMPLES["relax.grad.sparse_dense_backward"] = [
    sample(floats(5, 6), floats(5, 6), floats(3, 2, 3), *_BLOCKS),
    sample(floats(2, 5, 6), floats(2, 5, 6), floats(3, 2, 3), *_BLOCKS, second_order=False),
    sample(floats(2), floats(6), floats(0, 2, 3), exactly([], "int32"), exactly([0, 0], "int32")),
]
SAMPLES["relax.nn.prelu"] = [
    sample(floats(2, 5), floats(5)),
    sample(floats(2, 5, 3), floats(1)),
    sample(floats(5, 3, 2), floats(2), axis=-1),
]
SAMPLES["relax.nn.bias_add"] = [
    sample(floats(2, 5), floats(5)),
    sample(floats(2, 5, 3), floats(5)),
    sample(floats(5, 3, 2), floats(2), axis=-1),
    sample(floats(0, 3), floats(3)),
    sample(integers(2, 3), integers(3), smooth=False),
]
for _name in ["softmax", "log_softmax"]:
    SAMPLES[f"relax.nn.{_name}"] = [
        sample(floats(2, 5)),
        sample(floats(2, 5, 3), axis=-2),
        sample(floats(7), axis=0),
        sample(floats(2, 3, dtype="float16"), axis=1, smooth=False),
    ]
SAMPLES["relax.nn.cross_entropy_with_logits"] = [
    sample(floats(5, 3), floats(5, 3)),
    sample(floats(3), floats(3)),
    sample(floats(5, 7, 2), floats(5, 7, 2)),
    sample(floats(2, 3, dtype="bfloat16"), floats(2, 3, dtype="bfloat16"), smooth=False),
]
_LOSSES = [((5, 3), (5,), 3), ((2, 3, 5), (2, 5), 3), ((3,), (), 3)]
for _name in [
    "nn.nll_loss",
    "grad.nll_loss_backward",
    "nn.softmax_nll_loss",
    "grad.softmax_nll_loss_backward",
]:
    SAMPLES[f"relax.{_name}"] = [
        sample(
            *([floats(*(t if r == "none" else ()))] if _name.startswith("grad") else []),
            floats(*p),
            integers(*t, high=3, dtype="int64"),
            *([positive(c)] if w else []),
            reduction=r,
            ignore_index=1 if r != "mean" or t else -100,
        )
        for p, t, c in _LOSSES
        for w in (False, True)
        for r in ("none", "sum", "mean")
    ]
for _name in ["nn.product_nll_loss", "grad.product_nll_loss_backward"]:
    SAMPLES[f"relax.{_name}"] = [
        sample(
            *([floats(*([5] if r == "none" else []))] if _name.startswith("grad") else []),
            floats(5, 2),
            floats(*((3, 2) if turned else (2, 3))),
            integers(5, high=3, dtype="int64"),
            *([floats(3)] if b else []),
            transposed=turned,
            reduction=r,
            ignore_index=1,
        )
        for r, turned, b in (("none", False, True), ("sum", True, False), ("mean", True, True))
    ]

SAMPLES["relax.nn.layer_norm"] = [
    sample(floats(2, 5, 3), floats(3), floats(3), axes=-1),
    sample(floats(2, 5, 3), floats(5), floats(5), axes=[1], epsilon=1e-2),
    sample(floats(2, 5, 3), floats(3, 2), floats(3, 2), axes=[-1, 0], second_order=False),
    sample(floats(2, 5, 3), floats(5, 3), floats(5, 3), axes=[1, 2], center=False, scale=False),
    sample(*[floats(n, dtype="bfloat16") for n in (3, 3, 3)], axes=[0], smooth=False),
]
SAMPLES["relax.nn.group_norm"] = [
    sample(floats(5, 4, 3), floats(4), floats(4), 2, 1, [2]),
    sample(floats(2, 3, 6), floats(6), floats(6), 3, -1, [1], scale=False, second_order=False),
    sample(floats(2, 3, 4), floats(4), floats(4), 1, 2, [0, 1], center=False, second_order=False),
]
SAMPLES["relax.nn.instance_norm"] = [
    sample(floats(2, 3, 5), floats(3), floats(3), 1, [2]),
    sample(floats(2, 5, 3), floats(3), floats(3), -1, [1], scale=False),
    sample(floats(2, 3, 2, 2), floats(3), floats(3), 1, [2, 3], center=False, second_order=False),
]
SAMPLES["relax.nn.rms_norm"] = [
    sample(floats(2, 5), floats(5)),
    sample(floats(2, 5, 3), floats(5), axes=[1], epsilon=1e-2),
    sample(floats(2, 5, 3), floats(3, 5), axes=[-1, 1]),
]
SAMPLES["relax.nn.batch_norm"] = [
    sample(floats(5, 3), *[floats(3)] * 3, positive(3), 1),
    sample(floats(2, 3, 5), *[floats(3)] * 3, positive(3), 1, training=False, epsilon=1e-2),
    sample(floats(2, 3, 5), *[floats(5)] * 3, positive(5), -1, momentum=0.4, second_order=False),
    sample(floats(3, 4), *[floats(4)] * 3, positive(4), axis=1, center=False, scale=False),
]
SAMPLES["relax.nn.dropout"] = [sample(floats(2, 5)), sample(floats(), 0.0), sample(floats(0), 0.9)]
SAMPLES["relax.nn.noise"] = [
    sample(dims(2, 5)),
    sample(dims(), "uniform", "float64"),
    sample(dims(0, 3), distribution="uniform"),
    sample(dims(2), distribution="exponential"),
]
SAMPLES["relax.shape_of"] = [sample(floats(2, 5)), sample(floats()), sample(integers(0, 7))]
SAMPLES["relax.shape_to_tensor"] = [sample(dims(2, 5)), sample(dims()), sample(dims(0, 7))]
SAMPLES["relax.size"] = [sample(floats(2, 5)), sample(floats()), sample(integers(0, 7))]
SAMPLES["relax.null_value"] = [sample()]
SAMPLES["relax.print"] = [
    sample(floats(2), format=""),
    sample(floats(5), integers(), dims(2, 5), format="{} and {} of {}"),
    sample(format="hello"),
]
SAMPLES["relax.assert_op"] = [
    sample(exactly(True, "bool")),
    sample(exactly(True, "bool"), floats(5), integers(), format="{} {}"),
    sample(True),
]
SAMPLES["relax.tensor_to_shape"] = [
    sample(const(np.array([2, 5]), "int64")),
    sample(const(np.array([]), "int64")),
    sample(const(np.array([0]), "int32")),
]
