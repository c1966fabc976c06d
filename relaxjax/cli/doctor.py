"""Show what relaxjax runs on: versions, devices, caches and extras, and what is wrong with them.

    relaxjax doctor
    JAX_PLATFORMS=cpu relaxjax doctor

A line that begins with an exclamation mark names a fault of something that is needed, and the exit
code is then 1. An extra that is not installed is no fault: its line says what it is for, and how it
is installed.
"""

import argparse
import os
import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import relaxjax
from relaxjax.ir.highlight import painted
from relaxjax.lowering.cache_folder import cache_folder, is_usable

from .requirements import Requirement, extras_of, needed_by

# What each extra is for.
EXTRAS = {
    "pretty": "colours and progress bars",
    "notebook": "colours and progress bars in notebooks",
    "tb": "events for TensorBoard",
    "torch": "models of PyTorch that are objects; files are read without it",
    "cuda12": "NVIDIA GPUs, by CUDA 12",
    "cuda13": "NVIDIA GPUs, by CUDA 13",
    "tpu": "TPUs",
}
_ALL_WELL = "all that is needed works"


@dataclass(frozen=True)
class Line:
    """What was found of one thing, and whether it is a fault."""

    name: str
    text: str
    is_fault: bool = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """There are no options."""


def run(args: argparse.Namespace) -> int:
    sections: dict[str, Callable[[], Iterator[Line]]] = {
        "versions": _versions,
        "devices": _devices,
        "caches": _caches,
        "extras": _extras,
    }
    faults = 0
    for title, look in sections.items():
        print(painted(title, "bold"))
        for line in look():
            faults += line.is_fault
            text = f"{'!' if line.is_fault else ' '} {line.name:<12} {line.text}"
            print(painted(text, "red") if line.is_fault else text, flush=True)
    found = painted(f"faults: {faults}", "red") if faults else painted(_ALL_WELL, "green")
    print(f"\n{found}")
    return 1 if faults else 0


def _versions() -> Iterator[Line]:
    yield Line("relaxjax", f"{relaxjax.__version__}  {Path(relaxjax.__file__).parent}")
    yield Line("Python", f"{platform.python_version()}  {sys.executable}")
    needed = [one for one in needed_by("relaxjax") if one.extra is None]
    if not needed:
        yield Line("!", "relaxjax is not installed: install it by `pip install .`", True)
    for one in needed:
        yield Line(one.name, *_state(one))


def _state(requirement: Requirement) -> tuple[str, bool]:
    """The version of a package, or what is wrong with it; and which of the two it is."""
    found = requirement.installed()
    if found is None:
        return f"is not installed: {_install(requirement)}", True
    if not requirement.is_met_by(found):
        return f"{found} is older than {requirement.least}: {_install(requirement)}", True
    problem = requirement.broken()
    if problem is not None:
        return f"{found} cannot be imported: {problem}", True
    return found, False


def _install(requirement: Requirement) -> str:
    return f'pip install "{requirement.specifier}"'


def _devices() -> Iterator[Line]:
    import jax

    try:
        for one in jax.local_devices():
            yield Line(f"{one.platform}:{one.id}", one.device_kind)
        _, slope = relaxjax.value_and_grad(lambda x: x * x)(jax.numpy.float32(3.0))
        ran = f"the derivative of x * x at 3 is {float(slope):g}"
        yield Line("a program", ran, float(slope) != 6)
    except Exception as error:  # whatever a driver or a compiler may raise is what is looked for
        yield Line("a program", f"cannot run: {type(error).__name__}: {error}", True)


def _caches() -> Iterator[Line]:
    folder = cache_folder()
    if folder is None:
        yield Line("programs", "what is compiled is not kept")
        return
    if not folder.is_dir():
        above = next(path for path in (folder, *folder.parents) if path.exists())
        yield Line("programs", f"{folder}  {_not_kept(above) or 'nothing yet'}")
        return
    if not is_usable(folder):
        why = _not_kept(folder) or "not used: it must be yours, and yours alone to write"
        yield Line("programs", f"{folder}  {why}")
        return
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    held = f"{len(sizes)} files, {sum(sizes) / 2**20:.1f} MiB"
    yield Line("programs", f"{folder}  {held}")


def _not_kept(above: Path) -> str:
    """Why nothing can be written in a folder, or below the nearest thing above it that exists."""
    if not above.is_dir():
        return f"not kept: {above} is no folder"
    return "" if os.access(above, os.W_OK) else f"not kept: {above} is read-only"


def _extras() -> Iterator[Line]:
    for extra in extras_of("relaxjax"):
        wanted = [one for one in needed_by("relaxjax") if one.extra == extra]
        missing = sorted({name for one in wanted for name in one.missing()})
        purpose = EXTRAS.get(extra, "")
        if missing:
            lacks = f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed"
            yield Line(extra, f'{purpose}: {lacks}: pip install "relaxjax[{extra}]"')
        else:
            yield Line(extra, f"{purpose}: installed")
