"""Write a page that shows a program, its passes, its costs and its memory.

The page is one file, which opens in any browser without a network. Its columns join each line of
the source with its forward and its backward program; other views show what each pass changed, what
is alive in memory at each moment, and which lines cost most:

    relaxjax explore model.py -o report.html
    relaxjax explore model.py --loss cross_entropy --set n=32
    relaxjax explore model.py --budget 60%

A loss written in JAX stands behind the name of its file, and the command runs that file. --args
holds the arguments of the loss, in Python, with the names of the file:

    relaxjax explore train.py:loss --args "params, batch" -o report.html

A trainer's checkpoint is shown as well. --profile runs the program and shows how long each part of
it takes; --data shows the numbers of one step, on random numbers or on examples as `relaxjax train`
takes them, with the parameters of a checkpoint:

    relaxjax explore model.py --loss cross_entropy --profile --data digits
    relaxjax explore trained.safetensors --data digits

--json prints what the page shows as JSON instead.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from relaxjax.explorer import Explorer, explore
from relaxjax.ir.expr import Var
from relaxjax.ir.module import IRModule
from relaxjax.ir.types import TensorType
from relaxjax.trainable.arguments import Arguments
from relaxjax.trainable.names import ADJOINT, BACKBONE
from relaxjax.training import Trainer, load_trainer

from .adjoint_options import add_adjoint, with_sizes
from .device import where_asked
from .failure import InputError, bad_input
from .files import is_saved_trainer, read_module, writable
from .jax_loss import is_jax_loss, naming_line, refuse_jax_options, step_and_arguments
from .train_data import Array, check_classes, read_examples
from .train_setup import CLASSIFICATION, scores_type, with_loss


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_adjoint(parser)
    parser.add_argument(
        "-o", "--output", metavar="OUT", default="report.html",
        help="the file to write the page to (report.html)",
    )  # fmt: skip
    parser.add_argument(
        "--profile", action="store_true", help="run it, and show how long each part of it takes"
    )
    parser.add_argument(
        "--data", metavar="DATA", nargs="?", const="",
        help="show the numbers of one step, on examples as `relaxjax train` takes them; random "
        "numbers where none are named",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print a JSON object, and no page")


@where_asked
def run(args: argparse.Namespace) -> int:
    with bad_input():
        found = _of_jax_loss(args) if is_jax_loss(args.file) else _of_script(args)
    if args.json:
        print(json.dumps(found.to_json()))
        return 0
    with writable(args.output):
        found.save(args.output)
    print(
        f"{args.output}: {Path(args.output).stat().st_size // 1024} KiB, to be opened in a browser"
    )
    return 0


def _of_jax_loss(args: argparse.Namespace) -> Explorer:
    step, given = step_and_arguments(args, ("function", "loss", "set"))
    if args.data:
        raise InputError(
            f"--data {args.data}: a loss written in JAX is run with the arguments of --args: leave "
            "the name out"
        )
    with naming_line(args.file):
        return explore(
            step,
            *given,
            title=Path(args.file).name,
            profile=args.profile,
            numbers=args.data is not None,
        )


def _of_trainer(args: argparse.Namespace, trainer: Trainer) -> Explorer:
    """A trainer that was saved, with the parameters that it has."""
    for name in ("function", "loss", "set", "policy", "budget"):
        if getattr(args, name):
            raise InputError(
                f"--{name}: {Path(args.file).name} holds a trainer, which is run as it was saved: "
                "leave the option out, or --profile and --data"
            )
    data = first_batch(trainer.mod, args.data, trainer.scores_classes) if args.data else None
    return explore(
        trainer,
        data=data,
        title=Path(args.file).name,
        profile=args.profile,
        numbers=args.data is not None,
    )


def _of_script(args: argparse.Namespace) -> Explorer:
    refuse_jax_options(args, ("args", "has_aux"))
    if (args.profile or args.data is not None) and is_saved_trainer(args.file):
        return _of_trainer(args, load_trainer(args.file))
    mod, function = read_module(args.file), args.function
    if args.loss is not None:
        mod, function = with_loss(mod, args.loss, function), f"{BACKBONE}_loss_adjoint"
    mod = with_sizes(mod, args.set)
    policy = args.policy or (None if args.budget else "free")
    return explore(
        mod,
        function=function,
        budget=args.budget,
        policy=policy,
        title=Path(args.file).name,
        data=named_batch(mod, args.data, args.loss) if args.data else None,
        profile=args.profile,
        numbers=args.data is not None,
    )


BATCH = 32  # examples, where the model takes any number


def first_batch(mod: IRModule, name: str, scores_classes: bool) -> tuple[Array, Array]:
    """Inputs and targets of the data of a name, as many as the model takes."""
    wanted = _input_type(Arguments.of(mod, ADJOINT).inputs)
    examples = read_examples(name, wanted)
    if scores_classes:
        check_classes(name, examples, scores_type(mod))
    dims = wanted.dims or (None,)
    count = dims[0] if isinstance(dims[0], int) else min(BATCH, len(examples.x))
    if len(examples.x) < count:
        raise InputError(
            f"`{name}` holds {len(examples.x)} examples, but the model takes {count} at once: give "
            "more, or leave the size open in the model"
        )
    return examples.x[:count], examples.y[:count]


def named_batch(mod: IRModule, name: str, loss: str | None) -> dict[str, Array]:
    """The batch by the names of the parameters of the adjoint."""
    if ADJOINT not in mod:
        raise InputError(
            f"--data {name}: examples are for a model and its loss: give --loss, such as "
            "--loss cross_entropy; or leave the name out, for random numbers"
        )
    arguments = Arguments.of(mod, ADJOINT)
    x, y = first_batch(mod, name, loss in CLASSIFICATION)
    return {arguments.inputs[0].name: x, arguments.targets[0].name: y}


def _input_type(inputs: Sequence[Var]) -> TensorType:
    types = [var.ty for var in inputs]
    if len(types) == 1 and isinstance(types[0], TensorType):
        return types[0]
    raise InputError(
        f"--data is for models of one input, a tensor, but this one takes {len(types)}: run it "
        "from Python, by relaxjax.explore(module, numbers=True, data={...})"
    )
