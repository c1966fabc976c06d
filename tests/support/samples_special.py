"""Samples of the functions beyond those of TVM."""

from operator_samples import Sample, bools, floats, inner, integers, positive, sample

SAMPLES: dict[str, list[Sample]] = {}

_DOMAINS = {
    "log1p": positive,
    "expm1": floats,
    "exp2": floats,
    "log2": positive,
    "log10": positive,
    "cbrt": positive,
    "erfc": floats,
    "erf_inv": inner,
    "lgamma": positive,
    "digamma": positive,
    "sinc": floats,
}
for _name, _draw in _DOMAINS.items():
    SAMPLES[f"relax.{_name}"] = [
        sample(_draw(2, 5)),
        sample(_draw()),
        sample(_draw(0, 7)),
        sample(_draw(3, dtype="bfloat16"), smooth=False),
        sample(_draw(3, dtype="float16"), smooth=False),
    ]
SAMPLES["relax.logit"] = [
    sample(floats(2, 5, low=0.1, high=0.8)),
    sample(floats(low=0.1, high=0.8)),
    sample(floats(7, dtype="bfloat16", low=0.1, high=0.8), smooth=False),
]
SAMPLES["relax.polygamma"] = [
    sample(positive(2, 5), 1),
    sample(positive(), n=3),
    sample(positive(7, dtype="bfloat16"), 0, smooth=False),
]
SAMPLES["relax.logsumexp"] = [
    sample(floats(2, 5)),
    sample(floats(2, 5, 3), axis=-1),
    sample(floats(2, 5, 3), axis=[0, -1], keepdims=True),
    sample(floats()),
    sample(floats(5, 2, dtype="bfloat16"), axis=0, smooth=False),
]
SAMPLES["relax.grad.delay"] = [
    sample(floats(2, 5), floats(3)),
    sample(floats(), floats(2, 2)),
    sample(integers(4), floats(), smooth=False),
    sample(floats(3, dtype="bfloat16"), floats(1, dtype="float16"), smooth=False),
]
SAMPLES["relax.memory.to_host"] = [
    sample(floats(2, 5)),
    sample(floats()),
    sample(integers(4), smooth=False),
    sample(floats(3, dtype="bfloat16"), smooth=False),
]
SAMPLES["relax.memory.to_device"] = [
    sample(floats(2, 5), floats(3)),
    sample(floats(), floats(2, 2)),
    sample(integers(4), floats(), smooth=False),
    sample(floats(3, dtype="bfloat16"), floats(1, dtype="float16"), smooth=False),
]
SAMPLES["relax.grad.once"] = [
    sample(floats(2, 5)),
    sample(floats()),
    sample(bools(3, 4), smooth=False),
    sample(floats(3, dtype="bfloat16"), smooth=False),
    sample(floats(3, dtype="float16"), smooth=False),
]
