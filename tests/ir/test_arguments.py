"""Arguments by their names."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from small_models import batch, classifier

import relaxjax
from relaxjax.datasets import batches, digits
from relaxjax.ir.arguments import by_name, check_flags
from relaxjax.losses import HingeLoss, KLDivLoss
from relaxjax.optim import MomentumSGD
from relaxjax.training import Checkpoints, Trainer


def test_positions_come_before_names() -> None:
    assert by_name("f", ["x", "y", "z"], (1,), {"z": 3}) == {"x": 1, "z": 3}


@pytest.mark.parametrize(
    ("args", "named", "message"),
    [
        ((1, 2, 3), {}, "f(size, axis) takes 2 options, but 3 were given"),
        ((), {"axes": 1}, "f(size, axis) has no option `axes`; did you mean `axis`?"),
        ((1,), {"size": 2}, "f(size, axis): the option `size` is given twice"),
        ((), {"axis": 2}, "f(size, axis): the option `size` is missing"),
    ],
)
def test_what_does_not_fit(args: tuple[Any, ...], named: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError) as caught:
        by_name("f", ["size", "axis"], args, named, ["size"], "option")
    assert str(caught.value) == message


PLACES: dict[str, Callable[..., Any]] = {
    "resume": lambda **flag: classifier().fit([batch(0)], checkpoints=Checkpoints("run"), **flag),
    "zero_init_param_state": lambda **flag: Trainer(classifier().mod, classifier().vm, **flag),
    "has_aux": lambda **flag: relaxjax.grad(np.sum, **flag),
    "holomorphic": lambda **flag: relaxjax.value_and_grad(np.sum, **flag),
    "allow_int": lambda **flag: relaxjax.value_and_grad(np.sum, **flag),
    "nesterov": lambda **flag: MomentumSGD(0.1, 0.9, **flag),
    "squared": lambda **flag: HingeLoss(**flag),
    "log_target": lambda **flag: KLDivLoss(**flag),
    "drop_last": lambda **flag: batches(np.ones(3), np.ones(3), 2, **flag),
    "flatten": lambda **flag: digits(**flag),
    "one_hot": lambda **flag: digits(**flag),
}


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("value", ["no", None, 1])
def test_what_is_neither_on_nor_off_is_an_error(name: str, value: Any) -> None:
    with pytest.raises(TypeError, match=f"`{name}` must be True or False, but it is {value!r}"):
        PLACES[name](**{name: value})


def test_truth_values_of_numpy_are_flags() -> None:
    check_flags(one=np.True_, other=False)
