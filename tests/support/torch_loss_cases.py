"""Losses of `torch.nn` with options that losses here do not have, and what they are tried on."""

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
# A loss with its options, the outputs of a model, and what they are compared with: one or several.
Case = tuple[str, dict[str, Any], Array | tuple[Array, ...], Array | tuple[Array, ...]]

RANDOM = np.random.default_rng(0)
SCORES = RANDOM.normal(size=(4, 5)).astype("float32")
IMAGES = RANDOM.normal(size=(2, 5, 3)).astype("float32")
IDS, PIXELS = np.array([0, 2, 1, 4]), np.array([[0, 1, 4], [1, 3, 0]])
WEIGHT = np.array([0.5, 1.5, 2.0, 0.25, 1.0], "float32")


def several(arrays: Array | tuple[Array, ...]) -> tuple[Array, ...]:
    return arrays if isinstance(arrays, tuple) else (arrays,)


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
POINTS = tuple(RANDOM.normal(size=(4, 5)).astype("float32") for _ in range(3))
SPREAD = np.where(CHANCES > 0.4, CHANCES, 1e-9).astype("float32")
LISTS = np.array([[0, 3, -1, 2, 2], [4, 4, 1, -1, 0], [-1, 1, 2, 3, 4], [0, 1, 2, 3, 4]])
STEPS = np.stack([np.log(_softmax(one)) for one in RANDOM.normal(size=(9, 4, 5)).astype("float32")])
# The second sample spells nothing, and the last one cannot be spelt in its three steps.
SPELT = np.array([[1, 1, 3], [2, 3, 1], [3, 1, 3], [1, 1, 2]])
SPELT_LENGTHS = np.array([9, 6, 7, 3]), np.array([3, 0, 2, 3])

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
    "rankings": ("MarginRankingLoss", {"margin": 0.3}, POINTS[:2], SIGNS),
    "triplets": ("TripletMarginLoss", {"margin": 0.6, "swap": True}, POINTS, ()),
    "triplets by sums": ("TripletMarginLoss", {"p": 1.0, "eps": 1e-3}, POINTS, ()),
    "triplets by cubes": ("TripletMarginLoss", {"p": 3.0}, POINTS, ()),
    "triplets by the largest": ("TripletMarginLoss", {"p": float("inf")}, POINTS, ()),
    "angles": ("CosineEmbeddingLoss", {"margin": 0.1}, POINTS[:2], SIGNS[:, 0]),
    "densities": ("GaussianNLLLoss", {"full": True, "eps": 1e-2}, (SCORES, SPREAD), COUNTS),
    "lists": ("MultiLabelMarginLoss", {}, SCORES, LISTS),
    "spellings": ("CTCLoss", {"blank": 0, "zero_infinity": True}, STEPS, (SPELT, *SPELT_LENGTHS)),
    "logarithms": ("KLDivLoss", {"log_target": True}, LOG_IMAGES, np.log(IMAGE_SHARES)),
}
CASES: dict[str, Case] = {
    f"{name}, {reduction}": (kind, {**options, "reduction": reduction}, predictions, targets)
    for name, (kind, options, predictions, targets) in MEANS.items()
    for reduction in ("mean", "none")
}
CASES["by samples"] = ("KLDivLoss", {"reduction": "batchmean"}, LOG_IMAGES, IMAGE_SHARES)
