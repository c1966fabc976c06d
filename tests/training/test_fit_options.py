"""The options of `fit`: what is no option, and what is no value of one."""

import inspect
from typing import Any

import pytest
from small_models import Told, batch, classifier

from relaxjax.training import EarlyStopping, fit

DATA = [batch(seed) for seed in range(3)]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"steps_per_call": 0}, r'`steps_per_call` must be at least 1 or "auto", but it is 0'),
        ({"steps_per_call": "all"}, r"`steps_per_call` must be .* but it is 'all'"),
        ({"steps_per_call": None}, r"`steps_per_call` must be .* but it is None"),
        ({"steps_per_call": 2.5}, r"`steps_per_call` must be .* but it is 2.5"),
        ({"steps_per_call": True}, r"`steps_per_call` must be .* but it is True"),
        ({"prefetch": -1}, "`prefetch` must be at least 0, but it is -1"),
        ({"prefetch": 1.5}, r"`prefetch` must be at least 0, but it is 1\.5"),
        ({"resume": True}, r"resume=True needs to know from where: give `checkpoints` too"),
    ],
)
def test_options_that_make_no_sense_are_errors(options: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        fit(classifier(), DATA, **options)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (
            {"checkpoints": "run"},
            r"`checkpoints` must be as Checkpoints\(\"run\"\), but it is 'run'",
        ),
        ({"metrics": "accuracy"}, "`metrics` must be a list, but it is 'accuracy'"),
        ({"callbacks": EarlyStopping()}, r"such as \[EarlyStopping\(\)\], but <.*> was given"),
        (
            {"callbacks": [EarlyStopping]},
            r"a list of callbacks, .* but <class .*Stopping'> was given",
        ),
    ],
)
def test_options_of_another_kind_are_errors(options: Any, match: str) -> None:
    with pytest.raises(TypeError, match=match):
        fit(classifier(), DATA, 1, reporter=Told(), **options)


def test_an_unknown_option_is_an_error() -> None:
    options: Any = {"prefech": 1}
    with pytest.raises(
        TypeError,
        match=r"`fit` has no option `prefech`: it has data, epochs, .*; did you mean `prefetch`",
    ):
        classifier().fit(DATA, **options)


def test_the_hint_knows_the_parameters_that_are_no_options() -> None:
    _, *named, _ = inspect.signature(fit).parameters
    options: Any = {"epoch": 1}
    message = f"`fit` has no option `epoch`: it has {', '.join(named)}, .*; did you mean `epochs`"
    with pytest.raises(TypeError, match=message):
        classifier().fit(DATA, **options)
