"""Train a small network on handwritten digits: from a script to a saved model.

The model is a script. SetupTrainer adds its loss, the adjoint of that, and the optimizer's update
as further functions of the module, and the Trainer runs them on digits that ship with the package.

    relaxjax demo
    relaxjax demo --epochs 3 --lr 0.05 --out small.safetensors
    relaxjax demo --show

With --show, nothing is trained: the model and its adjoint are printed.
"""

import argparse
import os
import shutil
import textwrap
import time
from itertools import zip_longest
from pathlib import Path

from relaxjax.datasets import batches, digits
from relaxjax.ir.highlight import ScriptText, painted
from relaxjax.ir.module import IRModule
from relaxjax.ir.types import TensorType
from relaxjax.losses import CrossEntropyLoss
from relaxjax.lowering import VirtualMachine, build
from relaxjax.optim import SGD
from relaxjax.passes import SetupTrainer
from relaxjax.script import ir as I
from relaxjax.script import relax as R
from relaxjax.training import Trainer
from relaxjax.training.saving import checkpoint

from .device import add_device, where_asked
from .failure import InputError, bad_input
from .files import path_to_write
from .numbers import count, positive

BATCH = 64
SIDE = 28
CLASSES = 10
WEIGHT_DECAY = 0.0001


@I.ir_module
class MLP:
    I.module_attrs({"param_num": 6, "state_num": 0})

    @R.function
    def backbone(
        x: R.Tensor((BATCH, SIDE * SIDE), "float32"),
        w0: R.Tensor((SIDE * SIDE, 128), "float32"),
        b0: R.Tensor((128,), "float32"),
        w1: R.Tensor((128, 128), "float32"),
        b1: R.Tensor((128,), "float32"),
        w2: R.Tensor((128, CLASSES), "float32"),
        b2: R.Tensor((CLASSES,), "float32"),
    ) -> R.Tensor((BATCH, CLASSES), "float32"):
        with R.dataflow():
            lv0 = R.matmul(x, w0)
            lv1 = R.add(lv0, b0)
            lv2 = R.nn.relu(lv1)
            lv3 = R.matmul(lv2, w1)
            lv4 = R.add(lv3, b1)
            lv5 = R.nn.relu(lv4)
            lv6 = R.matmul(lv5, w2)
            out = R.add(lv6, b2)
            R.output(out)
        return out


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--epochs", metavar="N", type=positive(int), default=15,
        help="how often to go through the data (15)",
    )  # fmt: skip
    parser.add_argument(
        "--lr", metavar="X", type=positive(float), default=0.1, help="the learning rate (0.1)"
    )
    parser.add_argument(
        "--seed", metavar="N", type=count, default=0, help="the seed of all random numbers (0)"
    )
    parser.add_argument(
        "--out",
        metavar="OUT",
        type=path_to_write,
        default=Path("relaxjax-demo.safetensors"),
        help="where to save the model (relaxjax-demo.safetensors)",
    )
    parser.add_argument(
        "--show",
        action="store_true",
        help="print the model and its adjoint without the types of variables, side by side in a "
        f"terminal of at least {LEAST_WIDTH} columns",
    )
    add_device(parser)


@where_asked
def run(args: argparse.Namespace) -> int:
    if args.show:
        ScriptText(model_and_adjoint(shutil.get_terminal_size().columns)).show()
        return 0
    with bad_input():
        check_writable(args.out)
    train(args.epochs, args.lr, args.seed, args.out)
    return 0


def model_and_adjoint(width: int) -> str:
    """The backbone and the adjoint of its loss as scripts, in a terminal `width` columns wide."""
    mod = trainable(lr=0.1, legalize=False)
    backbone, adjoint = (
        str(mod[name].script(show_all_types=False))
        for name in ("backbone", "backbone_loss_adjoint")
    )
    return side_by_side(backbone, adjoint, width, align="with R.dataflow():")


def train(epochs: int, lr: float, seed: int, out: Path) -> float:
    """Train, print how it goes, save the model; the accuracy on images never trained on."""
    started = time.perf_counter()
    data = digits(SIDE)
    print(
        f"training on {len(data.train_images)} images of handwritten digits, "
        f"testing on {len(data.test_images)} others"
    )
    train_mod = trainable(lr)
    trainer = Trainer(train_mod, VirtualMachine(build(train_mod)))
    trainer.xavier_uniform_init_params(seed)
    reports = trainer.fit(
        lambda epoch: list(
            batches(data.train_images, data.train_labels, BATCH, seed=seed, epoch=epoch)
        ),
        epochs,
        list(batches(data.test_images, data.test_labels, BATCH, drop_last=False)),
    )
    trainer.save(out)
    seconds = time.perf_counter() - started
    accuracy = reports[-1].accuracy or 0.0
    print(
        f"{painted(f'test accuracy {accuracy:.2%}', 'bold')} after {seconds:.1f} s; "
        f"the model is saved in {out.resolve()}"
    )
    return accuracy


def check_writable(out: Path) -> None:
    """Raise before the training what would otherwise be raised after it."""
    if out.is_dir():
        raise InputError(f"`{out}` is a folder: give the name of a file by --out")
    out.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(out.parent, os.W_OK):
        raise InputError(
            f"nothing can be written into `{out.parent.resolve()}`: choose another --out"
        )
    if out.exists():
        try:
            checkpoint.notes(out)
        except checkpoint.CheckpointError:
            raise InputError(
                f"`{out}` is there and no saved model: it is not written over, choose another --out"
            ) from None


def trainable(lr: float, legalize: bool = True) -> IRModule:
    """The model with its loss, adjoint and optimizer."""
    loss_args = [TensorType((BATCH, CLASSES), "float32"), TensorType((BATCH,), "int32")]
    setup = SetupTrainer(CrossEntropyLoss(), SGD(lr, WEIGHT_DECAY), loss_args, legalize)
    return setup(MLP)  # type: ignore[arg-type]  # mypy takes MLP for a class


GAP = " | "
NARROWEST = 60  # a column of script narrower than this is all broken lines
LEAST_WIDTH = 2 * NARROWEST + len(GAP)  # in which there is room for two


def side_by_side(left: str, right: str, width: int, align: str = "") -> str:
    """The texts in two columns of equal width; one after the other where `width` is too small.

    The first lines that contain `align` stand beside each other.
    """
    column = (width - len(GAP)) // 2
    if width < LEAST_WIDTH:
        return "\n".join([*_wrapped(left, width), "", *_wrapped(right, width)])
    columns = [_wrapped(text, column) for text in (left, right)]
    places = [next((i for i, line in enumerate(c) if align in line), 0) for c in columns]
    for lines, place in zip(columns, places, strict=True):
        lines[place:place] = [""] * (max(places) - place)
    rows = zip_longest(*columns, fillvalue="")
    return "\n".join(f"{a:<{column}}{GAP}{b}".rstrip() for a, b in rows)


def _wrapped(text: str, width: int) -> list[str]:
    """The lines of a script; a line that is too long goes on below, indented deeper."""
    lines: list[str] = []
    for line in text.splitlines():
        deeper = " " * (len(line) - len(line.lstrip()) + 8)
        lines += textwrap.wrap(line, width, subsequent_indent=deeper) or [""]
    return lines
