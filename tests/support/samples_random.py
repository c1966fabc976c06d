"""Samples of the operators that draw random numbers."""

from operator_samples import Sample, dims, exactly, floats, integers, positive, sample

from relaxjax.ir.expr import Expr
from relaxjax.ops import random

SAMPLES: dict[str, list[Sample]] = {}


def _key(seed: int) -> Expr:
    return random.key(seed)


SAMPLES["relax.random.key"] = [
    sample(3),
    sample(integers(high=90, dtype="uint32")),
    sample(2**40 + 1, impl="rbg"),
]
SAMPLES["relax.random.split"] = [sample(_key(0)), sample(_key(1), 5), sample(_key(2), (3, 0))]
SAMPLES["relax.random.fold_in"] = [
    sample(_key(0), 7),
    sample(_key(1), integers(dtype="int64")),
    sample(random.key(0, "unsafe_rbg"), integers(dtype="uint8")),
]
SAMPLES["relax.random.uniform"] = [
    sample(_key(0), dims(2, 5), floats(5, high=0.3), positive(2, 1), dtype="float64"),
    sample(_key(1), dims(), -3.0, positive(dtype="float32")),
    sample(_key(2), dims(0, 7), dtype="bfloat16"),
    sample(_key(3), dims(7), integers(low=-3), 2),
]
SAMPLES["relax.random.normal"] = [
    sample(_key(0), dims(2, 5)),
    sample(_key(1), dims(), "float64"),
    sample(_key(2), dims(0, 7), "bfloat16"),
]
SAMPLES["relax.random.bernoulli"] = [
    sample(_key(0)),
    sample(_key(1), exactly([0.1, 0.9]), dims(5, 2)),
    sample(_key(2), positive(3, 7, dtype="float16")),
    sample(_key(3), 0.3, dims(0, 5)),
]
SAMPLES["relax.random.randint"] = [
    sample(_key(0), dims(2, 5), 0, 10),
    sample(_key(1), dims(7), integers(7, low=-3, high=0), exactly(4, "int64"), "int64"),
    sample(_key(2), dims(), 0, 2**31, "uint8"),
]
SAMPLES["relax.random.categorical"] = [
    sample(_key(0), floats(2, 5)),
    sample(_key(1), floats(2, 5, 3), axis=1),
    sample(_key(2), floats(5, 2), dims(3, 2), axis=0),
    sample(_key(3), floats(7, dtype="bfloat16")),
]
