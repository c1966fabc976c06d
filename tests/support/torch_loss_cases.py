"""Losses of `torch.nn` with options that losses here do not have, and what they are tried on."""

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
# A loss with its options, the scores, and the targets.
Case = tuple[str, dict[str, Any], Array, Array]

RANDOM = np.random.default_rng(0)
SCORES = RANDOM.normal(size=(4, 5)).astype("float32")
IMAGES = RANDOM.normal(size=(2, 5, 3)).astype("float32")
IDS, PIXELS = np.array([0, 2, 1, 4]), np.array([[0, 1, 4], [1, 3, 0]])
WEIGHT = np.array([0.5, 1.5, 2.0, 0.25, 1.0], "float32")


def _softmax(scores: Array) -> Array:
    found: Array = np.exp(scores)
    shares: Array = found / found.sum(1, keepdims=True)
    return shares


SHARES = _softmax(RANDOM.normal(size=(4, 5)).astype("float32"))
YES = (SCORES > 0.2).astype("float32")
SIGNS = 2 * YES - 1
COUNTS = np.floor(5 * np.random.default_rng(1).random((4, 5))).astype("float32")
LOG_P, LOG_IMAGES = np.log(_softmax(SCORES)), np.log(_softmax(IMAGES))
CHANCES = 1 / (1 + np.exp(-SCORES))
IMAGE_SHARES = _softmax(RANDOM.normal(size=(2, 5, 3)).astype("float32"))

MEANS: dict[str, Case] = {
    "classes": ("CrossEntropyLoss", {"weight": WEIGHT, "ignore_index": 1}, SCORES, IDS),
    "smoothed": (
        "CrossEntropyLoss",
        {"weight": WEIGHT, "ignore_index": 1, "label_smoothing": 0.2},
        IMAGES,
        PIXELS,
    ),
    "shares": ("CrossEntropyLoss", {"weight": WEIGHT, "label_smoothing": 0.1}, SCORES, SHARES),
    "likelihood": ("NLLLoss", {"weight": WEIGHT}, LOG_IMAGES, PIXELS),
    "chances": ("BCELoss", {"weight": WEIGHT}, CHANCES, YES),
    "logits": ("BCEWithLogitsLoss", {"weight": WEIGHT, "pos_weight": 2 * WEIGHT}, SCORES, YES),
    "distances": ("HingeEmbeddingLoss", {"margin": 0.5}, SCORES, SIGNS),
    "margins": ("MultiMarginLoss", {"p": 2, "margin": 0.7, "weight": WEIGHT}, SCORES, IDS),
    "many labels": ("MultiLabelSoftMarginLoss", {"weight": WEIGHT}, SCORES, YES),
    "counts": ("PoissonNLLLoss", {"full": True}, SCORES, COUNTS),
    "rates": ("PoissonNLLLoss", {"log_input": False, "eps": 1e-3}, CHANCES, COUNTS),
    "signs": ("SoftMarginLoss", {}, SCORES, SIGNS),
    "divergence": ("KLDivLoss", {}, LOG_P, SHARES),
    "logarithms": ("KLDivLoss", {"log_target": True}, LOG_IMAGES, np.log(IMAGE_SHARES)),
}
CASES: dict[str, Case] = {
    f"{name}, {reduction}": (kind, {**options, "reduction": reduction}, predictions, targets)
    for name, (kind, options, predictions, targets) in MEANS.items()
    for reduction in ("mean", "none")
}
CASES["by samples"] = ("KLDivLoss", {"reduction": "batchmean"}, LOG_IMAGES, IMAGE_SHARES)
