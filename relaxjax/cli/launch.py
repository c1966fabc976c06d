"""Trainings in several processes: those that a command starts and watches, and joining others."""

import argparse
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO

import jax

from .cluster import Cluster, found_cluster
from .failure import InputError
from .rendezvous import meet

_PROGRAM = (sys.executable, "-m", "relaxjax")
_STARTS = 60  # seconds for all processes to come
_HEARTBEAT = 30  # seconds after which a process that is silent is taken for dead
_ENDS = 20  # seconds for the others to end by themselves, once one has failed
_GOES = 10  # seconds from the wish that a process end to its end by force
_LOOKS_EVERY = 0.1


def is_launcher(args: argparse.Namespace) -> bool:
    """Whether a command is to start processes, and is none of them."""
    if args.coordinator is None and args.process_id is not None:
        raise InputError(
            "--process-id is for a process of several: give --coordinator HOST:PORT, too"
        )
    return args.processes is not None and args.coordinator is None


@contextmanager
def joined(args: argparse.Namespace) -> Iterator[None]:
    """Inside, JAX has the devices that are asked for, those of the other processes among them."""
    if args.cpu_devices is not None:
        _make_devices(args.cpu_devices)
    meeting = _meeting(args)
    if meeting is None:
        yield
        return
    _join(meeting)
    args.processes = meeting.count
    try:
        yield
    finally:
        if sys.exc_info()[0] is None:  # else the others may never come to their end
            jax.distributed.shutdown()


def launch(args: argparse.Namespace) -> int:
    """Start the processes of a training here, and watch them; the exit code of what failed."""
    found = found_cluster(_STARTS) if args.processes > 1 else None
    if found is not None:
        raise InputError(
            f"--processes {args.processes} starts processes here, but {found.name} started this "
            f"one, as process {found.number} of {found.count}: leave --processes out"
        )
    address = f"127.0.0.1:{_free_port()}"
    with _Children() as children:
        for number in range(args.processes):
            children.start([*args.given, "--coordinator", address, "--process-id", str(number)])
        return children.watched()


class _Children:
    """Processes of one training: where one fails, the others are ended."""

    def __init__(self) -> None:
        self._all: list[subprocess.Popen[bytes]] = []
        self._errors: list[IO[bytes] | None] = []

    def __enter__(self) -> "_Children":
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        for file in self._errors:
            if file is not None:
                file.close()

    def start(self, arguments: Sequence[str]) -> None:
        """Start one more. The first shows what it prints; of others errors are kept."""
        is_first = not self._all
        # Each takes a GPU of its own, where there are any. JAX then asks nothing else for it: else
        # the step of Slurm that all of them stand in would name the same GPU to all.
        own = {"JAX_LOCAL_DEVICE_IDS": str(len(self._all))}
        errors = None if is_first else tempfile.TemporaryFile()  # noqa: SIM115  # closed above
        self._errors.append(errors)
        self._all.append(
            subprocess.Popen(
                [*_PROGRAM, *arguments],
                stdout=None if is_first else subprocess.DEVNULL,
                stderr=errors,
                env={**os.environ, **own},
            )
        )

    def watched(self) -> int:
        """0 once all have ended well. Where one has not, it is named, and the others are ended."""
        while True:
            codes = dict(enumerate(child.poll() for child in self._all))
            failed = [number for number, code in codes.items() if code]
            if failed:  # one that was killed first, because of which others fail
                return self._failed(min(failed, key=lambda number: codes[number] or 0))
            if all(code == 0 for code in codes.values()):
                return 0
            time.sleep(_LOOKS_EVERY)

    def _failed(self, number: int) -> int:
        code = self._all[number].returncode
        until = time.monotonic() + _ENDS
        while time.monotonic() < until and any(child.poll() is None for child in self._all):
            if code < 0:  # killed: the others wait for it in vain
                break
            time.sleep(_LOOKS_EVERY)
        left = [at for at, child in enumerate(self._all) if child.poll() is None]
        self._end()
        said = self._said(number)
        if said:
            print(said, file=sys.stderr)
        ended = f", and {_were(left)} ended" if left else ""
        print(
            f"relaxjax: error: process {number} of {len(self._all)} {_how(code)}{ended}",
            file=sys.stderr,
        )
        return code if code > 0 else 1

    def _said(self, number: int) -> str:
        """What a process wrote to its standard error, unless that was shown as it came."""
        file = self._errors[number]
        if file is None:
            return ""
        file.seek(0)
        return file.read().decode(errors="replace").strip()

    def _end(self) -> None:
        left = [child for child in self._all if child.poll() is None]
        for child in left:
            child.terminate()
        until = time.monotonic() + _GOES
        for child in left:
            try:
                child.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def _meeting(args: argparse.Namespace) -> Cluster | None:
    """Where this process meets the others, by the options or by what started it."""
    if args.coordinator is None:
        return found_cluster(_STARTS)
    if args.processes is None or args.process_id is None:
        raise InputError("--coordinator takes --process-id K and --processes N, too")
    if args.process_id >= args.processes:
        raise InputError(
            f"--process-id is 0 to {args.processes - 1} for {args.processes} processes, not "
            f"{args.process_id}"
        )
    host, port = args.coordinator
    return Cluster("", host, port, args.process_id, args.processes)


def _join(meeting: Cluster) -> None:
    """Come together with the other processes, or tell why that cannot be."""
    host, port, number, count = meeting.host, meeting.port, meeting.number, meeting.count
    meet(host, port, number, count, _STARTS)
    is_known = bool(meeting.name)  # to JAX, which finds out, too, whose the devices are
    try:
        jax.distributed.initialize(
            None if is_known else f"{host}:{port}",
            None if is_known else count,
            None if is_known else number,
            initialization_timeout=_STARTS,
            heartbeat_timeout_seconds=_HEARTBEAT,
        )
    except Exception as error:  # of the runtime, whose errors have no class of their own
        raise InputError(
            f"process {number} of {count} met the others at {host}:{port}, but JAX did not join "
            f"them: {error}"
        ) from error
    if meeting.name and number == 0:
        print(f"{meeting.name} started {count} processes, which met at {host}:{port}", flush=True)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _make_devices(number: int) -> None:
    try:
        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_num_cpu_devices", number)
    except RuntimeError as error:
        raise InputError(f"--cpu-devices: {error}") from None


def _how(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was ended by {name}"


def _were(numbers: Sequence[int]) -> str:
    *first, last = map(str, numbers)
    return f"processes {', '.join(first)} and {last} were" if first else f"process {last} was"
