"""What a training can be told besides its data."""

from collections.abc import Sequence
from typing import Literal, TypeAlias, TypedDict

from .callbacks import Callback
from .checkpoints import Checkpoints
from .metrics import MetricLike

StepsPerCall: TypeAlias = int | Literal["auto"]
CheckNumerics: TypeAlias = bool | Literal["epochs"]


class FitOptions(TypedDict, total=False):
    """The options of `fit`.

    metrics: names such as "accuracy" and "perplexity", `top_k(5)`, or functions of predictions and
        targets that give a value for each sample; unless it is given, accuracy where the loss
        compares scores of classes, or the first target has an integer for each sample.
    callbacks: those who follow the training and may end it, such as `EarlyStopping()` and
        `JsonLines("log.jsonl")`.
    checkpoints: where and when to save, such as `Checkpoints("run", every=1000)`.
    resume: go on from the last of the checkpoints. `data` must give the same batches again; the
        weights are then, bit for bit, those of a training that was never interrupted. Where it
        knows their number, it is asked for those of the last epoch that was made, too.
    steps_per_call: the most steps that one call of the device makes, for small models whose steps
        are shorter than a call. "auto", the default, decides by what a step computes: it goes by
        the program and not by the clock, so a training repeats itself. Calls end where a
        checkpoint is due, and make one step each where a callback looks at the trainer after each.
        So many batches are asked for before the steps on them are made.
    prefetch: how many calls ahead batches are copied to the device.
    check_numerics: when to look for NaN and infinities, which are a `NumericsError`. "epochs", the
        default, looks at all losses when they are read from the device, and at the parameters
        after each epoch and before each checkpoint. True looks at the loss and the gradients of
        each step: the error names the first bad binding, and the trainer keeps the state of before
        that step. False looks at nothing.
    """

    metrics: Sequence[MetricLike] | None
    callbacks: Sequence[Callback]
    checkpoints: Checkpoints | None
    resume: bool
    steps_per_call: StepsPerCall
    prefetch: int
    check_numerics: CheckNumerics
