"""The options of `fit`: what they say, and which values they take."""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, TypedDict

import numpy as np

from relaxjax.ir.arguments import check_flags
from relaxjax.ir.registry import did_you_mean
from relaxjax.training.inputs import as_list

from .callbacks import Callback, check_is_asked
from .checkpoints import Checkpoints
from .metrics import MetricLike
from .number_checks import is_count

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


# The parameters of `fit` that its own signature names.
_BESIDE = ("data", "epochs", "eval_data", "reporter")


def check_options(options: FitOptions) -> None:
    """Raise where `fit` has no such option, or one is none of the values that it takes."""
    known = [*_BESIDE, *FitOptions.__annotations__]
    for name in options:
        if name not in known:
            raise TypeError(
                f"`fit` has no option `{name}`: it has {', '.join(known)}"
                f"{did_you_mean(name, known)}"
            )
    steps_per_call = options.get("steps_per_call", "auto")
    if steps_per_call != "auto" and not is_count(steps_per_call, 1):
        raise ValueError(
            f'`steps_per_call` must be at least 1 or "auto", but it is {steps_per_call!r}'
        )
    prefetch = options.get("prefetch", 0)
    if not is_count(prefetch, 0):
        raise ValueError(f"`prefetch` must be at least 0, but it is {prefetch!r}")
    check_flags(resume=options.get("resume", False))
    check_numerics = options.get("check_numerics", "epochs")
    if not isinstance(check_numerics, bool | np.bool_) and check_numerics != "epochs":
        raise TypeError(
            f'`check_numerics` must be True, False or "epochs", but it is {check_numerics!r}'
        )
    _check_kinds(options)
    if options.get("resume") and options.get("checkpoints") is None:
        raise ValueError("resume=True needs to know from where: give `checkpoints` too")


def _check_kinds(options: FitOptions) -> None:
    checkpoints, metrics = options.get("checkpoints"), options.get("metrics")
    if checkpoints is not None and not isinstance(checkpoints, Checkpoints):
        raise TypeError(f'`checkpoints` must be as Checkpoints("run"), but it is {checkpoints!r}')
    if metrics is not None and not isinstance(metrics, list | tuple):
        raise TypeError(f"`metrics` must be a list, but it is {metrics!r}")
    callbacks: Any = options.get("callbacks", ())
    strange = [one for one in as_list(callbacks) if not isinstance(one, Callback)]
    if strange or callbacks is not as_list(callbacks):
        raise TypeError(
            "`callbacks` must be a list of callbacks, such as [EarlyStopping()], but "
            f"{strange[0] if strange else callbacks!r} was given"
        )
    for callback in as_list(callbacks):
        check_is_asked(callback)
