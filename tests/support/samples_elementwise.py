"""Samples of elementwise operators."""

from operator_samples import Sample, bools, exactly, floats, inner, integers, positive, sample

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
