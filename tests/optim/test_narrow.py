"""Optimizers whose states are narrow between steps: which states, what is refused, what is said."""

from typing import Any

import numpy as np
import optax
import pytest

from relaxjax.ir import TensorType, Var
from relaxjax.optim import LAMB, SGD, Adam, Lazy, MomentumSGD, Narrow, ScheduleFreeAdamW, from_optax
from relaxjax.passes.training.append_optimizer import is_by_number

PARAMS = [Var("w", TensorType((20, 30), "float32")), Var("b", TensorType((3,), "float32"))]


def dtypes(optimizer: Any, dtype: Any = "int8", smallest: int = 100) -> list[str]:
    """Of the states of `w`; the function is written, too."""
    ready = Narrow(optimizer, dtype, smallest).init(PARAMS)
    ready.get_function()
    return [str(s.dtype) for s, o in zip(ready.state, ready.state_owners, strict=True) if o == 0]


SIGNS = {
    "momentum": (MomentumSGD(0.1, 0.9), ["int8"]),
    "Adam": (Adam(0.1), ["int8", "uint8"]),
    "LAMB": (LAMB(0.1), ["int8", "uint8"]),
    **{
        name: (from_optax(getattr(optax, name)(0.1)), kinds)
        for name, kinds in {
            "adamw": ["int8", "uint8"],
            "adabelief": ["int8", "uint8"],
            "adadelta": ["uint8", "uint8"],
            "adagrad": ["uint8"],
            "adamax": ["int8", "uint8"],
            "amsgrad": ["int8", "uint8", "uint8"],
            "lion": ["int8"],
            "radam": ["int8", "uint8"],
            "rmsprop": ["uint8"],
        }.items()
    },
}


@pytest.mark.parametrize(("optimizer", "kinds"), SIGNS.values(), ids=SIGNS)
def test_what_is_never_negative_has_no_sign(optimizer: Any, kinds: list[str]) -> None:
    assert dtypes(optimizer) == kinds


def test_the_update_prints() -> None:
    function = Narrow(MomentumSGD(0.1, 0.9), smallest=100).init(PARAMS[:1]).get_function()
    lines = function.script(show_all_types=False).splitlines()
    calls = [line.strip() for line in lines if "R.narrow" in line or "astype" in line]
    assert calls == [
        'lv2 = R.astype(lv1, dtype="float32")',
        "lv5 = R.narrow.round(lv4, roundings_new)",
    ]


def test_small_parameters_stay_as_they_are() -> None:
    assert dtypes(Adam(0.1), smallest=601) == ["float32"] * 2
    assert Narrow(Adam(0.1)).smallest == 4096
    ready = Narrow(Adam(0.1), "int8", 100).init(PARAMS)
    kept = [s.dtype for s, o in zip(ready.state, ready.state_owners, strict=True) if o == 1]
    assert kept == ["float32"] * 2


def test_a_state_that_begins_above_zero_does_so_narrow() -> None:
    optimizer = from_optax(optax.adagrad(0.1, initial_accumulator_value=0.25))
    wide = optimizer.init(PARAMS)
    at = wide.state_owners.index(0)
    assert np.all(wide.state[at] == 0.25)
    half = Narrow(optimizer, smallest=100).init(PARAMS).state
    assert np.all(half[at] == 0.25)
    codes = Narrow(optimizer, "int8", 100).init(PARAMS).state
    assert np.all(codes[at] == 255)
    np.testing.assert_array_equal(codes[len(wide.state)], [0.25] * 3)


def test_states_are_named_after_those_of_the_other_optimizer() -> None:
    ready = Narrow(from_optax(optax.adam(0.1)), "int8", 100).init(PARAMS)
    assert ready.state_names == [
        *("count", "mu_b", "mu_w", "nu_b", "nu_w"),
        *("mu_w_scales", "nu_w_scales", "roundings"),
    ]


def test_it_goes_number_by_number_in_16_bits_as_the_other_one_does() -> None:
    """So equal layers are rolled, and kernels stored as a step reads them."""
    assert is_by_number(Narrow(Adam(0.1), smallest=100), PARAMS, True)
    assert is_by_number(Narrow(from_optax(optax.lion(0.1)), smallest=100), PARAMS, True)
    assert not is_by_number(Narrow(Adam(0.1), "int8", 100), PARAMS, True)
    assert not is_by_number(Narrow(LAMB(0.1), smallest=100), PARAMS, True)


UNTYPED: Any = Narrow
REFUSED = {
    "no optimizer": (lambda: UNTYPED(optax.adam(0.1)), TypeError, "takes an optimizer such as"),
    "lazy": (lambda: Narrow(Lazy(Adam(0.1))), TypeError, r"is Lazy\(Narrow\(Adam"),
    "dtype": (lambda: UNTYPED(Adam(0.1), "float16"), ValueError, 'must be "bfloat16" or'),
    "smallest": (
        lambda: UNTYPED(Adam(0.1), "int8", 0.5),
        TypeError,
        "`smallest` must be an integer",
    ),
    "no state": (
        lambda: Narrow(SGD(0.1)).init(PARAMS),
        ValueError,
        "keeps no state of a parameter",
    ),
    "late": (
        lambda: Narrow(ScheduleFreeAdamW(0.1)).init(PARAMS),
        ValueError,
        "begins with the values of the parameters",
    ),
    "divisor": (
        lambda: dtypes(from_optax(optax.yogi(0.1))),
        ValueError,
        'divides by its state of `w`, .* use "bfloat16"',
    ),
    "unknown numbers": (
        lambda: dtypes(from_optax(optax.inject_hyperparams(optax.adam)(0.1))),
        ValueError,
        "divides by its state",
    ),
}


@pytest.mark.parametrize(("make", "kind", "message"), REFUSED.values(), ids=REFUSED)
def test_what_it_cannot_keep_is_refused(make: Any, kind: Any, message: str) -> None:
    with pytest.raises(kind, match=message):
        make()


def test_what_8_bits_cannot_hold_16_can() -> None:
    assert dtypes(from_optax(optax.yogi(0.1)), "bfloat16") == ["bfloat16"] * 2
