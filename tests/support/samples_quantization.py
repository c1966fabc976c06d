"""Samples of quantisation."""

from operator_samples import Sample, exactly, floats, integers, positive, sample

SAMPLES: dict[str, list[Sample]] = {}

_SCALE, _OFFSET = exactly(0.05, "float32"), exactly(3, "int8")
SAMPLES["relax.quantize"] = [
    sample(floats(2, 5, dtype="float32"), _SCALE, _OFFSET),
    sample(
        floats(5, 3, dtype="float32"),
        positive(3, dtype="float32"),
        integers(3, dtype="int8"),
        axis=1,
        out_dtype="uint8",
    ),
    sample(floats(2, 7, dtype="float16"), _SCALE, _OFFSET, axis=0, out_dtype="int16"),
    sample(floats(3, dtype="float32"), _SCALE, _OFFSET, out_dtype="float8_e4m3fn"),
]
SAMPLES["relax.dequantize"] = [
    sample(integers(2, 5, low=-9, dtype="int8"), _SCALE, _OFFSET),
    sample(
        integers(5, 3, dtype="uint8"),
        positive(3, dtype="float32"),
        integers(3, dtype="int8"),
        axis=-1,
    ),
    sample(
        floats(5, 3, dtype="float32"),
        positive(5, dtype="float32"),
        floats(5, dtype="float16"),
        axis=0,
        second_order=False,
    ),
    sample(integers(7, dtype="int8"), _SCALE, _OFFSET, out_dtype="float16", smooth=False),
]

_STEP = exactly(7, "int32")
SAMPLES["relax.narrow.round"] = [
    sample(floats(2, 5, dtype="float32"), _STEP),
    sample(floats(3, 0, dtype="float16"), exactly(1, "uint32")),
    sample(floats(dtype="float64"), exactly(2**40 + 3, "int64")),
]
SAMPLES["relax.narrow.encode"] = [
    sample(floats(3, 100, dtype="float32"), _STEP),
    sample(positive(2, 5, dtype="float32"), exactly(0, "int64"), signed=False),
    sample(floats(0, 3, dtype="bfloat16"), _STEP),
    sample(floats(dtype="float64"), _STEP, signed=True),
]
SAMPLES["relax.narrow.decode"] = [
    sample(integers(3, 100, low=-127, high=128, dtype="int8"), positive(2, dtype="float32")),
    sample(integers(2, 5, high=256, dtype="uint8"), positive(1, dtype="float32")),
    sample(integers(0, 3, dtype="int8"), positive(0, dtype="float32")),
]
