"""The options for several devices: the mesh, what is split along it, and processes."""

import argparse
import math
from collections.abc import Mapping
from typing import Any

import jax

from relaxjax.ir.device_mesh import is_axis_name
from relaxjax.ops.platform import chosen_platform
from relaxjax.trainable.sharding_rules import DATA, RULES

from .failure import InputError
from .numbers import count, positive


def add_devices(group: Any) -> None:
    group.add_argument(
        "--devices", metavar="N", type=positive(int),
        help="train on so many devices, each with a part of every batch",
    )  # fmt: skip
    group.add_argument(
        "--mesh", metavar="AXES", type=mesh_axes,
        help="the same in more than one direction, such as data=4,model=2",
    )  # fmt: skip
    group.add_argument(
        "--sharding", metavar="HOW", type=sharding_of,
        help='what is split among them: data, the batches alone (the default);\n'
        "fsdp, parameters and states, too; or patterns for names of parameters\n"
        "with the axis for each dimension, such as w0=-,model;w1=model",
    )  # fmt: skip
    group.add_argument(
        "--cpu-devices", metavar="N", type=positive(int),
        help="make so many devices of the CPU",
    )  # fmt: skip
    group.add_argument(
        "--processes", metavar="N", type=positive(int),
        help="train in so many processes, which are started here",
    )  # fmt: skip
    group.add_argument(
        "--coordinator", metavar="HOST:PORT", type=_address,
        help="where process 0 listens, for processes that you start by yourself,\n"
        "each with --process-id and --processes",
    )  # fmt: skip
    group.add_argument(
        "--process-id", metavar="K", type=count, help="the number of this process, from 0 on"
    )


def mesh_axes(text: str) -> dict[str, int]:
    """The axes of a mesh and their sizes, as `data=4,model=2` says them."""
    found: dict[str, int] = {}
    for part in text.split(","):
        name, equals, size = part.partition("=")
        if not equals or not is_axis_name(name) or not size.isdecimal() or not int(size):
            raise argparse.ArgumentTypeError(
                f"must be names of axes with their sizes, such as data=4,model=2, found {text}"
            )
        if name in found:
            raise argparse.ArgumentTypeError(f"the axis {name} is there twice in {text}")
        found[name] = int(size)
    return found


def check_device(args: argparse.Namespace) -> None:
    """Refuse one certain device beside several: `--device` is the platform of those."""
    platform, colon, _ = (args.device or "").partition(":")
    for name in ("mesh", "devices", "processes"):
        if colon and getattr(args, name) is not None:
            raise InputError(
                f"--device {args.device} is one device, and --{name} is for several: leave "
                f"--{name} out, or give --device {platform}, for its first devices"
            )


def mesh_of(args: argparse.Namespace) -> Mapping[str, int] | None:
    """The mesh that is asked for; that of all devices where there are several processes."""
    if args.mesh is not None:
        return dict(args.mesh)
    if args.devices is not None:
        return {DATA: args.devices}
    return {DATA: jax.device_count()} if args.processes is not None else None


def check_there_are_as_many(args: argparse.Namespace) -> None:
    """Refuse a mesh of more devices than there are, before a model is set up for it."""
    mesh = mesh_of(args)
    needed, here = math.prod((mesh or {}).values()), jax.device_count(chosen_platform())
    if mesh is None or needed <= here:
        return
    option = "--devices" if args.mesh is None else "--mesh"
    are = "is 1 device" if here == 1 else f"are {here} devices"
    raise InputError(
        f"{option} asks for {needed} devices, but there {are} of the platform "
        f"{chosen_platform()} here: ask for fewer, or have the CPU be as many by "
        f"--cpu-devices {needed}"
    )


def sharding_of(text: str) -> Any:
    """What is split, as `fsdp` or `w0=-,model;w1=model` say it."""
    if text in RULES:
        return text
    found: dict[str, Any] = {}
    for part in text.split(";"):
        pattern, equals, axes = part.partition("=")
        if not equals or not pattern:
            raise argparse.ArgumentTypeError(
                f"must be data, fsdp, or patterns such as w0=-,model;w1=model, found {text}"
            )
        found[pattern] = tuple(None if axis == "-" else axis for axis in axes.split(","))
    return found


def sharding_text(sharding: Any) -> str:
    """The same as it is written."""
    if isinstance(sharding, str):
        return sharding
    specs = (
        f"{pattern}={','.join('-' if axis is None else axis for axis in spec)}"
        for pattern, spec in sharding.items()
    )
    return ";".join(specs)


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise argparse.ArgumentTypeError(f"must be HOST:PORT, such as 10.0.0.1:1234, found {text}")
    return host, int(port)
