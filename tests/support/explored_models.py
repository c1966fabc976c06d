"""Models of the size that people have, each as the explorer shows it."""

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from small_gpt import gpt_params, gpt_scores
from whole_residual_models import resnet50

from relaxjax import Trainer, explore, value_and_grad
from relaxjax.explorer import Explorer
from relaxjax.optim import SGD

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
LAYERS, WIDTH, WORDS, LENGTH, BATCH = 48, 16, 32, 8, 2


def as_users_have_it(make: Callable[[], Explorer]) -> Callable[[], Explorer]:
    """Without the strictness of the tests about dtypes and ranks."""

    def made() -> Explorer:
        with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
            return make()

    return made


@as_users_have_it
def residual_network() -> Explorer:
    """A ResNet-50 with all stages of its compilation."""
    model = resnet50("float32")
    places = tuple(range(len(model.params)))
    step = value_and_grad(model.plain, argnums=places, memory_policy="balanced")
    return explore(step, *model.params, *model.inputs, title="ResNet-50")


@as_users_have_it
def diffusion() -> Explorer:
    """The diffusion model of the examples, whose loss draws times and noise."""
    names = runpy.run_path(str(EXAMPLES / "diffusion_unet.py"))
    params = names["initial_params"](jax.random.key(0))
    step = value_and_grad(names["loss"], memory_policy="balanced")
    title = "a diffusion U-Net"
    return explore(step, params, jnp.ones((8, 64)), jax.random.key(1), title=title)


@as_users_have_it
def rolled_gpt() -> Explorer:
    """A GPT whose layers the trainer made one loop of, run on a batch."""
    trainer = Trainer.from_jax(_gpt_loss, _gpt_params(), SGD(0.1), _texts(), roll_blocks=True)
    return trainer.explore(title="GPT, 48 layers", numbers=True, data=_texts())  # type: ignore[return-value]


def _gpt_params() -> Any:
    rng = np.random.default_rng(0)

    def draw(*shape: int) -> Any:
        return (rng.normal(size=shape) / shape[0] ** 0.5).astype("float32")

    return gpt_params(draw, LAYERS, WIDTH, WORDS)


def _texts() -> Any:
    rng = np.random.default_rng(1)
    ids, targets = rng.integers(0, WORDS, (2, BATCH, LENGTH)).astype("int32")
    return ids, targets


def _gpt_loss(params: Any, batch: Any) -> Any:
    ids, targets = batch
    rows = jax.nn.log_softmax(gpt_scores(params, ids))
    return -jnp.take_along_axis(rows, targets[..., None], -1).mean()
