"""Samples of tensors without elements, of the operators whose other samples have some."""

import numpy as np
from operator_samples import Sample, dims, exactly, floats, integers, positive, sample
from samples_vision import detections, regions

from relaxjax.ir.expr import const
from relaxjax.ops.random import key

SAMPLES: dict[str, list[Sample]] = {
    "relax.acosh": [sample(floats(0, 2))],
    "relax.bitwise_not": [sample(integers(0, 3))],
    "relax.logit": [sample(floats(0))],
    "relax.polygamma": [sample(positive(2, 0), 2)],
    "relax.power": [sample(positive(0, 3), floats(3))],
    "relax.quantize": [
        sample(
            floats(0, 3, dtype="float32"),
            positive(3, dtype="float32"),
            integers(3, dtype="int8"),
            smooth=False,
        )
    ],
    "relax.dequantize": [
        sample(
            integers(0, 3, dtype="int8"), exactly(0.05, "float32"), exactly(3, "int8"), smooth=False
        )
    ],
    # Of nothing there is no largest element, but there are no rows either.
    **{
        f"relax.{name}": [sample(floats(0, 5), axis=-1, smooth=False)]
        for name in ("argmax", "argmin", "max", "min", "median", "logsumexp")
    },
    # 0 / 0 is not a number.
    **{
        f"relax.{name}": [
            sample(floats(0, 5), axis=-1, smooth=False),
            sample(floats(0, 5), axis=0, smooth=False),
        ]
        for name in ("mean", "variance", "std")
    },
    "relax.bucketize": [
        sample(floats(0, 2), exactly([-1.0, 1.0])),
        sample(floats(5), exactly([]), right=True),
    ],
    "relax.topk": [sample(floats(0, 5), k=2, smooth=False)],
    "relax.tril": [sample(floats(0, 3))],
    "relax.triu": [sample(floats(3, 0), -1)],
    "relax.broadcast_to": [sample(floats(0, 1), dims(2, 0, 3))],
    "relax.collapse_sum_like": [sample(floats(3, 0, 2), floats(0, 1))],
    "relax.expand_dims": [sample(floats(0, 3), -1)],
    "relax.squeeze": [sample(floats(1, 0, 1))],
    "relax.reshape": [sample(floats(0), (1, 0, 2))],
    "relax.repeat": [sample(floats(0, 2), 2, 0)],
    "relax.reverse_sequence": [sample(floats(2, 0), exactly([0, 0], "int32"))],
    "relax.split": [sample(floats(0, 4), 2, 1)],
    "relax.stack": [sample([floats(0, 2), floats(0, 2)], axis=-1)],
    "relax.tile": [sample(floats(0, 2), (2, 3)), sample(floats(2, 3), (0, 1))],
    "relax.meshgrid": [sample([floats(0), floats(3)])],
    "relax.layout_transform": [sample(floats(0, 3), "AB -> BA")],
    "relax.strided_slice": [sample(floats(0, 4), [0, 1], [0, 4], [9, 0], [1, -2])],
    "relax.take": [sample(floats(0, 3), integers(2, high=3), axis=-1)],
    "relax.grad.take_backward": [
        sample(floats(2, 0), floats(2, 5), integers(0, high=5), axis=-1, smooth=False)
    ],
    "relax.grad.rows": [sample(floats(0, 3), integers(0), dims(5, 3))],
    "relax.grad.summed_rows": [sample(floats(0, 3), integers(0), dims(5, 3))],
    "relax.grad.put_rows": [sample(floats(5, 3), floats(0, 3), integers(0))],
    "relax.gather_nd": [sample(floats(3, 5), integers(0, 1, dtype="int64"))],
    "relax.scatter_nd": [sample(floats(2, 5), integers(0, 1, dtype="int64"), floats(0, 5))],
    "relax.scatter_elements": [sample(floats(5), integers(0, dtype="int64"), floats(0))],
    "relax.index_put": [sample(floats(2, 5), [integers(0), integers(0)], floats(0))],
    "relax.one_hot": [sample(integers(0, 3), 1.0, 0.0, 2, 0)],
    "relax.einsum": [sample([floats(2, 0), floats(0, 3)], "ij,jk->ik")],
    "relax.unique": [sample(const(np.zeros(0), "float32"), True, True, True, True)],
    "relax.nonzero": [sample(const(np.zeros((0, 2)), "int32"))],
    "relax.print": [sample(floats(0), format="{}")],
    "relax.assert_op": [sample(True, floats(0, 2), format="{}")],
    "relax.random.randint": [sample(key(0), dims(0, 2), 0, 9)],
    "relax.random.categorical": [sample(key(0), floats(0, 5))],
    "relax.wrap_param": [sample(floats(0, 2))],
    "relax.grad.delay": [sample(floats(0, 2), floats(3))],
    "relax.grad.once": [sample(floats(0, 2))],
    "relax.memory.to_host": [sample(floats(0, 2))],
    "relax.memory.to_device": [sample(floats(0, 2), floats(3))],
    "relax.nn.softmax": [sample(floats(0, 5))],
    "relax.nn.log_softmax": [sample(floats(0, 5))],
    "relax.nn.prelu": [sample(floats(0, 5), floats(5))],
    "relax.nn.cross_entropy_with_logits": [sample(floats(0, 5), floats(0, 5), smooth=False)],
    **{
        f"relax.nn.{name}": [
            sample(floats(0, 3), integers(0, high=3, dtype="int64"), reduction=r, smooth=False)
            for r in ("none", "sum", "mean")
        ]
        for name in ("nll_loss", "softmax_nll_loss")
    },
    **{
        f"relax.grad.{name}_backward": [
            sample(floats(*g), floats(0, 3), integers(0, high=3, dtype="int64"), reduction=r)
            for g, r in (((0,), "none"), ((), "sum"))
        ]
        for name in ("nll_loss", "softmax_nll_loss")
    },
    "relax.nn.product_nll_loss": [
        sample(floats(0, 2), floats(2, 3), integers(0, high=3, dtype="int64"), reduction=r)
        for r in ("none", "sum")
    ],
    "relax.grad.product_nll_loss_backward": [
        sample(floats(*g), floats(0, 2), floats(2, 3), integers(0, high=3), reduction=r)
        for g, r in (((0,), "none"), ((), "sum"))
    ],
    "relax.nn.layer_norm": [sample(floats(0, 3), floats(3), floats(3), axes=[-1])],
    "relax.nn.rms_norm": [sample(floats(0, 3), floats(3))],
    "relax.nn.group_norm": [sample(floats(0, 4, 3), floats(4), floats(4), 2, 1, [2])],
    "relax.nn.instance_norm": [sample(floats(0, 2, 3), floats(2), floats(2), 1, [2])],
    "relax.nn.batch_norm": [
        sample(floats(0, 3), *[floats(3)] * 3, positive(3), 1, training=False, smooth=False)
    ],
    "relax.nn.conv1d": [sample(floats(0, 3, 7), floats(4, 3, 3), smooth=False)],
    "relax.nn.conv2d": [sample(floats(0, 2, 4, 3), floats(3, 2, 2, 2), 2, smooth=False)],
    "relax.nn.conv3d": [sample(floats(0, 2, 2, 3, 3), floats(3, 2, 2, 2, 2), smooth=False)],
    "relax.nn.conv1d_transpose": [sample(floats(0, 3, 5), floats(3, 4, 3), smooth=False)],
    "relax.nn.conv2d_transpose": [sample(floats(0, 3, 4, 3), floats(3, 2, 2, 2), 2, smooth=False)],
    "relax.nn.conv3d_transpose": [
        sample(floats(0, 2, 2, 1, 3), floats(2, 2, 2, 2, 2), smooth=False)
    ],
    "relax.nn.pad": [
        sample(floats(0, 2), [1, 1, 0, 2], pad_value=0.5),
        sample(floats(0, 3), [0, 0, 1, 1], "reflect", smooth=False),
    ],
    "relax.nn.pixel_shuffle": [sample(floats(0, 4, 2, 1), 2)],
    "relax.nn.attention": [
        sample(floats(0, 3, 2, 2), *[floats(0, 5, 1, 2)] * 2, smooth=False),
        sample(floats(1, 0, 2, 2), *[floats(1, 3, 2, 2)] * 2, smooth=False),
        sample(floats(1, 3, 2, 2), *[floats(1, 0, 1, 2)] * 2, smooth=False),
    ],
    "relax.nn.attention_bias": [
        sample(*[floats(0, 3, 1, 2)] * 3, floats(1, 1, 3, 3), smooth=False)
    ],
    "relax.nn.masked_attention": [
        sample(*[floats(0, 3, 1, 2)] * 3, exactly(np.ones((1, 1, 3, 3)), "bool"), smooth=False)
    ],
    "relax.nn.attention_var_len": [
        sample(
            floats(1, 3, 1, 2),
            *[floats(1, 0, 1, 2)] * 2,
            exactly([0, 3], "int32"),
            exactly(3, "int32"),
            exactly([0, 0], "int32"),
            exactly(0, "int32"),
            smooth=False,
        )
    ],
    "relax.grad.attention_backward": [sample(*[floats(0, 3, 1, 2)] * 4, smooth=False)],
    "relax.grad.attention_bias_backward": [
        sample(*[floats(0, 3, 1, 2)] * 4, floats(1, 1, 3, 3), smooth=False)
    ],
    "relax.grad.masked_attention_backward": [
        sample(*[floats(0, 3, 1, 2)] * 4, exactly(np.ones((1, 1, 3, 3)), "bool"), smooth=False)
    ],
    "relax.grad.attention_var_len_backward": [
        sample(
            *[floats(1, 0, 1, 2)] * 4, exactly([0, 0], "int32"), exactly(0, "int32"), smooth=False
        )
    ],
    "relax.image.affine_grid": [sample(floats(0, 2, 3), dims(3, 2))],
    "relax.image.grid_sample": [
        sample(floats(0, 2, 3, 3), floats(0, 2, 2, 2), smooth=False),
        sample(floats(1, 2, 3, 3), floats(1, 2, 0, 2), smooth=False),
    ],
    "relax.grad.grid_sample_backward": [
        sample(floats(0, 2, 2, 2), floats(0, 2, 3, 3), floats(0, 2, 2, 2), smooth=False)
    ],
    "relax.image.resize2d": [sample(floats(0, 2, 3, 4), dims(2, 5), smooth=False)],
    "relax.image.resize3d": [sample(floats(1, 0, 2, 3, 2), dims(3, 2, 1), smooth=False)],
    "relax.grad.resize2d_backward": [
        sample(floats(0, 2, 2, 5), floats(0, 2, 3, 4), dims(2, 5), smooth=False)
    ],
    "relax.grad.resize3d_backward": [
        sample(floats(1, 0, 3, 2, 1), floats(1, 0, 2, 3, 2), dims(3, 2, 1), smooth=False)
    ],
    "relax.vision.roi_align": [
        sample(floats(1, 2, 3, 3), regions(0, 1, 2.0), 2, 1.0, smooth=False)
    ],
    "relax.vision.roi_pool": [sample(floats(1, 2, 3, 3), regions(0, 1, 2.0), 2, 1.0, smooth=False)],
    "relax.grad.roi_align_backward": [
        sample(floats(0, 2, 2, 2), floats(1, 2, 3, 3), regions(0, 1, 2.0), 2, 1.0, smooth=False)
    ],
    "relax.grad.roi_pool_backward": [
        sample(floats(0, 2, 2, 2), floats(1, 2, 3, 3), regions(0, 1, 2.0), 2, 1.0, smooth=False)
    ],
    "relax.vision.multibox_transform_loc": [
        sample(floats(0, 2, 3), floats(0, 12), positive(1, 3, 4), smooth=False)
    ],
    "relax.vision.non_max_suppression": [
        sample(detections(2, 0), exactly([0, 0], "int32"), integers(2, 0), smooth=False),
        sample(
            detections(0, 3),
            exactly([], "int32"),
            integers(0, 3),
            return_indices=False,
            smooth=False,
        ),
    ],
    "relax.vision.all_class_non_max_suppression": [
        sample(
            positive(0, 3, 4),
            positive(0, 2, 3),
            *(const(np.array(v), t) for v, t in ((2, "int64"), (0.5, "float32"), (0, "float32"))),
            smooth=False,
        )
    ],
}
for _kind in ("max", "avg"):
    for _count in (1, 2, 3):
        _data, _result = (0, 2, *[4] * _count), (0, 2, *[2] * _count)
        SAMPLES[f"relax.nn.{_kind}_pool{_count}d"] = [
            sample(floats(*_data), pool_size=2, strides=2, smooth=False)
        ]
        SAMPLES[f"relax.grad.{_kind}_pool{_count}d_backward"] = [
            sample(floats(*_result), floats(*_data), pool_size=2, strides=2, smooth=False)
        ]
for _count in (1, 2, 3):
    SAMPLES[f"relax.nn.adaptive_avg_pool{_count}d"] = [
        sample(floats(0, 2, *[4] * _count), 3, smooth=False)
    ]
