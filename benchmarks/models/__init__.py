"""The models of the suite, each as a Relax program and as plain JAX, in three sizes."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "programs"))

from whole_model import WholeModel
from whole_models import mlp as tutorial
from whole_sequence_models import lstm

from .convnets import large_resnet, lenet, mobilenet, small_resnet, unet
from .gpt import gpt
from .mlp import mlp
from .prepared import ADJOINT, prepared
from .recommender import recommender

Models = dict[str, Callable[[], WholeModel]]

_WIDTHS, _QUICK_WIDTHS, _TINY_WIDTHS = (64, 128, 256, 512), (16, 32, 64, 128), (4, 4, 6, 8)

MODELS: Models = {
    "MLP": partial(tutorial, "float32", batch=64, features=784, hidden=128, classes=10),
    "MLP of 64 layers": partial(mlp, 64, batch=1024, features=128, hidden=128),
    "LeNet": partial(lenet, batch=64, size=28, classes=10, widths=(6, 16, 120)),
    "ResNet-18": partial(small_resnet, widths=_WIDTHS, batch=8, size=32, classes=10, stem_size=3),
    "ResNet-18, 7x7 stem": partial(small_resnet, widths=_WIDTHS, batch=8, size=64, classes=10),
    "ResNet-50": partial(large_resnet, widths=_WIDTHS, batch=8, size=32, classes=10, stem_size=3),
    "ResNet-50, 7x7 stem": partial(large_resnet, widths=_WIDTHS, batch=8, size=64, classes=10),
    "MobileNet": partial(mobilenet, (32, 64, 128, 128, 256, 256, 512, 512), batch=8, size=32),
    "U-Net": partial(unet, batch=4, size=64, few=16, classes=10),
    "GPT of 4 layers": partial(gpt, 4, batch=4, length=256, heads=4, width=256, words=8192),
    "GPT of 8 layers": partial(gpt, 8, batch=4, length=256, heads=4, width=256, words=8192),
    "GPT of 48 layers": partial(gpt, 48, batch=4, length=64, heads=4, width=128, words=256),
    "LSTM": partial(lstm, "float32", steps=128, batch=16, features=128, hidden=128),
    "recommender": partial(
        recommender, tables=8, rows=20_000, width=32, batch=256, picks=10, hidden=128
    ),
}

# Of the same shape, so that all of them are compiled and timed within minutes.
QUICK: Models = {
    "MLP": MODELS["MLP"],
    "MLP of 64 layers": partial(mlp, 16, batch=256, features=64, hidden=64),
    "LeNet": MODELS["LeNet"],
    "ResNet-18": partial(
        small_resnet, widths=_QUICK_WIDTHS, batch=8, size=32, classes=10, stem_size=3
    ),
    "ResNet-18, 7x7 stem": partial(small_resnet, widths=_QUICK_WIDTHS, batch=8, size=64),
    "ResNet-50": partial(
        large_resnet, widths=_QUICK_WIDTHS, batch=4, size=32, classes=10, stem_size=3
    ),
    "ResNet-50, 7x7 stem": partial(large_resnet, widths=_QUICK_WIDTHS, batch=4, size=64),
    "MobileNet": partial(mobilenet, (16, 32, 64, 64), batch=8, size=32),
    "U-Net": partial(unet, batch=2, size=32, few=8, classes=4),
    "GPT of 4 layers": partial(gpt, 2, batch=2, length=128, heads=4, width=128, words=1024),
    "GPT of 8 layers": partial(gpt, 4, batch=2, length=128, heads=4, width=128, words=1024),
    "GPT of 48 layers": partial(gpt, 8, batch=2, length=32, heads=2, width=32, words=64),
    "LSTM": partial(lstm, "float32", steps=64, batch=16, features=64, hidden=64),
    "recommender": partial(
        recommender, tables=4, rows=5000, width=16, batch=128, picks=8, hidden=64
    ),
}

# The smallest one of each kind, for the tests.
TINY: Models = {
    "MLP": partial(tutorial, "float32"),
    "MLP of 64 layers": partial(mlp, 5, batch=4, features=3, hidden=6),
    "LeNet": partial(lenet),
    "ResNet-18": partial(small_resnet, widths=_TINY_WIDTHS, batch=4, size=16, stem_size=3),
    "MobileNet": partial(mobilenet, (4, 6, 8), batch=3, size=8, classes=3),
    "U-Net": partial(unet),
    "GPT of 8 layers": partial(gpt, 2, batch=2, length=5, heads=2, width=6, words=7),
    "LSTM": partial(lstm, "float32"),
    "recommender": partial(recommender, tables=2, rows=9, width=3, batch=4, picks=2, hidden=5),
}

__all__ = ["ADJOINT", "MODELS", "QUICK", "TINY", "Models", "prepared"]
