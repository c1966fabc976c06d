"""Samples of slices, gathers, scatters and sorting."""

import numpy as np
from operator_samples import Sample, exactly, floats, integers, positive, sample

from relaxjax.ir.expr import PrimExpr, const

SAMPLES: dict[str, list[Sample]] = {}

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
    # JAX has no derivative of this one to compare with: tests/ops/test_edges.py has.
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
        second_order=False,
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
    sample([floats(4, 2, 3), floats(3)], "...ik,...j->ij"),
    sample([floats(2, 1, 3, 3), floats(5, 1)], "...ii,...j->"),
    sample([floats(1, 5), floats(4, 5)], "ij,ij->ij"),
    sample([floats(1, 5), floats(4, 1)], "ij,ij->j"),
    sample([floats(4), floats(1)], "i,i->"),
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
    sample(const(np.array(2.0), "float32"), return_counts=True),
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
