"""The sizes of symbolic dimensions that a command is given as `--set n=32`."""

import argparse

from relaxjax.ir.module import IRModule
from relaxjax.passes import BindSymbolicVars

from .failure import InputError

_LARGEST = 2**31 - 1


def add_sizes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set", metavar="DIM=SIZE", action="append", default=[],
        help="the size of a symbolic dimension; may be given several times",
    )  # fmt: skip


def with_sizes(mod: IRModule, settings: list[str]) -> IRModule:
    """The module with the dimensions of the settings of these sizes."""
    sizes = _sizes(settings)
    return BindSymbolicVars(sizes)(mod) if sizes else mod


def _sizes(settings: list[str]) -> dict[str, int]:
    pairs = [setting.partition("=") for setting in settings]
    for setting, (_, _, size) in zip(settings, pairs, strict=True):
        if not size.isdecimal():
            raise InputError(f'`--set {setting}` gives no size: write "--set n=32"')
        if int(size) > _LARGEST:
            raise InputError(
                f"`--set {setting}` gives a size beyond {_LARGEST:,}, the largest that JAX counts "
                "in 32 bits: give a smaller one"
            )
    return {name: int(size) for name, _, size in pairs}
