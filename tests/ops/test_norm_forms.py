"""Norms spelt out, in training and in inference, against what the operators themselves compute."""

from typing import Any

import chex
import jax.numpy as jnp
import numpy as np
import pytest
from operator_evaluation import evaluate

from relaxjax.ir import Call, Expr, TensorType, Var
from relaxjax.ir.op import Op, arguments, get_op

RANDOM = np.random.default_rng(0)


def drawn(*shape: int) -> tuple[Var, Any]:
    """A variable, and a value for it."""
    value = jnp.asarray(RANDOM.uniform(0.5, 1.5, shape), "float32")
    return Var("x", TensorType(shape, "float32")), value


def norm(name: str, *given: tuple[Var, Any], **attrs: Any) -> tuple[Call, dict[Var, Any]]:
    return get_op(f"relax.nn.{name}")(*(v for v, _ in given), **attrs), dict(given)


def form(call: Call, rule: str) -> Expr:
    """What a rule of a call's operator makes of the call."""
    assert isinstance(call.op, Op)
    args, attrs = arguments(call)
    found = getattr(call.op, rule)(*args, **attrs)
    assert isinstance(found, Expr)
    return found


@pytest.mark.parametrize(
    ("axes", "shape"), [([-1], (4,)), ([1], (3,)), ([1, 2], (3, 4)), ([-1, 0], (4, 2)), ([0], (2,))]
)
@pytest.mark.parametrize(("center", "scale"), [(True, True), (False, True), (True, False)])
def test_layer_norm_for_every_choice_of_axes(
    axes: list[int], shape: tuple[int, ...], center: bool, scale: bool
) -> None:
    call, env = norm(
        "layer_norm",
        drawn(2, 3, 4),
        drawn(*shape),
        drawn(*shape),
        axes=axes,
        center=center,
        scale=scale,
    )
    spelt_out = evaluate(form(call, "training_form"), env)
    chex.assert_trees_all_close(spelt_out, evaluate(call, env), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("axis", "channels"), [(1, 3), (-1, 4), (0, 2)])
@pytest.mark.parametrize(("center", "scale"), [(True, True), (False, True), (True, False)])
def test_batch_norm_for_every_channel_axis(
    axis: int, channels: int, center: bool, scale: bool
) -> None:
    given = [drawn(2, 3, 4), *(drawn(channels) for _ in range(4))]
    attrs = {"axis": axis, "center": center, "scale": scale, "momentum": 0.3}
    training, env = norm("batch_norm", *given, **attrs, training=True)
    inference, _ = norm("batch_norm", *given, **attrs, training=False)
    trained = evaluate(form(training, "training_form"), env)
    chex.assert_trees_all_close(trained, evaluate(training, env), rtol=1e-3, atol=1e-4)
    inferred = evaluate(form(training, "decompose"), env)
    chex.assert_trees_all_close(inferred, evaluate(inference, env), rtol=1e-4, atol=1e-5)


def test_what_is_not_trained_keeps_its_form() -> None:
    call, _ = norm("batch_norm", drawn(2, 3), *(drawn(3) for _ in range(4)), axis=1, training=False)
    assert isinstance(call.op, Op)
    args, attrs = arguments(call)
    assert call.op.training_form is not None
    assert call.op.training_form(*args, **attrs) is None
