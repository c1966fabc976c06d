"""Options of commands that look at an adjoint: of what, for which sizes, planned how."""

import argparse

from relaxjax.passes.memory.planning.planner import POLICIES
from relaxjax.passes.memory.rematerialize import OFFLOAD

from .device import add_device
from .files import WHAT_IS_READ
from .jax_loss import add_jax_loss
from .sizes import add_sizes
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
    add_sizes(parser)
    parser.add_argument(
        "--policy", choices=(*POLICIES, OFFLOAD),
        help="which values to compute again: none; free, those that cost little more than reading "
        "them; balanced, up to an eighth of the operations; minimal, whatever saves memory; "
        "offload keeps in the memory of the host what free keeps (free)",
    )  # fmt: skip
    parser.add_argument(
        "--budget",
        metavar="BYTES",
        help="the bytes that the plan may take, such as 64MiB, or 60%% of what keeping every value "
        "takes; instead of a policy other than offload",
    )
    add_jax_loss(parser)
    add_device(parser)
