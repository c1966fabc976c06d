"""Models that branch, loop, call and print are trained as others are."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from parsing import parse_module
from small_models import trainer_of

from relaxjax import TensorType
from relaxjax.losses import MSELoss
from relaxjax.optim import SGD
from relaxjax.training import Lines, Trainer

RECURRENT = """
@I.ir_module
class Model:
    I.module_attrs({"param_num": 2, "state_num": 0})

    @R.function(private=True)
    def bent(x: R.Tensor((4, 3), "float32")) -> R.Tensor((4, 3), "float32"):
        if R.greater(R.sum(x), R.const(0.0, "float32")):
            y = R.tanh(x)
        else:
            y = R.multiply(x, R.const(0.5, "float32"))
        return y

    @R.function
    def backbone(
        x: R.Tensor((4, 5, 3), "float32"),
        w: R.Tensor((3, 3), "float32"),
        start: R.Tensor((4, 3), "float32"),
    ):
        @R.function
        def step(carry: R.Tensor((4, 3), "float32"), x: R.Tensor((4, 3), "float32")):
            new = Model.bent(R.add(R.matmul(carry, w), x))
            return (new, R.tuple())

        result = R.scan(step, start, R.permute_dims(x, [1, 0, 2]))
        out = result[0]
        return out
"""
PRINTING = """
@I.ir_module
class Model:
    I.module_attrs({"param_num": 1, "state_num": 0})

    @R.function(pure=False)
    def backbone(x: R.Tensor((4, 3), "float32"), w: R.Tensor((3,), "float32")):
        total = R.sum(x)
        _ = R.print(total, format="the sum is {}")
        out = R.multiply(x, w)
        return out
"""
OUT = TensorType((4, 3), "float32")


def trained_by(text: str, **options: Any) -> Trainer:
    module = parse_module(text)
    return trainer_of(module, MSELoss(), SGD(0.5), OUT, OUT, **options)


def by_hand(x: Any, w: Any, start: Any) -> Any:
    def step(carry: Any, x: Any) -> tuple[Any, None]:
        h = carry @ w + x
        return jnp.where(jnp.sum(h) > 0, jnp.tanh(h), h * 0.5), None

    return jax.lax.scan(step, start, x.transpose(1, 0, 2))[0]


@pytest.mark.parametrize("options", [{}, {"memory_policy": "free"}, {"loss_scale": "dynamic"}])
def test_a_recurrent_model(options: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    x, targets = (rng.normal(size=size).astype("float32") for size in ((4, 5, 3), (4, 3)))
    params = [rng.normal(size=size).astype("float32") for size in ((3, 3), (4, 3))]
    trainer = trained_by(RECURRENT, **options)
    trainer.load_params(params)

    def loss(params: Any) -> Any:
        return jnp.mean((by_hand(x, *params) - targets) ** 2)

    for _ in range(3):
        value, gradients = jax.value_and_grad(loss)(params)
        params = [p - 0.5 * g for p, g in zip(params, gradients, strict=True)]
        chex.assert_trees_all_close(trainer.update(x, targets), value, rtol=1e-4)
    chex.assert_trees_all_close(list(trainer.export_params().values()), params, rtol=1e-4)
    chex.assert_trees_all_close(trainer.predict(x), by_hand(x, *params), rtol=1e-4)


def test_a_model_that_prints(capfd: pytest.CaptureFixture[str]) -> None:
    trainer = trained_by(PRINTING)
    x = np.ones((4, 3), "float32")
    trainer.fit([(x, x)] * 2, 1, reporter=Lines(lambda line: None))
    jax.effects_barrier()
    assert capfd.readouterr().out.count("the sum is 12") == 2
