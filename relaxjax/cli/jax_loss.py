"""A loss written in JAX that a command is given as `FILE.py:NAME`, and its arguments."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from traceback import extract_tb
from typing import Any

from relaxjax.autodiff import value_and_grad
from relaxjax.autodiff.value_and_grad import ValueAndGrad
from relaxjax.ir.span import Span, add_location
from relaxjax.passes.memory.report.memory_report import MemoryReport

from .failure import InputError
from .own import run_file


def add_jax_loss(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--args", metavar="CODE",
        help="the arguments of a loss in JAX, with the names of its file: \"params, batch\"",
    )  # fmt: skip
    parser.add_argument(
        "--has-aux", action="store_true", help="a loss in JAX gives a pair, with the loss first"
    )


def is_jax_loss(name: str) -> bool:
    file, colon, function = name.rpartition(":")
    return bool(colon) and file.endswith(".py") and function.isidentifier()


def report_of_jax_loss(args: argparse.Namespace) -> MemoryReport:
    """Where the bytes of its gradients go."""
    step, given = step_and_arguments(args, ("function", "loss", "set", "keep", "recompute"))
    with naming_line(args.file):
        return step.memory(*given)


@contextmanager
def naming_line(name: str) -> Iterator[None]:
    """Say at which line of the file of a loss an error is raised inside, if at one."""
    try:
        yield
    except Exception as error:
        file, _, _ = name.rpartition(":")
        frames = (one for one in extract_tb(error.__traceback__)[::-1] if one.filename == file)
        last = next(frames, None)
        if last is not None and last.lineno is not None:
            span = Span(file, last.lineno, last.colno or 0, last.end_lineno, last.end_colno)
            add_location(error, span)
        raise


def step_and_arguments(
    args: argparse.Namespace, of_scripts: Sequence[str]
) -> tuple[ValueAndGrad, tuple[Any, ...]]:
    """The loss and its gradients, and what they are called with; some options are not for it."""
    for name in of_scripts:
        if getattr(args, name):
            raise InputError(f"--{name} is for a script: {args.file} is a loss written in JAX")
    function, given = _loss_and_arguments(args.file, args.args)
    step = value_and_grad(  # planned as in the user's own program, where nothing is asked for
        function, has_aux=args.has_aux, memory_budget=args.budget, memory_policy=args.policy
    )
    return step, given


def refuse_jax_options(args: argparse.Namespace, names: Sequence[str]) -> None:
    """Raise where a script is given what is for a loss written in JAX."""
    for name in names:
        if getattr(args, name):
            option = f"--{name.replace('_', '-')}"
            raise InputError(
                f"{option} is for a loss written in JAX: name it behind its file, such as "
                "train.py:loss"
            )


def _loss_and_arguments(name: str, code: str | None) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    file, _, function = name.rpartition(":")
    if code is None:
        raise InputError(
            f"`{function}` is called with arrays: give its arguments, such as "
            '--args "params, batch"'
        )
    names = run_file(file, "relaxjax_loss")
    if not callable(names.get(function)):
        known = ", ".join(sorted(key for key, value in names.items() if _is_own(value, names)))
        raise InputError(f"`{file}` has no function `{function}`; it has {known or 'none'}")
    try:
        given = eval(compile(f"({code},)", "<--args>", "eval"), names)  # the user's
    except Exception as error:
        raise InputError(f"--args {code!r}: {type(error).__name__}: {error}") from error
    return names[function], given


def _is_own(value: Any, names: dict[str, Any]) -> bool:
    return callable(value) and getattr(value, "__module__", None) == names["__name__"]
