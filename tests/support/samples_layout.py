"""Samples of operators that bring tensors into other layouts, or to other devices or compilers."""

from operator_samples import Sample, floats, integers, sample

from relaxjax.ir.device_mesh import DeviceMesh

SAMPLES: dict[str, list[Sample]] = {
    "relax.layout_transform": [
        sample(floats(2, 5, 4), "ABC -> CAB"),
        sample(floats(2, 6, 3), "NCW -> NCW4c", 0.5),
        sample(floats(2, 3, 5, 4), "NCW4c -> NWC"),
        sample(floats(7, 8), lambda i, j: (i * 8 + j,)),
        sample(floats(24), lambda i: (i // 12, i % 4, i // 4 % 3)),
        sample(floats(5, 1), lambda i, j: (0, i // 2, i % 2)),
        sample(integers(7), "N -> 4nN", 3, smooth=False),
    ],
    "relax.to_vdevice": [
        sample(floats(2, 5), "cuda:0"),
        sample(floats(), "llvm"),
        sample(integers(0, 3), "llvm:1:global", smooth=False),
    ],
    "relax.dist.annotate_sharding": [
        sample(floats(4, 6), DeviceMesh((2,), range(2)), "S[1]"),
        sample(floats(), DeviceMesh((2, 2), range(4)), "R, R"),
        sample(integers(0, 3), DeviceMesh((3, 2), range(6)), "S[1], S[0]", smooth=False),
    ],
    "relax.dist.redistribute": [
        sample(floats(4, 6), DeviceMesh((2,), range(2)), "S[1]"),
        sample(floats(), DeviceMesh((2, 2), range(4)), "R, R"),
        sample(integers(0, 4), DeviceMesh((2, 2), range(4)), "S[1], S[1]", smooth=False),
    ],
    "relax.compiler_begin": [
        sample(floats(2, 5), "numpy"),
        sample(integers(0, 3), "pallas", smooth=False),
        sample(floats(), "mine"),
    ],
    "relax.compiler_end": [
        sample(floats(2, 5), "numpy"),
        sample(floats(), "mine"),
        sample(integers(0, 3), "pallas", smooth=False),
    ],
    "relax.hint_on_device": [
        sample(floats(2, 5), "cuda:0"),
        sample(floats(), "cpu", "global"),
        sample(integers(0, 3), "cuda:1", smooth=False),
    ],
}
