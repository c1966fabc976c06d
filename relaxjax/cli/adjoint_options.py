"""Options of commands that look at an adjoint: of what, for which sizes, planned how.

Sizes of symbolic dimensions are given as `--set n=32`.
"""

import argparse

from relaxjax.ir.module import IRModule
from relaxjax.passes import BindSymbolicVars
from relaxjax.passes.memory.planning.planner import POLICIES
from relaxjax.passes.memory.rematerialize import OFFLOAD

from .device import add_device
from .failure import InputError
from .files import WHAT_IS_READ
from .jax_loss import add_jax_loss
from .train_setup import LOSSES, Known


def add_adjoint(parser: argparse.ArgumentParser) -> None:
    """FILE, and what it takes to get from there to a planned adjoint."""
    parser.add_argument(
        "file", metavar="FILE",
        help=f"{WHAT_IS_READ}; or FILE.py:LOSS for a loss in JAX",
    )  # fmt: skip
    parser.add_argument(
        "-f", "--function", metavar="NAME",
        help="the function to differentiate, or its adjoint (main; with --loss, backbone or the "
        "only function)",
    )  # fmt: skip
    parser.add_argument(
        "--loss", metavar="NAME", type=Known("loss", LOSSES),
        help="the function is a model: differentiate this loss of it",
    )  # fmt: skip
    parser.add_argument(
        "--set", metavar="DIM=SIZE", action="append", default=[],
        help="the size of a symbolic dimension; may be given several times",
    )  # fmt: skip
    parser.add_argument(
        "--policy", choices=(*POLICIES, OFFLOAD),
        help="which values to compute again: none; free, those that cost little more than reading "
        "them; balanced, up to an eighth of the operations; minimal, whatever saves memory; "
        "offload keeps in the memory of the host what free keeps (free; for a loss in JAX, what "
        "value_and_grad does by default)",
    )  # fmt: skip
    parser.add_argument(
        "--budget",
        metavar="BYTES",
        help="the bytes that the plan may take, such as 64MiB, or 60%% of what keeping every value "
        "takes; instead of a policy other than offload",
    )
    add_jax_loss(parser)
    add_device(parser)


_LARGEST = 2**31 - 1


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
    sizes = {name: int(size) for name, _, size in pairs}
    for setting, (name, _, size) in zip(settings, pairs, strict=True):
        if int(size) != sizes[name]:
            raise InputError(
                f"`--set {setting}` and `--set {name}={sizes[name]}` are two sizes of one "
                "dimension: give one of them"
            )
    return sizes
