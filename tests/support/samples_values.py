"""Samples of the values that random ones are not: ties, signed zeros, infinities and NaN."""

from math import inf, nan

from operator_samples import Sample, exactly, sample

_FLOATS = exactly(
    [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1.0, -1.0, 20.0, -20.0, 1e30, -1e30, inf, -inf, nan]
)
_PAIRED = exactly([[0.0], [-0.0], [0.5], [-2.5], [3.0], [-1e30], [inf], [-inf], [nan]])
_INTEGERS = exactly([0, 1, -1, 7, -7, 8, 2**31 - 1, 1 - 2**31], "int32")
_DIVISORS = exactly([[1], [-1], [2], [-3], [2**31 - 1]], "int32")
_ORDERED = exactly([[1.0, nan, -1.0, inf, nan, 0.0, -0.0], [inf, 2.0, 2.0, -inf, 2.0, 1.0, 1.0]])
_UNARY = (
    "abs acos acosh asin asinh atan atanh cbrt ceil cos cosh erf erf_inv erfc exp exp2 expm1 floor "
    "isfinite isinf isnan log log10 log1p log2 logical_not logit negative nn.gelu nn.gelu_tanh "
    "nn.leakyrelu nn.relu nn.selu nn.silu nn.softplus round rsqrt sigmoid sign sin sinh sqrt "
    "square tan tanh trunc"
)
_BINARY = (
    "add atan2 divide equal floor_divide floor_mod greater greater_equal less less_equal "
    "log_add_exp logical_and logical_or logical_xor maximum minimum mod multiply not_equal power "
    "subtract"
)
_OF_INTEGERS = (
    "add bitwise_and bitwise_or bitwise_xor divide floor_divide floor_mod greater less maximum "
    "minimum mod multiply subtract"
)
_ALONG_ROWS = "argmax argmin argsort cumsum logsumexp max mean median min nn.softmax sort sum"
SAMPLES: dict[str, list[Sample]] = {}
for _name in _UNARY.split():
    SAMPLES[f"relax.{_name}"] = [sample(_FLOATS, smooth=False)]
for _name in _BINARY.split():
    SAMPLES[f"relax.{_name}"] = [sample(_FLOATS, _PAIRED, smooth=False)]
for _name in _OF_INTEGERS.split():
    SAMPLES.setdefault(f"relax.{_name}", []).append(sample(_INTEGERS, _DIVISORS, smooth=False))
for _name in _ALONG_ROWS.split():
    SAMPLES[f"relax.{_name}"] = [sample(_ORDERED, axis=-1, smooth=False)]
for _name in ("sort", "argsort"):
    SAMPLES[f"relax.{_name}"] += [sample(_ORDERED, axis=-1, descending=True, smooth=False)]
SAMPLES["relax.topk"] = [
    sample(_ORDERED, k=3, largest=largest, smooth=False) for largest in (True, False)
]
SAMPLES["relax.clip"] = [sample(_FLOATS, -1.0, 1.0, smooth=False)]
SAMPLES["relax.bucketize"] = [
    sample(_FLOATS, exactly([-1.0, 0.0, 0.5, 1.0]), right=right) for right in (False, True)
]
SAMPLES["relax.quantize"] = [
    sample(
        exactly([0.5, 1.5, 2.5, -0.5, -1.5, 300, -300, inf, -inf], "float32"),
        exactly(1.0, "float32"),
        exactly(0, "int8"),
        out_dtype=dtype,
    )
    for dtype in ("int8", "uint8")
]
