"""Scaling rules: a factor on the result, and the same factor where the rule says it may stand."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import jax
import numpy as np
import pytest
from operator_evaluation import call_of, evaluate
from operator_sample_table import SAMPLES
from quickly_compiled_programs import QUICK

from relaxjax.ir.expr import Call, Constant, Expr, Var, const
from relaxjax.ir.node import replace
from relaxjax.ir.op import OPS, Axis, ScalingRule
from relaxjax.ir.types import TensorType, is_float

RULED = sorted(name for name, op in OPS.items() if op.scaling is not None)


def dims(expr: Expr) -> tuple[Any, ...]:
    assert isinstance(expr.ty, TensorType)
    return tuple(expr.ty.dims or ())


def drawn(length: int, rule: ScalingRule) -> np.ndarray[Any, Any]:
    low = 0.5 if rule.nonnegative else -1.5
    return np.random.default_rng(length).uniform(low, 1.5, length)


def times(expr: Expr, factor: np.ndarray[Any, Any], axis: Axis) -> Expr:
    """An expression times a factor along an axis, counted from the back."""
    spread = factor[0] if axis is None else factor.reshape(-1, *[1] * (-axis - 1))
    return expr * const(spread, "float64")


def with_args(call: Call, changed: Mapping[int, Expr]) -> Call:
    args = tuple(changed.get(place, arg) for place, arg in enumerate(call.args))
    return replace(call, args=args, ty=None)


def on_result(call: Call, rule: ScalingRule) -> Iterator[tuple[Expr, Expr]]:
    """The result times a factor, and the call on arguments times it."""
    for axis in (None, *range(-len(dims(call)), 0)):
        factor = drawn(1 if axis is None else dims(call)[axis], rule)
        for way in rule.to_arguments(call, axis):
            args = {place: times(call.args[place], factor, own) for place, own in way.items()}
            yield times(call, factor, axis), with_args(call, args)


def on_arguments(call: Call, rule: ScalingRule) -> Iterator[tuple[Expr, Expr]]:
    """The call on an argument times a factor, and what the rule makes of it."""
    for place, arg in enumerate(call.args):
        if not isinstance(arg.ty, TensorType) or not is_float(arg.ty.dtype):
            continue
        for axis in (None, *range(-len(dims(arg)), 0)):
            factor = drawn(1 if axis is None else dims(arg)[axis], rule)
            scaled = with_args(call, {place: times(arg, factor, axis)})
            result = rule.to_result(call, place, axis)
            if result is not None:
                yield scaled, times(call, factor, result[0])
            partner = rule.to_partner(call, place, axis)
            if partner is not None:
                other, own = partner
                yield scaled, with_args(call, {other: times(call.args[other], factor, own)})


def float_calls(name: str) -> Iterator[tuple[Call, dict[Var, Any]]]:
    """The samples of an operator in float64."""
    for index, item in enumerate(SAMPLES[name]):
        call, arrays = call_of(OPS[name], item)
        tensors = [arg for arg in (*call.args, call) if not isinstance(arg, Constant)]
        if all(isinstance(x.ty, TensorType) and x.ty.dtype == "float64" for x in tensors):
            seed = item.seed(index)
            yield call, {v: a.value(seed + i) for i, (v, a) in enumerate(arrays.items())}


@pytest.mark.parametrize("name", RULED)
def test_a_factor_may_stand_where_the_rule_says(name: str) -> None:
    rule = OPS[name].scaling
    assert rule is not None
    with jax.enable_x64(True):
        found = 0
        for call, arrays in islice(float_calls(name), 2):
            pairs = [*on_result(call, rule), *on_arguments(call, rule)]
            found += len(pairs)
            run = jax.jit(
                lambda *values, pairs=pairs, names=tuple(arrays): [
                    [evaluate(side, dict(zip(names, values, strict=True))) for side in pair]
                    for pair in pairs
                ],
                compiler_options=QUICK,
            )
            for one, other in run(*arrays.values()):
                np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
        assert found, f"no sample of {name} has room for a factor"


def test_positive_only_rules_say_so() -> None:
    """What bends at 0 takes no factor that turns the sign."""
    for name in ("relax.nn.relu", "relax.nn.leakyrelu", "relax.abs", "relax.nn.max_pool2d"):
        rule = OPS[name].scaling
        assert rule is not None
        assert rule.nonnegative


@pytest.mark.parametrize(
    "name", sorted(name for name, op in OPS.items() if op.facts.get("nonnegative"))
)
def test_nothing_is_below_zero_where_that_is_declared(name: str) -> None:
    values = np.linspace(-4, 4, 33)
    lower = OPS[name].lower
    assert lower is not None
    found = np.asarray(lower(np.asarray(values, "float32")))
    assert np.all(np.isnan(found) | (found >= 0))
