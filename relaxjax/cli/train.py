"""Train a model that a script defines, and save it.

The file holds a script: a module with a function `backbone`, or a single function. It is read,
never executed. The model takes an input, then its parameters, then its states, and returns an
output, then its new states.

    relaxjax train model.py --data digits --loss cross_entropy --optim adamw --lr 0.001 \\
        --epochs 10 --out run

    relaxjax train model.py --data arrays.npz --loss mse --holdout 0.1 --out run

    relaxjax train model.py --data digits --loss focal --load my_losses.py --out run

`run` holds the trained model in model.safetensors, a log in log.jsonl, and checkpoints. The same
command with --resume continues a training that was stopped. It may then ask for more --epochs,
unless a --schedule depends on their number.
"""

import argparse
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from relaxjax.ir.highlight import painted
from relaxjax.ir.whole_file import obstacle
from relaxjax.ir.wording import quoted
from relaxjax.passes.memory.planning.planner import POLICIES
from relaxjax.passes.memory.rematerialize import OFFLOAD
from relaxjax.torch import from_torch
from relaxjax.training import (
    Callback,
    Checkpoints,
    DivergedError,
    EarlyStopping,
    EpochReport,
    JsonLines,
    TensorBoard,
    Trainer,
    keep_freed_memory,
)
from relaxjax.training.batches.ids import row_arguments
from relaxjax.training.devices.processes import is_first

from .device import add_device, where_asked
from .devices import add_devices, check_device, check_there_are_as_many
from .failure import InputError, bad_input
from .files import WHAT_IS_READ, is_of_torch, path_to_write, read_module
from .launch import is_launcher, joined, launch
from .numbers import count, positive, share
from .own import add_load, own_losses
from .stored import agree_on, told_to_all
from .train_batches import epochs_of, evaluated_of
from .train_data import FORMS, Examples, check_classes, check_rows, held_out, read_examples
from .train_record import check_record, record_of, write_record
from .train_setup import (
    CLASSIFICATION,
    LOSSES,
    OPTIMIZERS,
    SCHEDULES,
    Known,
    count_of,
    in_half_precision,
    input_types,
    make_trainer,
    of_planned_sizes,
    scores_type,
    with_backbone,
)

DEFAULT_BATCH = 64
_MODEL = "model.safetensors"
_SMALLER = "make --lr smaller, or find where that comes from by --check-numerics"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawTextHelpFormatter
    parser.add_argument("file", metavar="FILE", help=WHAT_IS_READ)
    parser.add_argument(
        "--data", metavar="DATA", required=True, help=f"the data to train on:\n{FORMS}"
    )
    parser.add_argument(
        "--loss", metavar="NAME", type=Known("loss", LOSSES, own_losses), default="cross_entropy",
        help=f"{_listed(LOSSES)}\n(cross_entropy)",
    )  # fmt: skip
    parser.add_argument(
        "--epochs", metavar="N", type=positive(int), default=10,
        help="how often to go through the data (10)",
    )  # fmt: skip
    parser.add_argument(
        "--batch", metavar="N", type=positive(int),
        help=f"the batch size (the model's own, or {DEFAULT_BATCH} where it takes any)",
    )  # fmt: skip
    parser.add_argument(
        "--seed", metavar="N", type=count, default=0, help="the seed of all random numbers (0)"
    )
    parser.add_argument(
        "--states", metavar="N", type=count, default=0,
        help="how many arguments are states, where the script does not say so (0)",
    )  # fmt: skip
    parser.add_argument("--init", metavar="FILE", help="start from the values of this saved model")
    add_load(parser)
    add_device(parser)
    add_devices(parser.add_argument_group("several devices"))
    add_optimizer(parser.add_argument_group("the optimizer"))
    _add_results(parser.add_argument_group("evaluation and results"))


def add_optimizer(group: Any) -> None:
    """The options of an optimizer, and of how a step is computed."""
    group.add_argument(
        "--optim", metavar="NAME", type=Known("optimizer", OPTIMIZERS), default="adamw",
        help=f"{_listed(OPTIMIZERS)}\n(adamw)",
    )  # fmt: skip
    group.add_argument(
        "--lr", metavar="X", type=positive(float), default=1e-3, help="the learning rate (0.001)"
    )
    group.add_argument(
        "--weight-decay", metavar="X", type=positive(float),
        help="the weight decay (the optimizer's own, if it has one)",
    )  # fmt: skip
    group.add_argument(
        "--schedule", choices=SCHEDULES, default="constant",
        help="the decay of the learning rate, down to zero at the end (constant)",
    )  # fmt: skip
    group.add_argument(
        "--warmup", metavar="N", type=positive(int), default=0,
        help="the updates in which the learning rate grows from zero (0)",
    )  # fmt: skip
    group.add_argument(
        "--clip", metavar="X", type=positive(float), help="clip the gradients to this global norm"
    )
    group.add_argument(
        "--accumulate", metavar="N", type=positive(int), default=1,
        help="the steps whose gradients make one update (1)",
    )  # fmt: skip
    group.add_argument(
        "--loss-scale", metavar="X", type=_loss_scale,
        help='keep small gradients of float16 from vanishing: "dynamic", or a number',
    )  # fmt: skip
    group.add_argument(
        "--half",
        choices=("float16", "bfloat16"),
        help="mixed precision: matrix products and convolutions in 16 bits",
    )
    group.add_argument(
        "--policy", choices=(*POLICIES, OFFLOAD),
        help="which values to compute again in the backward part, as of `relaxjax memory`\n"
        "(auto: free where that takes no longer). But for none, the model then\n"
        "takes batches of --batch alone",
    )  # fmt: skip


def _add_results(group: Any) -> None:
    group.add_argument(
        "--out", metavar="FOLDER", type=path_to_write, required=True,
        help="the folder to save into",
    )  # fmt: skip
    group.add_argument("--resume", action="store_true", help="continue the training in --out")
    group.add_argument(
        "--holdout", metavar="SHARE", type=share, default=0.0,
        help="the share of the data to evaluate on, where it has no part for that (0)",
    )  # fmt: skip
    group.add_argument(
        "--patience", metavar="N", type=positive(int),
        help="stop after so many epochs without a better evaluation",
    )  # fmt: skip
    group.add_argument(
        "--every",
        metavar="N",
        type=positive(int),
        help="write a checkpoint every so many steps, too",
    )
    group.add_argument(
        "--sharded-checkpoints", action="store_true",
        help="each process writes its own shards of a checkpoint into a folder,\n"
        "while the training goes on",
    )  # fmt: skip
    group.add_argument(
        "--check-numerics",
        action="store_true",
        help="name the line where NaN or infinity comes from",
    )
    group.add_argument(
        "--keep-memory", action="store_true",
        help="keep freed memory: faster on a CPU where steps need much of it (glibc)",
    )  # fmt: skip
    group.add_argument(
        "--tensorboard",
        metavar="FOLDER",
        type=path_to_write,
        help="write events for TensorBoard into this folder",
    )
    group.add_argument(
        "--export", action="store_true",
        help="also write OUT/exported, which runs without relaxjax",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    check_device(args)
    if is_launcher(args):
        return launch(args)
    with joined(args):
        check_device(args)  # a cluster may have started several processes
        return _run(args)


@where_asked
def _run(args: argparse.Namespace) -> int:
    with bad_input():
        if args.keep_memory:
            keep_freed_memory()
        _check_out(args)
        check_there_are_as_many(args)
        imported = from_torch(args.file) if is_of_torch(args.file) else None
        given = read_module(args.file) if imported is None else imported.mod
        mod = with_backbone(given, 1, args.states)
        mod = in_half_precision(mod, args.half)
        (wanted,) = input_types(mod)
        with told_to_all("the data"):
            examples = held_out(read_examples(args.data, wanted), args.holdout, args.seed)
        agree_on(args.data, examples.by_name())
        size = _batch_size(args, wanted.dims[0] if wanted.dims else None, len(examples.x))
        steps = args.epochs * (len(examples.x) // size)
        _check_accumulation(args, steps)
        mod = of_planned_sizes(mod, args.policy, size, examples.x.shape[1:])
        (wanted,) = input_types(mod)
        _check_patience(args, examples, wanted.dims[0] if wanted.dims else None)
        if args.loss in CLASSIFICATION:
            with told_to_all("the classes that the data names"):
                check_classes(args.data, examples, scores_type(mod))
        trainer = make_trainer(mod, args, examples.y, steps)
        with told_to_all("the rows that the data names"):
            check_rows(args.data, examples, row_arguments(trainer.facts, trainer.layout.inputs))
        if imported is not None:
            imported.load(trainer)
            trainer.seed(args.seed)
        record = record_of(args, given, examples, size)
        if args.resume:
            check_record(args.out, record)
        elif args.init is not None:
            trainer.load(args.init, optimizer=False)
            trainer.seed(args.seed)
    _say(
        f"{count_of(trainer):,} parameters, {len(examples.x)} examples in batches of {size}, "
        f"{0 if examples.x_test is None else len(examples.x_test)} to evaluate on"
    )
    if examples.unread:
        listed = quoted(examples.unread)
        _say(f"not read of `{args.data}`: {listed}")
    if is_first():
        args.out.mkdir(parents=True, exist_ok=True)
        if not args.resume:
            write_record(args.out, record)
    train(trainer, examples, size, args)
    return 0


def train(trainer: Trainer, examples: Examples, size: int, args: argparse.Namespace) -> None:
    """Make the training, and save what came out of it."""
    is_own = args.loss in own_losses()
    classifies = trainer.scores_classes if is_own else args.loss in CLASSIFICATION
    evaluated = evaluated_of(examples, size)
    folder, made = args.out / "checkpoints", _Made()
    checkpoints = Checkpoints(folder, args.every, sharded=args.sharded_checkpoints)
    try:
        reports = trainer.fit(
            epochs_of(examples, size, args.seed, trainer.rows_of_process(size)),
            args.epochs,
            evaluated,
            metrics=["accuracy"] if classifies else [],
            callbacks=[*_callbacks(args, evaluated is not None, classifies), made],
            checkpoints=checkpoints,
            resume=args.resume,
            check_numerics=args.check_numerics or "epochs",
        )
    except DivergedError as error:
        raise DivergedError(error.found, _SMALLER) from None
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_how_to_go_on(checkpoints)) from None
    if not made.epochs:
        wish = "--patience" if len(reports) < args.epochs else f"--epochs {args.epochs}"
        _say(f"{len(reports)} epochs are done already, and {wish} asks for no more")
    trainer.save(args.out / _MODEL)
    if args.export:
        trainer.export(args.out / "exported")
    _say(painted(f"the model is saved in {(args.out / _MODEL).resolve()}", "green"))


def _say(text: str) -> None:
    """Print what one process says for all."""
    if is_first():
        print(text, flush=True)


class _Made(Callback):
    """Counts the epochs that a training makes, and not those it was resumed after."""

    epochs = 0

    def epoch(self, reports: Sequence[EpochReport]) -> None:
        self.epochs += 1


def _how_to_go_on(checkpoints: Checkpoints) -> str:
    """What is left of a training that was interrupted."""
    found = checkpoints.paths()
    if not found:
        return "there is no checkpoint yet: --every writes some before an epoch is done"
    return f"`{found[-1]}` is the last checkpoint: go on from it by --resume"


def _callbacks(args: argparse.Namespace, evaluates: bool, classifies: bool) -> Iterator[Callback]:
    yield JsonLines(args.out / "log.jsonl")
    if args.tensorboard is not None:
        yield TensorBoard(args.tensorboard)
    if args.patience is not None:
        monitor = "loss"
        if evaluates:
            monitor = "accuracy" if classifies else "eval_loss"
        yield EarlyStopping(monitor, args.patience)


def _check_out(args: argparse.Namespace) -> None:
    """Raise before the training what would otherwise be raised after it."""
    for option, folder in (("--out", args.out), ("--tensorboard", args.tensorboard)):
        if folder is not None:
            _check_folder(option, folder)
    found = Checkpoints(args.out / "checkpoints").paths()
    if found and not args.resume:
        raise InputError(
            f"`{args.out}` holds a training already: go on with it by --resume, or give another "
            "folder by --out"
        )
    if (args.out / _MODEL).exists() and not args.resume:
        raise InputError(
            f"`{args.out / _MODEL}` is a model already: move it away, or give another folder by "
            "--out"
        )
    if args.resume and not found:
        raise InputError(f"there is no training in `{args.out}` to resume")


def _check_folder(option: str, folder: Path) -> None:
    found = obstacle(folder)
    if found is not None:
        raise InputError(f"{found}: give a folder by {option}")
    place = next(path for path in (folder, *folder.parents) if path.exists())
    if not os.access(place, os.W_OK):
        raise InputError(
            f"nothing can be written into `{place.resolve()}`: choose another {option}"
        )


def _batch_size(args: argparse.Namespace, own: Any, examples: int) -> int:
    fixed = own if isinstance(own, int) else None
    if fixed is not None and args.batch not in (None, fixed):
        raise InputError(f"the model takes batches of {fixed}, not of {args.batch}")
    size: int = fixed or args.batch or DEFAULT_BATCH
    if examples < size:
        are = "example does" if examples == 1 else "examples do"
        kept = f"; --holdout {args.holdout:g} keeps others to evaluate on" if args.holdout else ""
        raise InputError(f"{examples} {are} not fill a single batch of {size}{kept}")
    return size


def _check_accumulation(args: argparse.Namespace, steps: int) -> None:
    if steps < args.accumulate:
        raise InputError(
            f"the training has {steps} steps, but --accumulate {args.accumulate} makes an update "
            "after so many: nothing would be trained"
        )


def _check_patience(args: argparse.Namespace, examples: Examples, own: Any) -> None:
    """Raise where there is no loss to wait for: that of a batch filled up with zeros is none."""
    goes_by_loss = args.patience is not None and args.loss not in CLASSIFICATION
    count = len(examples.x if examples.x_test is None else examples.x_test)
    if goes_by_loss and isinstance(own, int) and count < own:
        raise InputError(
            f"--patience goes by the loss of batches of {own}, as the model takes them, but there "
            f"are {count} examples to evaluate on: hold out more of them by --holdout"
        )


def _loss_scale(text: str) -> Any:
    try:
        return text if text == "dynamic" else positive(float)(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f'must be "dynamic" or a number, found {text}') from None


def _listed(names: Any) -> str:
    """Names in lines that a terminal has room for."""
    lines = [""]
    for name in names:
        if len(lines[-1]) + len(name) > 56:
            lines.append("")
        lines[-1] += f"{name}, "
    return "\n".join(line.rstrip() for line in lines).rstrip(",")
