"""Samples of reductions, creation and rearrangements."""

from operator_samples import Sample, bools, dims, exactly, floats, integers, sample

SAMPLES: dict[str, list[Sample]] = {}

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
SAMPLES["relax.cumprod"] = [
    sample(exactly([2.0, 0.0, 3.0, 0.0, 4.0]), axis=0),
    sample(exactly([0.0, 3.0, 0.0, 4.0]), axis=0, exclusive=True),
    *SAMPLES["relax.cumprod"],
]
SAMPLES["relax.linear_recurrence"] = [
    sample(floats(2, 5), floats(2, 5)),
    sample(floats(2, 5, 3), floats(2, 5, 3), axis=-2, reverse=True),
    sample(exactly([2.0, 0.0, 3.0, 0.0]), exactly([1.0, 2.0, 0.0, 4.0]), axis=0),
    sample(floats(0, 3), floats(0, 3), axis=0, smooth=False),
    sample(floats(1, 3), floats(1, 3), axis=0, reverse=True),
    sample(integers(5, 3), integers(5, 3), axis=0, smooth=False),
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
SAMPLES["relax.eye"] = [sample(3), sample(3, 5, -1, "int32"), sample(0, 2, dtype="bool")]
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
SAMPLES["relax.flatten"] = [
    sample(floats(5, 1)),
    sample(floats(2, 5)),
    sample(floats()),
    sample(floats(0, 7)),
]
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
    sample(floats(3, 2, 5), floats(1, 2, 1)),
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
for _name in ["ndim", "byte_offset", "elem_offset", "dtype_code", "dtype_bits", "dtype_lanes"]:
    SAMPLES[f"relax.inspect.tensor_{_name}"] = [
        sample(floats(2, 5)),
        sample(floats(dtype="float32")),
        sample(integers(0, 7)),
    ]
for _name in ["shape_i", "stride_i"]:
    SAMPLES[f"relax.inspect.tensor_{_name}"] = [
        sample(floats(2, 5, 3), 0),
        sample(floats(2, 5), 1),
        sample(integers(3, 0, 7), 1),
    ]
