"""Programs in processes of their own, in which JAX and relaxjax are imported already.

To import them takes a second, and more than most of the programs. One process does it for all, and
each program runs in a copy of that one; where processes cannot be copied it starts from nothing.
"""

import os
import runpy
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.context import ForkServerContext
from pathlib import Path
from tempfile import TemporaryDirectory

IMPORTED = ["relaxjax", "relaxjax.autodiff", "relaxjax.testing", "relaxjax.cli", "optax", "chex"]
CAN_FORK = "forkserver" in get_all_start_methods()


def run_program(
    program: Path,
    arguments: Sequence[str] = (),
    folder: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """What a file of Python prints, and how it ends."""
    command = [sys.executable, str(program), *arguments]
    place, variables = folder or Path.cwd(), dict(os.environ if env is None else env)
    if not CAN_FORK:
        return subprocess.run(command, cwd=place, capture_output=True, text=True, env=variables)
    with TemporaryDirectory() as temporary:
        printed = [Path(temporary, name) for name in ("stdout", "stderr")]
        process = _context().Process(target=_run, args=(command[1:], place, variables, printed))
        process.start()
        process.join()
        texts = [path.read_text() for path in printed]
    return subprocess.CompletedProcess(command, process.exitcode or 0, *texts)


@cache
def _context() -> ForkServerContext:
    context = get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    return context


def _run(command: list[str], folder: Path, env: dict[str, str], printed: list[Path]) -> None:
    for stream, path in enumerate(printed, start=1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = command
    sys.path.insert(0, str(Path(command[0]).parent))
    runpy.run_path(command[0], run_name="__main__")
