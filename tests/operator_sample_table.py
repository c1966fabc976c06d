"""The samples of every operator, by its name: what the oracle of tests/ops runs."""

import numpy as np
from operator_samples import (
    Sample,
    bools,
    dims,
    exactly,
    floats,
    inner,
    integers,
    positive,
    sample,
)

from relaxjax.ir.expr import PrimExpr, const

SAMPLES: dict[str, list[Sample]] = {}

_ARITHMETIC = [
    "add",
    "subtract",
    "multiply",
    "divide",
    "maximum",
    "minimum",
    "floor_divide",
    "mod",
    "floor_mod",
    "log_add_exp",
    "atan2",
]
for _name in _ARITHMETIC:
    SAMPLES[f"relax.{_name}"] = [
        sample(floats(2, 5), floats(5)),
        sample(floats(5, 1), floats(3, 1, 7)),
        sample(floats(), floats(2)),
        sample(floats(0, 3), floats(3)),
        sample(floats(3, dtype="bfloat16"), floats(2, 3, dtype="bfloat16"), smooth=False),
        sample(integers(5, low=1, dtype="int32"), integers(5, low=1, dtype="int32"), smooth=False),
    ]
SAMPLES["relax.power"] = [
    sample(positive(2, 5), floats(5)),
    sample(positive(7, 1), floats(1, 5)),
    sample(exactly([0.0, 2.0, -1.5]), exactly(2.0), smooth=False),
    sample(floats(3), exactly(3.0), smooth=False),
    sample(integers(5), integers(5), smooth=False),
]
for _name in ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]:
    SAMPLES[f"relax.{_name}"] = [
        sample(floats(2, 5), floats(5)),
        sample(integers(5, 1), integers(3, 1, 7)),
        sample(floats(dtype="float16"), floats(0, dtype="float16")),
    ]
for _name in ["logical_and", "logical_or", "logical_xor"]:
    SAMPLES[f"relax.{_name}"] = [
        sample(bools(2, 5), bools(5)),
        sample(integers(5, 1), integers(3, 1, 7)),
        sample(bools(), bools(0)),
    ]
for _name in ["bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"]:
    SAMPLES[f"relax.{_name}"] = [
        sample(integers(2, 5), integers(5)),
        sample(integers(5, 1, dtype="uint8"), integers(3, 1, 7, dtype="uint8")),
        sample(integers(dtype="int64"), integers(0, dtype="int64")),
    ]
_DOMAINS = {
    "acos": inner,
    "asin": inner,
    "atanh": inner,
    "log": positive,
    "sqrt": positive,
    "rsqrt": positive,
}
for _name in [
    "abs",
    "acos",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "ceil",
    "cos",
    "cosh",
    "erf",
    "exp",
    "floor",
    "log",
    "negative",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "trunc",
    "isfinite",
    "isinf",
    "isnan",
    "logical_not",
]:
    _draw = _DOMAINS.get(_name, floats)
    SAMPLES[f"relax.{_name}"] = [
        sample(_draw(2, 5)),
        sample(_draw()),
        sample(_draw(0, 7)),
        sample(_draw(3, dtype="bfloat16"), smooth=False),
        sample(_draw(3, dtype="float16"), smooth=False),
    ]
for _name in [
    "abs",
    "ceil",
    "floor",
    "negative",
    "round",
    "sign",
    "square",
    "trunc",
    "isnan",
    "isfinite",
    "isinf",
    "logical_not",
]:
    SAMPLES[f"relax.{_name}"] += [
        sample(integers(5, low=-3), smooth=False),
        sample(bools(5), smooth=False),
    ]
SAMPLES["relax.acosh"] = [
    sample(floats(2, 5, low=1.2, high=4)),
    sample(floats(low=1.2, high=4)),
    sample(floats(3, dtype="bfloat16", low=1.2, high=4), smooth=False),
]
SAMPLES["relax.bitwise_not"] = [
    sample(integers(5)),
    sample(bools(2, 5)),
    sample(integers(dtype="uint8")),
]
SAMPLES["relax.clip"] = [
    sample(floats(2, 5), -1, 1),
    sample(floats(), -0.7, 0.7),
    sample(integers(5, low=-9, high=9), float("-inf"), 2.5, smooth=False),
    sample(floats(0, 7, dtype="bfloat16"), 0, 6, smooth=False),
]

for _name in ["sum", "mean", "variance", "std", "max", "min", "prod"]:
    SAMPLES[f"relax.{_name}"] = [
        sample(floats(2, 5)),
        sample(floats(2, 5, 3), axis=-1),
        sample(floats(2, 5, 3), axis=[0, -1], keepdims=True),
        sample(floats(7, 5, 3), axis=[2, 0]),
        sample(floats(5, 7), axis=1, keepdims=True),
        sample(floats(5, 2, dtype="bfloat16"), axis=0, smooth=False),
        sample(integers(5, 3, low=1), axis=0, smooth=False),
    ]
for _name in ["sum", "mean", "max", "min", "prod"]:
    SAMPLES[f"relax.{_name}"] += [sample(floats())]
for _name in ["sum", "prod"]:
    SAMPLES[f"relax.{_name}"] += [
        sample(bools(5, 3), axis=0, smooth=False),
        sample(floats(0, 3), axis=0),
        sample(floats(2, 3), axis=[]),
        sample(exactly([[0.0, 2.0, 3.0], [0.0, 0.0, 4.0]]), axis=1),
    ]
for _name in ["cumsum", "cumprod"]:
    SAMPLES[f"relax.{_name}"] = [
        sample(floats(2, 5)),
        sample(floats(2, 5, 3), axis=-2),
        sample(floats(2, 5, 3), axis=1, exclusive=True),
        sample(floats(7, 2), exclusive=True),
        sample(floats(5, dtype="float32"), axis=0, dtype="float64"),
        sample(integers(5, 3, low=1), axis=0, exclusive=True, smooth=False),
        sample(bools(5), axis=0, smooth=False),
        sample(floats(0, 3), axis=0, exclusive=True, smooth=False),
    ]
SAMPLES["relax.cumprod"] += [
    sample(exactly([2.0, 0.0, 3.0, 0.0, 4.0]), axis=0, second_order=False),
    sample(exactly([0.0, 3.0, 4.0]), axis=0, exclusive=True, second_order=False),
]
SAMPLES["relax.median"] = [
    sample(floats(3, 5), axis=1),
    sample(floats(3, 4, 2), axis=-2, keepdims=True),
    sample(floats(5, 3)),
    sample(floats(2, 5, 3), axis=[0, 2]),
    sample(integers(5, 3), axis=0, smooth=False),
]
for _name in ["zeros", "ones"]:
    SAMPLES[f"relax.{_name}"] = [
        sample(dims(2, 5), "float32"),
        sample(dims(), "int8"),
        sample(dims(0, 7), "bfloat16"),
    ]
    SAMPLES[f"relax.{_name}_like"] = [
        sample(floats(2, 5)),
        sample(floats(), "int32"),
        sample(integers(0, 7), "float16"),
    ]
SAMPLES["relax.full"] = [
    sample(dims(2, 5), floats()),
    sample(dims(), floats(), "float64"),
    sample(dims(0, 7), floats(), "int32", smooth=False),
    sample(dims(5), floats(dtype="float32"), "float64"),
]
SAMPLES["relax.full_like"] = [
    sample(floats(2, 5), floats()),
    sample(integers(3), floats(), "float64"),
    sample(floats(0, 7, dtype="bfloat16"), floats(dtype="float32"), smooth=False),
]
SAMPLES["relax.eye"] = [
    sample(3),
    sample(3, 5, -1, "int32"),
    sample(0, 2, dtype="bool"),
]
SAMPLES["relax.eye_like"] = [
    sample(floats(5, 7)),
    sample(floats(2, 3), 1, "int32"),
    sample(integers(0, 3)),
]
SAMPLES["relax.arange"] = [
    sample(5),
    sample(1, 10, 2),
    sample(7, -3, -3, "float32"),
    sample(0.5, 3.0),
    sample(3, 3),
]
for _name in ["tril", "triu"]:
    SAMPLES[f"relax.{_name}"] = [
        sample(floats(5, 7)),
        sample(floats(2, 5, 3), 1),
        sample(floats(3, 3), -2),
        sample(integers(5, 5), smooth=False),
    ]
SAMPLES["relax.hamming_window"] = [
    sample(10, True, 0.54, 0.46, "float32"),
    sample(7, False, 0.5, 0.5, "float64"),
    sample(1, False, 0.54, 0.46, "float16"),
]
SAMPLES["relax.astype"] = [
    sample(floats(2, 5), "float64"),
    sample(floats(5, dtype="float32"), "float64"),
    sample(floats(dtype="float64"), "int32"),
    sample(bools(0, 3), "float32"),
    sample(floats(3), "bfloat16", smooth=False),
]
SAMPLES["relax.wrap_param"] = [
    sample(floats(2, 5)),
    sample(floats(3, dtype="float32"), "float64"),
    sample(floats(), "bfloat16", smooth=False),
]
SAMPLES["relax.reshape"] = [
    sample(floats(2, 5, 3), dims(5, 6)),
    sample(floats(2, 5, 4), (-1, 2)),
    sample(floats(2, 5, 4), (0, 0, 2, -1)),
    sample(floats(), (1, 1)),
    sample(floats(0, 3), (3, 0)),
    sample(floats(7, 2), (-1,)),
]
SAMPLES["relax.flatten"] = [sample(floats(2, 5)), sample(floats()), sample(floats(0, 7))]
SAMPLES["relax.expand_dims"] = [
    sample(floats(2, 5), 1),
    sample(floats(5, 7), [-1, 0]),
    sample(floats(), [0, 1]),
    sample(floats(3), []),
]
SAMPLES["relax.squeeze"] = [
    sample(floats(2, 1, 5, 1), [1, -1]),
    sample(floats(1, 3, 1)),
    sample(floats(1, 5), 0),
    sample(floats(3, 1), 0),
]
SAMPLES["relax.broadcast_to"] = [
    sample(floats(2, 1, 5), dims(3, 2, 7, 5)),
    sample(floats(), dims(2, 3)),
    sample(floats(5), dims(5)),
    sample(floats(1), dims(0)),
]
SAMPLES["relax.collapse_sum_to"] = [
    sample(floats(3, 2, 5), dims(2, 1)),
    sample(floats(2, 5), dims()),
    sample(floats(5, 7), dims(5, 7)),
    sample(floats(3, 0, dtype="bfloat16"), dims(3, 1), smooth=False),
]
SAMPLES["relax.collapse_sum_like"] = [
    sample(floats(3, 2, 5), floats(2, 1)),
    sample(floats(7, 5), floats(dtype="float32")),
    sample(floats(5), floats(5)),
]
SAMPLES["relax.permute_dims"] = [
    sample(floats(2, 5, 3)),
    sample(floats(2, 5, 3), [1, -1, 0]),
    sample(floats()),
    sample(floats(0, 7), [-1, -2]),
]
SAMPLES["relax.flip"] = [sample(floats(2, 5), 0), sample(floats(2, 5), -1), sample(floats(0), 0)]
SAMPLES["relax.reverse_sequence"] = [
    sample(floats(3, 5), exactly([5, 0, 2], "int32")),
    sample(floats(4, 2, 3), exactly([1, 4], "int64"), seq_axis=0, batch_axis=-2),
    sample(floats(5, 7), integers(5, high=8)),
]
SAMPLES["relax.concat"] = [
    sample([floats(2, 5), floats(2, 3)], axis=1),
    sample([floats(5, 3), floats(7, 3), floats(2, 3)], axis=-2),
    sample([floats(3), floats(0)], axis=None),
    sample([floats(2, 3)]),
    sample([integers(5), integers(2)], smooth=False),
]
SAMPLES["relax.split"] = [
    sample(floats(2, 6), 3, 1),
    sample(floats(2, 7), 3, -1),
    sample(floats(7, 2), [2, 5]),
    sample(floats(2, 4), [1, 3, 9], 1),
    sample(floats(4), [3, 1], smooth=False),
    sample(floats(5, 2), 1),
    sample(floats(4), []),
    sample(floats(5), 3),
]
SAMPLES["relax.stack"] = [
    sample([floats(2, 5), floats(2, 5)], axis=1),
    sample([floats(2, 5), floats(2, 5), floats(2, 5)], axis=-1),
    sample([floats(), floats()]),
    sample([floats(7)]),
]
SAMPLES["relax.tile"] = [
    sample(floats(2, 5), 2),
    sample(floats(5), (3, 1, 2)),
    sample(floats(2, 5, 3), (2, 1)),
    sample(floats(), (2,)),
]
SAMPLES["relax.repeat"] = [
    sample(floats(2, 5), 2),
    sample(floats(2, 5, 3), 3, -2),
    sample(floats(5, 2), 2, 0),
    sample(floats(), 3),
]
SAMPLES["relax.meshgrid"] = [
    sample([floats(5), floats(3)]),
    sample([floats(5), floats(3), floats(2)], "xy"),
    sample([floats(7)], "xy"),
]
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
for _name in ["no_grad", "start_checkpoint", "end_checkpoint"]:
    SAMPLES[f"relax.grad.{_name}"] = [
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
SAMPLES["relax.nn.prelu"] = [
    sample(floats(2, 5), floats(5)),
    sample(floats(2, 5, 3), floats(1)),
    sample(floats(5, 3, 2), floats(2), axis=-1),
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
_LOSSES = [
    ((5, 3), (5,), 3),
    ((2, 3, 5), (2, 5), 3),
    ((3,), (), 3),
]
for _name in ["nn.nll_loss", "grad.nll_loss_backward"]:
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
    sample(exactly(True, "bool"), [floats(5), integers()], format="{} {}"),
    sample(True),
]
SAMPLES["relax.tensor_to_shape"] = [
    sample(const(np.array([2, 5]), "int64")),
    sample(const(np.array([]), "int64")),
    sample(const(np.array([0]), "int32")),
]

SAMPLES["relax.strided_slice"] = [
    sample(floats(7, 5), [0], [1], [5]),
    sample(floats(2, 8), [1, 0], [7, 0], [-20, 1], [-2, 1]),
    sample(floats(2, 8), [-1], [-3], [100]),
    sample(floats(8), [0], [6], [2], [-3]),
    sample(floats(8), [0], [5], [1]),
    sample(floats(3, 9), [1], [1], [8], [3], assume_inbound=True),
    sample(floats(3), [], [], []),
]
SAMPLES["relax.slice_scatter"] = [
    sample(floats(4, 5), floats(2, 5), 0, 4, 2, axis=0),
    sample(floats(2, 7), floats(2, 3), 1, 4, 1, axis=-1),
    sample(floats(5), floats(0), 2, 2, 1),
    sample(integers(8), integers(2), 1, 7, 3, smooth=False),
]
SAMPLES["relax.gather_elements"] = [
    sample(floats(2, 5), integers(2, 3, high=5, dtype="int64"), 1),
    sample(floats(5, 7), integers(5, 7, high=5, dtype="int64"), -2),
    sample(floats(3), integers(0, dtype="int64")),
]
SAMPLES["relax.scatter_elements"] = [
    sample(floats(2, 5), exactly([[4, 0, 2], [1, 3, 0]], "int64"), floats(2, 3), axis=1),
    sample(
        floats(5, 2), integers(7, 2, high=5, dtype="int64"), floats(7, 2), axis=-2, reduction="add"
    ),
    *[
        sample(
            positive(5), exactly([0, 4, 1], "int64"), positive(3), reduction=r, second_order=False
        )
        for r in ("mean", "max", "min")
    ],
    # JAX has no derivative of this one to compare with: tests/ops/test_gathering.py has.
    sample(floats(5), exactly([0, 4, 1], "int64"), floats(3), reduction="mul", smooth=False),
    sample(integers(5), integers(3, dtype="int64"), integers(3), smooth=False),
]
SAMPLES["relax.gather_nd"] = [
    sample(floats(2, 3, 5), exactly([[0, 1], [1, 2], [0, 1]], "int64")),
    sample(floats(3, 5), integers(7, 1, high=3, dtype="int64")),
    sample(floats(2, 3, 4), integers(2, 5, 1, high=3, dtype="int64"), 1, second_order=False),
]
SAMPLES["relax.scatter_nd"] = [
    sample(floats(2, 5), exactly([[0, 1], [1, 2]], "int64"), floats(2)),
    sample(floats(3, 5), integers(7, 1, high=3), floats(7, 5), "add"),
    sample(positive(5), exactly([[0], [4]], "int32"), positive(2), "mul", smooth=False),
    sample(positive(5), exactly([[0], [4]], "int32"), positive(2), "max", second_order=False),
]
SAMPLES["relax.index_tensor"] = [
    sample(floats(2, 3, 5), [integers(7, high=2), integers(2, 1, high=3)]),
    sample(floats(5, 3), [integers(2, high=5, dtype="int64")]),
    sample(floats(3), [integers(0)]),
]
SAMPLES["relax.index_put"] = [
    sample(floats(2, 5), [exactly([0, 1], "int64"), exactly([1, 1], "int64")], floats(2)),
    sample(floats(5, 3), [integers(7, high=5), integers(7, high=3)], floats(7), True),
    sample(floats(5, 3), integers(2, high=5), floats(2, 3), accumulate=True),
]
SAMPLES["relax.one_hot"] = [
    sample(integers(2, 5), 1, 0, 3),
    sample(integers(5), PrimExpr(1.0, "float32"), PrimExpr(-0.5, "float32"), 4, 0),
    sample(integers(dtype="int64"), 1.0, 0.0, 2),
]
SAMPLES["relax.dynamic_strided_slice"] = [
    sample(
        floats(7, 5),
        *[const(np.array(v), "int64") for v in ((1, 4), (5, -6), (2, -1))],
        smooth=False,
    ),
    sample(floats(4), *[const(np.array([v]), "int64") for v in (0, 9, 1)], smooth=False),
    sample(floats(0), *[const(np.array([v]), "int64") for v in (0, 0, 1)], smooth=False),
]

SAMPLES["relax.einsum"] = [
    sample([floats(2, 5), floats(5, 3)], "ij,jk->ik"),
    sample([floats(3, 5), floats(5, 3)], "ij,ji"),
    sample([floats(3, 3)], "ii->i"),
    sample([floats(3, 3)], "ii"),
    sample([floats(2, 5, 3), floats(7)], "ijk,l->ki"),
    sample([floats(2, 5, 3), floats(3, 4)], "...ij,jk->...ik"),
    sample([floats(2, 1, 3), floats(5, 3)], "...i,...i->..."),
    sample([integers(5, 2), integers(5)], "ij,i->j", smooth=False),
]
for _name in ["sort", "argsort"]:
    SAMPLES[f"relax.{_name}"] = [
        sample(floats(2, 5)),
        sample(floats(5, 3), axis=0, descending=True),
        sample(integers(7, high=3)),
        sample(floats(0, 3), axis=-2),
    ]
SAMPLES["relax.topk"] = [
    sample(floats(2, 5), k=2),
    sample(floats(5, 3), k=2, axis=0, largest=False, dtype="int64"),
    sample(floats(2, 5), k=0, ret_type="values"),
    sample(floats(2, 3), k=9, axis=-2, ret_type="indices"),
    sample(integers(7), k=3, smooth=False),
]
SAMPLES["relax.unique"] = [
    sample(const(np.array([3, 1, 3, 2]), "int32")),
    sample(const(np.array([[3, 1], [3, 1]]), "float32"), True, True, True, True),
    sample(const(np.array([[3, 1], [3, 1]]), "float32"), return_counts=True, axis=0),
]
SAMPLES["relax.nonzero"] = [
    sample(const(np.array([[3, 0], [0, 1]]), "int32")),
    sample(const(np.array([0.0, 0.0]), "float32")),
    sample(const(np.array(True), "bool")),
]
SAMPLES["relax.multinomial_from_uniform"] = [
    sample(
        exactly(np.full((3, 4), 0.25)),
        floats(5, 1, low=0, high=1),
        integers(5, 1, high=3, dtype="int64"),
    ),
    sample(
        exactly(np.full((2, 2), 0.5)), exactly([[0.999], [0.0]]), integers(2, 1, high=2), "int32"
    ),
    sample(
        exactly(np.full((1, 1), 1.0)), floats(0, 1, low=0, high=1), integers(0, 1, dtype="int64")
    ),
]
SAMPLES["relax.ewise_fma"] = [
    sample(floats(2, 5), floats(2, 5), floats(2, 5)),
    sample(floats(), floats(), floats()),
    sample(integers(0, 7), integers(0, 7), integers(0, 7), smooth=False),
]

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
SAMPLES["relax.nn.conv3d_transpose"] = [
    sample(floats(1, 2, 2, 3, 2), floats(2, 2, 2, 2, 2), second_order=False),
    sample(floats(1, 2, 2, 2, 2), floats(2, 1, 2, 2, 2), 2, 1, 1, groups=2, second_order=False),
    sample(floats(1, 2, 1, 1, 5), floats(2, 2, 1, 1, 1), second_order=False),
]

_POOLS = {
    1: [
        (floats(2, 3, 5), (2, 3, 2), {"pool_size": 2, "strides": 2}),
        (floats(1, 7, 2), (1, 4, 2), {"pool_size": 3, "strides": 2, "padding": 1, "layout": "NWC"}),
        (floats(2, 1, 6), (2, 1, 3), {"pool_size": 2, "strides": 2, "dilation": 2, "ceil_mode": True}),
    ],
    2: [
        (floats(2, 3, 5, 4), (2, 3, 2, 2), {"pool_size": 2, "strides": 2}),
        (floats(1, 2, 5, 6), (1, 2, 3, 4), {"pool_size": (3, 2), "strides": 2, "padding": 1,
            "ceil_mode": True}),
        (floats(1, 6, 7, 2), (1, 2, 3, 4), {"pool_size": 2, "strides": (2, 2), "layout": "NHWC",
            "padding": (0, 0, 0, 1), "out_layout": "NCHW"}),
        (floats(1, 1, 9, 9), (1, 1, 1, 1), {"pool_size": 9}),
        (floats(1, 2, 5, 5), (1, 2, 3, 3), {"pool_size": 2, "dilation": 2, "count_include_pad": True}),
    ],
    3: [
        (floats(1, 2, 3, 4, 4), (1, 2, 2, 3, 3), {"pool_size": 2}),
        (floats(1, 2, 5, 2, 2), (1, 2, 3, 2, 2), {"pool_size": 2, "strides": 2, "padding": 1,
            "count_include_pad": False}),
        (floats(1, 2, 2, 3, 1), (1, 1, 2, 2, 1), {"pool_size": (2, 1, 2), "layout": "NDHWC"}),
    ],
}  # fmt: skip
for _count, _cases in _POOLS.items():
    for _kind in ("max", "avg"):
        SAMPLES[f"relax.nn.{_kind}_pool{_count}d"] = [
            sample(data, **attrs, second_order=_count < 2) for data, _, attrs in _cases
        ]
        SAMPLES[f"relax.grad.{_kind}_pool{_count}d_backward"] = [
            sample(floats(*out), data, **attrs, second_order=_count < 2)
            for data, out, attrs in _cases
        ]
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
    sample(
        *[floats(1, 5, 1, 2)] * 3, floats(1, 1, 1, 5), causal_mask="TopLeft", second_order=False
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
    sample(*[floats(1, 3, 2, 2)] * 3, second_order=False),
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
