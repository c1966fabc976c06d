"""Float32 masters of parameters of half precision."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from parsing import parse_backbone
from small_models import trainer_of

from relaxjax import TensorType, Trainer
from relaxjax.ir.expr import np_dtype
from relaxjax.losses import MSELoss
from relaxjax.optim import SGD, AdamW

VALUES = TensorType((4,), "float32")


def trainer(dtype: str, optimizer: Any, shape: str = "4,", **options: Any) -> Trainer:
    """The square of `x * w + b`: `w` of the dtype, `b` of float32."""
    body = 'scaled = R.multiply(x, w)\nout = R.add(R.astype(scaled, "float32"), b)'
    params = f'x: R.Tensor((4,), "{dtype}"), w: R.Tensor(({shape}), "{dtype}")'
    backbone = parse_backbone(body, params, param_num=2, b=(4,))
    scores = TensorType(dtype="float32", ndim=1)
    made = trainer_of(backbone, MSELoss("sum"), optimizer, scores, VALUES, **options)
    made.load_params([np.ones(4, np_dtype(dtype)), np.zeros(4, "float32")])
    return made


def batch(dtype: str) -> tuple[Any, Any]:
    return np.ones(4, np_dtype(dtype)), np.zeros(4, "float32")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("optimizer", [SGD(1e-5), AdamW(1e-5)], ids=["sgd", "adamw"])
def test_updates_that_are_too_small_for_the_parameter_add_up(dtype: str, optimizer: Any) -> None:
    made = trainer(dtype, optimizer)
    for _ in range(5):
        made.update(*batch(dtype))
    assert made.export_params()["w"].dtype == dtype
    np.testing.assert_array_equal(np.asarray(made.export_params()["w"], "float32"), 1)
    masters = np.asarray(made._state.optimizer[0])
    assert masters.dtype == "float32"
    assert np.all(masters < 1 - 4e-5)
    assert np.all(masters > 1 - 2e-4)


def test_the_parameter_is_its_rounded_master() -> None:
    made = trainer("bfloat16", SGD(0.01))
    for _ in range(3):
        made.update(*batch("bfloat16"))
    rounded = np.asarray(made._state.optimizer[0]).astype(np_dtype("bfloat16"))
    np.testing.assert_array_equal(np.asarray(made.export_params()["w"]), rounded)
    assert np.all(rounded < 1)


def test_loaded_parameters_become_the_masters() -> None:
    made = trainer("bfloat16", SGD(1e-5))
    made.update(*batch("bfloat16"))
    made.load_params({"w": np.full(4, 3, np_dtype("bfloat16"))})
    made.update(*batch("bfloat16"))
    np.testing.assert_allclose(np.asarray(made._state.optimizer[0]), 3, atol=1e-3, rtol=0)


def test_parameters_of_float32_have_no_masters() -> None:
    assert len(trainer("float32", SGD(0.1))._state.optimizer) == 1
    assert len(trainer("bfloat16", SGD(0.1))._state.optimizer) == 2


def test_without_masters_the_parameters_are_updated_in_their_precision() -> None:
    """So they must all be of one dtype."""
    match = "All parameters should have the same dtype, but parameter b has dtype float32"
    with pytest.raises(ValueError, match=match):
        trainer("bfloat16", SGD(0.1), master_weights=False)


def test_a_parameter_of_unknown_shape_is_an_error() -> None:
    match = r"a float32 master needs the shape of its parameter, but `w` .* master_weights=False"
    with pytest.raises(ValueError, match=match):
        trainer("bfloat16", SGD(0.1), shape='"n",')


@pytest.mark.parametrize(
    "optimizer", [optax.sgd(0.5), optax.sgd(0.5, 0.9)], ids=["sgd", "momentum"]
)
def test_parameters_of_float64_beside_those_of_half_precision_keep_theirs(optimizer: Any) -> None:
    """Their gradients are as wide as they are."""

    def loss(params: Any, x: Any) -> Any:
        return jnp.sum((params["wide"] * x) ** 2) + jnp.sum(params["half"].astype("float64") * x)

    with jax.enable_x64(True):
        params = {"wide": jnp.full(3, 1 + 2.0**-40), "half": jnp.ones(3, "bfloat16")}
        x = jnp.arange(1.0, 4.0)
        made = Trainer.from_jax(loss, params, optimizer, x)
        made.update(x)
        slopes = jax.grad(loss)(params, x)
        moved, _ = optimizer.update(slopes, optimizer.init(params))
        found = made.params
        assert [found[name].dtype.name for name in ("wide", "half")] == ["float64", "bfloat16"]
        np.testing.assert_allclose(found["wide"], params["wide"] + moved["wide"], rtol=1e-14)
