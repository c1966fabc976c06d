"""Losses that are plain functions, of Relax or of JAX."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_models import BATCH, CLASSES, Classifier, batch, trainer_of

from relaxjax import from_source, to_jax
from relaxjax.ir import Function, IRModule, SymbolicVar, TensorType, assert_structural_equal
from relaxjax.losses import MSELoss, from_jax, from_relax
from relaxjax.optim import SGD

SCORES = TensorType((BATCH, CLASSES), "float32")


def power(predictions: Any, targets: Any, exponent: Any = 1.5) -> Any:
    return jnp.mean(jnp.abs(predictions - targets) ** exponent)


def test_a_jax_function_is_traced() -> None:
    expected = from_source("""
@R.function
def power(predictions: R.Tensor((2,), "float32"), targets: R.Tensor((2,), "float32")):
    with R.dataflow():
        lv = L.sub(predictions, targets)
        lv1 = L.abs(lv)
        lv2 = L.pow(lv1, R.const(1.5, "float32"))
        lv3 = L.reduce_sum(lv2, axes=[0])
        lv4 = L.div(lv3, R.const(2, "float32"))
        gv = lv4
        R.output(gv)
    return gv
""")
    ty = TensorType((2,), "float32")
    assert_structural_equal(from_jax(power)(ty, ty), expected)


def test_a_jax_function_of_any_batch() -> None:
    ty = TensorType((SymbolicVar("n"), 3), "float32")
    function = from_jax(power)(ty, ty)
    assert function.ret_ty == TensorType((), "float32")
    x, y = np.ones((4, 3), "float32"), np.zeros((4, 3), "float32")
    assert to_jax(IRModule({"power": function}), "power")(x, y) == 1


def test_arguments_of_a_jax_function_may_be_left_out_and_named() -> None:
    def weighted(predictions: Any, targets: Any, scale: Any = 2.0, weights: Any = 1.0) -> Any:
        return jnp.sum((predictions - targets) * weights) * scale

    ty = TensorType((2,), "float32")
    function = from_jax(weighted)(ty, ty, weights=ty)
    assert [param.name for param in function.params] == ["predictions", "targets", "weights"]
    ones = np.ones(2, "float32")
    assert to_jax(IRModule({"f": function}), "f")(3 * ones, ones, ones) == 8


def test_the_name_of_a_jax_function() -> None:
    ty = TensorType((2,), "float32")
    assert from_jax(power)(ty, ty).global_symbol == "power"
    assert from_jax(power, name="mine")(ty, ty).global_symbol == "mine"
    assert from_jax(lambda predictions: predictions.sum())(ty).global_symbol == "loss"


def test_a_model_is_trained_by_either() -> None:
    relax = from_relax(MSELoss()(SCORES, SCORES))
    jax = from_jax(lambda predictions, targets: jnp.mean((predictions - targets) ** 2))
    x, _ = batch(0)
    y = np.ones((BATCH, CLASSES), "float32")
    losses = []
    for loss in (relax, jax, MSELoss()):
        trainer = trainer_of(Classifier, loss, SGD(0.1), SCORES, SCORES)
        trainer.xavier_uniform_init_params()
        losses.append([float(trainer.update(x, y)) for _ in range(5)])
    np.testing.assert_allclose(losses[0], losses[2], rtol=1e-6)
    np.testing.assert_allclose(losses[1], losses[2], rtol=1e-6)


# What they refuse


def mse() -> Function:
    return MSELoss()(SCORES, SCORES)


def test_a_rule_of_jax_for_going_back_is_not_lost() -> None:
    @jax.custom_vjp
    def straight(scores: jax.Array) -> jax.Array:
        return jnp.sum(jnp.round(scores))

    straight.defvjp(lambda x: (straight(x), x.shape), lambda shape, g: (jnp.full(shape, g),))
    loss = from_jax(lambda scores: straight(scores), name="rounded")
    match = r"`rounded`: a rule by jax\.custom_vjp .* Give the loss itself"
    with pytest.raises(TypeError, match=match):
        loss(SCORES)


def test_a_jax_function_must_give_a_scalar() -> None:
    with pytest.raises(TypeError, match=r"`power` must give one scalar, but .* shapes \(2,\)"):
        from_jax(lambda predictions: predictions, name="power")(TensorType((2,), "float32"))


def test_a_jax_function_is_traced_for_known_shapes() -> None:
    with pytest.raises(TypeError, match="shape and dtype of `predictions` must be known, but"):
        from_jax(lambda predictions: predictions)(TensorType(None, "float32", 2))


def test_a_relax_function_takes_its_own_types() -> None:
    with pytest.raises(TypeError, match=r"takes `targets` of type .* but it is to be used with"):
        from_relax(mse())(SCORES, TensorType((BATCH, 1), "float32"))
    with pytest.raises(TypeError, match="takes 2 arguments, but 1 were given"):
        from_relax(mse())(SCORES)


def test_a_python_function_is_no_relax_function() -> None:
    with pytest.raises(TypeError, match="it was given function; from_jax takes a Python function"):
        from_relax(power)  # type: ignore[arg-type]  # the very point of the test
