"""Samples of the backward operators of attention."""

from operator_samples import Sample, exactly, floats, sample

SAMPLES: dict[str, list[Sample]] = {}

SAMPLES["relax.grad.attention_backward"] = [
    sample(
        floats(1, 5, 2, 4),
        floats(1, 5, 2, 3),
        floats(1, 7, 2, 3),
        floats(1, 7, 2, 4),
        second_order=False,
    ),
    sample(
        floats(1, 3, 2, 2),
        floats(1, 3, 2, 2),
        *[floats(1, 5, 1, 2)] * 2,
        scale=0.3,
        causal_mask="BottomRight",
        window_size=2,
        smooth=False,
    ),
    sample(*[floats(1, 3, 1, 2, dtype="bfloat16")] * 4, causal_mask="TopLeft", smooth=False),
]
SAMPLES["relax.grad.attention_bias_backward"] = [
    sample(*[floats(1, 3, 2, 2)] * 4, floats(1, 2, 1, 3), second_order=False),
    sample(
        floats(2, 5, 2, 4),
        floats(2, 5, 2, 3),
        floats(2, 7, 1, 3),
        floats(2, 7, 1, 4),
        floats(2, 1, 5, 7),
        smooth=False,
    ),
    sample(*[floats(1, 5, 1, 2)] * 4, floats(1, 1, 1, 1), causal_mask="TopLeft", smooth=False),
]
SAMPLES["relax.grad.masked_attention_backward"] = [
    sample(
        floats(2, 2, 1, 2),
        *[floats(2, 2, 1, 3)] * 2,
        floats(2, 2, 1, 2),
        exactly([[[[True, False]]], [[[True, True]]]], "bool"),
        second_order=False,
    ),
    sample(
        *[floats(1, 3, 2, 2)] * 2,
        *[floats(1, 2, 1, 2)] * 2,
        exactly([[[[True, False], [False, False], [True, True]]]], "bool"),
        scale=0.3,
        hidden=-1e9,
        smooth=False,
    ),
    sample(
        *[floats(1, 2, 2, 2)] * 4,
        exactly([[[[True, False]], [[True, True]]]], "bool"),
        second_order=False,
    ),
]
SAMPLES["relax.grad.attention_var_len_backward"] = [
    sample(
        *[floats(1, 5, 1, 2)] * 4,
        exactly([0, 2, 5], "int32"),
        exactly(3, "int32"),
        causal_mask="TopLeft",
        second_order=False,
    ),
    sample(
        *[floats(1, 3, 2, 2)] * 2,
        *[floats(1, 5, 1, 2)] * 2,
        exactly([0, 1, 3], "int32"),
        exactly(2, "int32"),
        exactly([0, 4, 5], "int32"),
        exactly(4, "int32"),
        smooth=False,
    ),
    sample(
        *[floats(1, 5, 1, 2)] * 4,
        exactly([0, 0, 3], "int32"),
        exactly(3, "int32"),
        scale=0.3,
        causal_mask="BottomRight",
        window_size=2,
        smooth=False,
    ),
]
