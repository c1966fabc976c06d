"""Samples of integers and of floats of 16 bits, of the operators whose other samples are wide."""

from typing import Any

import numpy as np
from operator_samples import Array, Sample, dims, exactly, floats, integers, positive, sample
from samples_vision import detections, regions

from relaxjax.ir.expr import const


def _bf16(*shape: int, **bounds: Any) -> Array:
    return floats(*shape, dtype="bfloat16", **bounds)


def _f16(*shape: int, **bounds: Any) -> Array:
    return floats(*shape, dtype="float16", **bounds)


def _rough(*args: Any, **attrs: Any) -> list[Sample]:
    return [sample(*args, smooth=False, **attrs)]


_BLOCKS = (exactly([1, 0], "int32"), exactly([0, 2], "int32"))
_SEQUENCES = (exactly([0, 2, 3], "int32"), exactly(2, "int32"))
SAMPLES: dict[str, list[Sample]] = {
    "relax.broadcast_to": _rough(integers(2, 1), dims(2, 3)),
    "relax.collapse_sum_like": _rough(_bf16(2, 3), _bf16(1)),
    "relax.compiler_end": _rough(_bf16(2), "mine"),
    "relax.expand_dims": _rough(integers(2), [-2]),
    "relax.flatten": _rough(_bf16(2, 2)),
    "relax.flip": _rough(integers(2, 3), -2),
    "relax.full": _rough(dims(2), integers(), "bfloat16"),
    "relax.meshgrid": _rough([integers(3), integers(2)]),
    "relax.permute_dims": _rough(integers(2, 3)),
    "relax.print": _rough(_bf16(2), format="{}"),
    "relax.repeat": _rough(integers(2, 3), 2, -1),
    "relax.reshape": _rough(_bf16(2, 3), (3, -1)),
    "relax.split": [*_rough(_f16(2, 5), [2], -1), *_rough(integers(5), 2)],
    "relax.squeeze": _rough(integers(1, 3), -2),
    "relax.stack": _rough([integers(3), integers(3)], axis=-2),
    "relax.strided_slice": _rough(integers(2, 6), [-1], [-1], [-9], [-2]),
    "relax.tile": _rough(integers(2), 3),
    "relax.wrap_param": _rough(_f16(2, 3)),
    "relax.dynamic_strided_slice": _rough(
        integers(5, 2), *(const(np.array(v), "int64") for v in ((-1, 0), (-9, 2), (-2, 1)))
    ),
    "relax.unique": [sample(const(np.array([[2, 1, 2], [3, 1, 3]]), "int8"), axis=-1)],
    "relax.gather_elements": _rough(_bf16(2, 3), integers(2, 2, high=3, dtype="int64"), -1),
    "relax.reverse_sequence": _rough(integers(2, 3), exactly([3, 1], "int64")),
    "relax.index_tensor": _rough(_bf16(2, 3), [exactly([1, 0, -1], "int32")]),
    "relax.index_put": _rough(integers(5), [exactly([4, 0, 4], "int32")], integers(3), True),
    "relax.scatter_nd": _rough(integers(5), exactly([[4], [0]], "int32"), integers(2), "min"),
    "relax.multinomial_from_uniform": _rough(
        exactly([[0.25, 0.0, 0.75]], "float16"),
        exactly([[0.2], [0.3], [0.9]], "float16"),
        exactly([[0], [0], [0]], "int64"),
    ),
    "relax.gather_nd": _rough(integers(2, 3), exactly([[0, 2], [1, 1]], "int64")),
    "relax.take": [
        *_rough(_bf16(3, 2), integers(2, high=2), axis=-1),
        # Before the first element there is nothing either.
        *_rough(floats(3, 2), exactly([-1, 2, 3, -4], "int32"), axis=0, mode="nan"),
        *_rough(_f16(2, 3), exactly([[-1], [5]], "int64"), axis=-1, mode="nan"),
    ],
    "relax.grad.take_backward": _rough(_bf16(2, 3), _bf16(2, 5), exactly([4, 4, 0], "int32"), -1),
    "relax.grad.rows": _rough(_bf16(3, 2), exactly([4, 4, 0], "uint8"), dims(5, 2)),
    "relax.grad.summed_rows": _rough(_bf16(3, 2), exactly([4, 4, 0], "int8"), dims(5, 2)),
    "relax.grad.put_rows": _rough(integers(5), integers(2), exactly([4, 0], "uint8")),
    "relax.logsumexp": _rough(_f16(2, 3), axis=[-1]),
    "relax.nn.adaptive_avg_pool1d": _rough(_bf16(1, 2, 5), 3),
    "relax.nn.adaptive_avg_pool3d": _rough(_f16(1, 2, 3, 2, 2), (2, 1, 2)),
    "relax.nn.attention_bias": _rough(*[_f16(1, 3, 2, 2)] * 3, _f16(1, 2, 3, 3)),
    "relax.nn.masked_attention": _rough(
        *[_f16(1, 3, 2, 2)] * 3, exactly([[[[True, False, True]]]], "bool")
    ),
    "relax.nn.attention_var_len": _rough(*[_bf16(1, 3, 2, 2)] * 3, *_SEQUENCES),
    "relax.grad.attention_bias_backward": _rough(*[_f16(1, 3, 1, 2)] * 4, _f16(1, 1, 1, 3)),
    "relax.grad.masked_attention_backward": _rough(
        *[_f16(1, 3, 1, 2)] * 4, exactly([[[[True, False, True]]]], "bool")
    ),
    "relax.grad.attention_var_len_backward": _rough(*[_bf16(1, 3, 1, 2)] * 4, *_SEQUENCES),
    "relax.nn.batch_flatten": _rough(integers(2, 3, 2)),
    "relax.nn.batch_norm": _rough(
        _bf16(5, 3), *[_bf16(3)] * 3, positive(3, dtype="bfloat16"), axis=-1, training=False
    ),
    "relax.nn.group_norm": _rough(_f16(2, 4, 3), _f16(4), _f16(4), 2, 1, [-1]),
    "relax.nn.instance_norm": _rough(_bf16(2, 3, 4), _bf16(3), _bf16(3), -2, [-1]),
    "relax.nn.rms_norm": _rough(_bf16(3, 4), _bf16(4)),
    "relax.nn.conv1d": _rough(_bf16(1, 2, 6), _bf16(4, 1, 2), 2, 1, 2, 2),
    "relax.nn.conv2d": _rough(
        integers(1, 2, 4, 4, low=-5, dtype="int8"),
        integers(2, 2, 3, 2, low=-5, dtype="int8"),
        out_dtype="int32",
    ),
    "relax.nn.conv3d": _rough(_f16(1, 2, 3, 3, 2), _f16(2, 2, 2, 2, 1)),
    "relax.nn.conv1d_transpose": _rough(_bf16(1, 2, 4), _bf16(2, 2, 2), 2),
    "relax.nn.conv2d_transpose": _rough(_f16(1, 2, 3, 2), _f16(2, 1, 2, 2), 2, 1),
    "relax.nn.conv3d_transpose": _rough(_bf16(1, 2, 2, 1, 2), _bf16(2, 1, 2, 1, 2)),
    "relax.nn.dropout": _rough(_bf16(2, 3), 0.3),
    "relax.nn.nll_loss": _rough(_bf16(5, 3), integers(5, high=3, dtype="int32")),
    "relax.nn.softmax_nll_loss": _rough(_f16(5, 3), integers(5, high=3, dtype="int32")),
    "relax.grad.nll_loss_backward": _rough(
        _bf16(), _bf16(5, 3), integers(5, high=3), _bf16(3, low=0.3)
    ),
    "relax.grad.softmax_nll_loss_backward": _rough(
        _f16(2), _f16(2, 3), integers(2, high=3), reduction="none"
    ),
    "relax.nn.product_nll_loss": _rough(
        _bf16(5, 2), _bf16(2, 3), integers(5, high=3, dtype="int32"), _bf16(3)
    ),
    "relax.grad.product_nll_loss_backward": _rough(
        _f16(2), _f16(2, 2), _f16(3, 2), integers(2, high=3), transposed=True, reduction="none"
    ),
    "relax.nn.pixel_shuffle": _rough(integers(1, 4, 2, 2), 2),
    "relax.nn.prelu": _rough(_f16(2, 3), _f16(3), axis=-1),
    "relax.nn.sparse_dense": _rough(_bf16(2, 6), _bf16(2, 2, 3), *_BLOCKS),
    "relax.grad.sparse_dense_backward": _rough(_bf16(2, 2), _bf16(2, 6), _bf16(2, 2, 3), *_BLOCKS),
    "relax.image.resize3d": _rough(_bf16(1, 1, 2, 3, 2), dims(3, 2, 4)),
    "relax.grad.resize2d_backward": _rough(_bf16(1, 1, 2, 5), _bf16(1, 1, 3, 4), dims(2, 5)),
    "relax.grad.resize3d_backward": _rough(_f16(1, 1, 3, 2, 1), _f16(1, 1, 2, 3, 2), dims(3, 2, 1)),
    "relax.grad.grid_sample_backward": _rough(
        _bf16(1, 1, 2, 2),
        _bf16(1, 1, 3, 3),
        floats(1, 2, 2, 2, dtype="float32", low=-0.9, high=0.9),
    ),
    "relax.grad.roi_align_backward": _rough(
        _f16(1, 1, 2, 2), _f16(1, 1, 3, 3), regions(1, 1, 2.0, "float32"), 2, 1.0, 1
    ),
    "relax.grad.roi_pool_backward": _rough(
        _bf16(1, 1, 2, 2), _bf16(1, 1, 4, 4), regions(1, 1, 3.0, "float32"), 2, 1.0
    ),
    "relax.vision.non_max_suppression": _rough(
        detections(1, 4, dtype="float16"), exactly([3], "int32"), integers(1, 4)
    ),
    "relax.vision.all_class_non_max_suppression": _rough(
        positive(1, 3, 4, dtype="float16"),
        positive(1, 2, 3, dtype="float16"),
        *(const(np.array(v), t) for v, t in ((2, "int64"), (0.5, "float32"), (0, "float32"))),
        output_format="tensorflow",
    ),
    "relax.vision.get_valid_counts": _rough(detections(1, 4, dtype="float16"), 0.3),
}
for _kind in ("max", "avg"):
    for _count, _make in ((1, _bf16), (2, _f16), (3, _bf16)):
        _data, _result = (1, 2, *[4] * _count), (1, 2, *[2] * _count)
        SAMPLES[f"relax.nn.{_kind}_pool{_count}d"] = _rough(_make(*_data), 2, 2)
        SAMPLES[f"relax.grad.{_kind}_pool{_count}d_backward"] = _rough(
            _make(*_result), _make(*_data), 2, 2
        )
SAMPLES["relax.nn.max_pool2d"] += _rough(integers(1, 1, 3, 4, low=-9, dtype="int8"), 2, 1, 1)
