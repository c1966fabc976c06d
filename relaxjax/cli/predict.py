"""Run a trained model on data, and measure it where the data has targets.

The file is what `relaxjax train` or a trainer saved:

    relaxjax predict run/model.safetensors --data digits
    relaxjax predict run/model.safetensors --data new.npz -o scores.npz

Where the data has a part to evaluate on, such as the arrays x_test and y_test, the model runs on
that part. The predictions are the first output of the model, and are written as an array
`predictions`.
"""

import argparse
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from relaxjax.datasets import batches
from relaxjax.ir.highlight import painted
from relaxjax.ir.types import TensorType
from relaxjax.ir.whole_file import write_whole
from relaxjax.training import Trainer, evaluate_with_loss, load_trainer

from .device import add_device, where_asked
from .failure import InputError, bad_input
from .files import is_of_torch, writable
from .numbers import positive
from .own import add_load
from .train_data import FORMS, Array, to_run_on

DEFAULT_BATCH = 64


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawTextHelpFormatter
    parser.add_argument("file", metavar="FILE", help="the saved model")
    parser.add_argument(
        "--data", metavar="DATA", required=True,
        help=f"the data to run it on; targets may be missing:\n{FORMS}",
    )  # fmt: skip
    parser.add_argument(
        "--batch", metavar="N", type=positive(int),
        help=f"the batch size, where the model takes any ({DEFAULT_BATCH})",
    )  # fmt: skip
    parser.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        help="write the predictions to this file, .npz or .safetensors",
    )
    add_load(parser)
    add_device(parser)


@where_asked
def run(args: argparse.Namespace) -> int:
    with bad_input():
        _check_output(args.output)
        if is_of_torch(args.file):
            raise InputError(
                f"`{args.file}` is a model of PyTorch, and no trainer saved it: `relaxjax train "
                f"{args.file} --data ...` trains it and saves one that is read here"
            )
        trainer = load_trainer(args.file)
        x, y = to_run_on(args.data, _input_type(trainer), bool(trainer.facts.class_ids))
        size = trainer.batch_size or args.batch or DEFAULT_BATCH
        if y is None and args.output is None:
            raise InputError(f"`{args.data}` has no targets to measure on: write predictions by -o")
        numbers = {} if y is None else _measured(trainer, x, y, size)
        found = np.concatenate(list(_predictions(trainer, x, size))) if args.output else None
    if numbers:
        shown = painted("  ".join(f"{k} {v:.4g}" for k, v in numbers.items()), "bold")
        print(f"{len(x)} examples  {shown}")
    if found is not None:
        _write(args.output, found)
        print(f"{len(x)} predictions are written to {Path(args.output).resolve()}")
    return 0


def _input_type(trainer: Trainer) -> TensorType:
    types = [var.ty for var in trainer.layout.inputs]
    if len(types) == 1 and isinstance(types[0], TensorType):
        return types[0]
    raise InputError(
        f"`relaxjax predict` runs models of one input, but this one takes {len(types)}: run it "
        "from Python, by relaxjax.training.load_trainer"
    )


def _measured(trainer: Trainer, x: Array, y: Array, size: int) -> dict[str, float]:
    metrics = ["accuracy"] if trainer.scores_classes else []
    return evaluate_with_loss(trainer, batches(x, y, size, drop_last=False), metrics)


def _predictions(trainer: Trainer, x: Array, size: int) -> Iterator[Array]:
    """The first outputs; a last batch that is too small for the model is filled up with zeros."""
    for start in range(0, len(x), size):
        part = x[start : start + size]
        missing = size - len(part) if trainer.batch_size else 0
        filled = np.pad(part, [(0, missing), *[(0, 0)] * (part.ndim - 1)])
        result: Any = trainer.predict(filled)
        first = np.asarray(result[0] if isinstance(result, tuple) else result)[: len(part)]
        yield first.astype("float32") if first.dtype.kind == "V" else first  # such as bfloat16


def _check_output(output: str | None) -> None:
    if output is not None and Path(output).suffix not in (".npz", ".safetensors"):
        raise InputError(f"predictions are written as .npz or .safetensors, not as `{output}`")


def _write(output: str, found: Array) -> None:
    with writable(output):
        if output.endswith(".npz"):
            content = io.BytesIO()
            np.savez(content, predictions=found)
            write_whole(output, content.getvalue())
        else:
            write_whole(
                output, safetensors.numpy.save({"predictions": np.ascontiguousarray(found)})
            )
