"""The option `--device`: where a command runs what it runs."""

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps

import jax

from relaxjax.lowering import device

from .failure import bad_input


def add_device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--device",
        metavar="NAME",
        help="where to run, such as cpu, gpu, tpu or cuda:1 (JAX's default)",
    )


def where_asked(run: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """A command that runs on the device of the option."""

    @wraps(run)
    def there(args: argparse.Namespace) -> int:
        with _on_device(args.device):
            return run(args)

    return there


@contextmanager
def _on_device(name: str | None) -> Iterator[None]:
    """Inside, JAX's default device is the one of that name, in all threads."""
    if name is None:
        yield
        return
    with bad_input():
        place = device(name)
    before = jax.config.jax_default_device  # type: ignore[attr-defined]  # made at run time
    jax.config.update("jax_default_device", place)
    try:
        yield
    finally:
        jax.config.update("jax_default_device", before)
