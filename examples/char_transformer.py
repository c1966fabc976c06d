"""Train a transformer that writes the manual of Python, character by character.

    python examples/char_transformer.py

The text ships with Python. The model learns which character comes next, and then it writes.
"""

import argparse
from itertools import islice
from typing import Any, no_type_check

import numpy as np
import optax

from relaxjax import SetupTrainer, TensorType, Trainer, VirtualMachine, build
from relaxjax.datasets import Text, batches, text, windows
from relaxjax.losses import CrossEntropyLoss
from relaxjax.optim import from_optax
from relaxjax.script import ir as I
from relaxjax.script import relax as R

BATCH, LENGTH, WIDTH, HEADS, CHARACTERS = 16, 64, 96, 4, 96


@R.macro
def normed(x: Any) -> Any:
    return R.nn.rms_norm(x, R.ones((WIDTH,), "float32"), axes=[-1])


@R.macro
def block(x: Any, mixing: Any, mixed: Any, wide: Any, narrow: Any) -> Any:
    parts = R.split(R.matmul(normed(x), mixing), 3, axis=-1)
    q, k, v = (R.reshape(parts[i], (BATCH, LENGTH, HEADS, WIDTH // HEADS)) for i in range(3))
    seen = R.nn.attention(q, k, v, causal_mask="TopLeft")
    y = R.add(x, R.matmul(R.reshape(seen, (BATCH, LENGTH, WIDTH)), mixed))
    return R.add(y, R.matmul(R.nn.gelu(R.matmul(normed(y), wide)), narrow))


@I.ir_module
class Transformer(I.Module):
    I.module_attrs({"param_num": 10, "state_num": 0})

    @R.function
    @no_type_check
    def backbone(
        ids: R.Tensor((BATCH, LENGTH), "int32"),
        table: R.Tensor((CHARACTERS, WIDTH), "float32"),
        places: R.Tensor((LENGTH, WIDTH), "float32"),
        mixing0: R.Tensor((WIDTH, 3 * WIDTH), "float32"),
        mixed0: R.Tensor((WIDTH, WIDTH), "float32"),
        wide0: R.Tensor((WIDTH, 4 * WIDTH), "float32"),
        narrow0: R.Tensor((4 * WIDTH, WIDTH), "float32"),
        mixing1: R.Tensor((WIDTH, 3 * WIDTH), "float32"),
        mixed1: R.Tensor((WIDTH, WIDTH), "float32"),
        wide1: R.Tensor((WIDTH, 4 * WIDTH), "float32"),
        narrow1: R.Tensor((4 * WIDTH, WIDTH), "float32"),
    ) -> R.Tensor((BATCH * LENGTH, CHARACTERS), "float32"):
        with R.dataflow():
            x1 = block(R.add(R.take(table, ids, axis=0), places), mixing0, mixed0, wide0, narrow0)
            x2 = R.reshape(normed(block(x1, mixing1, mixed1, wide1, narrow1)), (-1, WIDTH))
            out = R.matmul(x2, R.permute_dims(table))
            R.output(out)
        return out


def written(trainer: Trainer, data: Text, start: str, length: int) -> str:
    """`start` and what the model writes after it."""
    rng, ids = np.random.default_rng(0), data.encode(start).tolist()
    for _ in range(length):
        end, window = min(len(ids), LENGTH), np.zeros((BATCH, LENGTH), "int32")
        window[0, :end] = ids[-end:]  # the rest of it does not count
        scores = np.asarray(trainer.predict(window))[end - 1]
        ids.append(int(np.argmax(1.25 * scores + rng.gumbel(size=CHARACTERS))))  # a surer draw
    return data.decode(ids)


def main(epochs: int, steps: int) -> None:
    """Train for so many epochs of so many steps, then write."""
    data, tokens = text(), BATCH * LENGTH
    tx = optax.adamw(optax.cosine_onecycle_schedule(epochs * steps, 0.004))
    loss_args = [TensorType((tokens, CHARACTERS), "float32"), TensorType((tokens,), "int32")]
    train_mod = SetupTrainer(CrossEntropyLoss(), from_optax(tx), loss_args)(Transformer)
    trainer = Trainer(train_mod, VirtualMachine(build(train_mod)))
    trainer.xavier_uniform_init_params(seed=0)

    def cut(numbers: Any, epoch: int) -> Any:
        pairs = windows(numbers, LENGTH, start=epoch % LENGTH)  # elsewhere in each epoch
        return ((x, y.ravel()) for x, y in islice(batches(*pairs, BATCH, seed=epoch), steps))

    test = list(cut(data.test, 0))
    trainer.fit(lambda epoch: cut(data.train, epoch), epochs, test, metrics=["perplexity"])
    print(written(trainer, data, "The ", 300))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--steps", type=int, default=100, help="in an epoch")
    main(**vars(parser.parse_args()))
