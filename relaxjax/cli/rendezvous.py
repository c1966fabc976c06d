"""How processes of one training come together, before JAX joins them.

What JAX's coordination service finds wrong at its start ends a process without a word of which one
is missing. So process 0 listens first where that service will be: the others say who they are, and
all are told what is wrong, if anything is.
"""

import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager

from .failure import InputError

_GREETING = "relaxjax"
_FINE = "ok"
_LONGEST = 65536  # bytes of an answer
_SLACK = 1.0  # seconds for an answer to come
_AGAIN = 0.2  # seconds between two tries to connect


def meet(host: str, port: int, number: int, count: int, seconds: float) -> None:
    """Return once all processes are there, or raise what is wrong, in each of them."""
    if number == 0:
        _receive(host, port, count, seconds)
    else:
        _come(host, port, number, count, seconds)


def _receive(host: str, port: int, count: int, seconds: float) -> None:
    until = time.monotonic() + seconds
    with _listening(host, port) as server, ExitStack() as opened:
        there: dict[int, socket.socket] = {}
        fault = None
        while len(there) < count - 1 and fault is None:
            server.settimeout(max(0.01, until - time.monotonic()))
            try:
                guest, _ = server.accept()
            except TimeoutError:
                fault = _missing(there, count, seconds)
                break
            opened.enter_context(closing(guest))
            said = _line(guest, until)
            if said[:1] == [_GREETING]:
                fault = _fault(said[1:], there, count)
                there[_free_place(said[1:], there)] = guest
        for guest in there.values():
            guest.sendall((fault or _FINE).encode())
    if fault is not None:
        raise InputError(fault)


def _fault(said: list[str], there: Mapping[int, object], count: int) -> str | None:
    """What is wrong with a process that says its number, and that of all."""
    number, theirs = int(said[0]), int(said[1])
    if theirs != count:
        return (
            f"process {number} was started with --processes {theirs}, but process 0 with "
            f"--processes {count}: start all of them with the same number"
        )
    if number in there:
        return f"two processes have --process-id {number}: give each one of its own, from 0 on"
    return None


def _free_place(said: list[str], there: Mapping[int, object]) -> int:
    """The number of a process, or one beside all others if that is taken: it is answered, too."""
    number = int(said[0])
    return number if number not in there else -1 - len(there)


def _missing(there: Mapping[int, object], count: int, seconds: float) -> str:
    missing = [str(number) for number in range(1, count) if number not in there]
    noun = "process" if len(missing) == 1 else "processes"
    return (
        f"{noun} {', '.join(missing)} of {count} did not come within {seconds:g} s: start one for "
        f"each --process-id from 0 to {count - 1}, with the same --coordinator"
    )


def _come(host: str, port: int, number: int, count: int, seconds: float) -> None:
    until = time.monotonic() + seconds
    while True:
        try:
            guest = socket.create_connection((host, port), timeout=max(0.1, seconds))
            break
        except OSError as error:
            if time.monotonic() > until:
                raise InputError(
                    f"process 0 of {count} was not at {host}:{port} within {seconds:g} s: "
                    f"{error.strerror or error}; start it with --process-id 0 and this "
                    "--coordinator"
                ) from None
            time.sleep(_AGAIN)
    with closing(guest):
        guest.sendall(f"{_GREETING} {number} {count}\n".encode())
        # Process 0 listens already, and answers within its own time.
        answer = _all_of(guest, time.monotonic() + seconds + _SLACK)
    if answer == _FINE:
        return
    if answer:
        raise InputError(answer)
    raise InputError(
        f"what listens at {host}:{port} is no process 0 of this training, or has ended: give "
        "another port by --coordinator"
    )


@contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    """A socket for the others, or what is wrong with the port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        server = socket.create_server(("", port), family=family)
    except OSError as error:
        raise InputError(
            f"process 0 cannot listen at {host}:{port}: {error.strerror}; give another port by "
            "--coordinator"
        ) from None
    with closing(server):
        yield server


def _line(guest: socket.socket, until: float) -> list[str]:
    """The words that a guest says, none where it says something else."""
    guest.settimeout(max(0.1, min(5.0, until - time.monotonic())))
    try:
        words = guest.recv(100).decode(errors="replace").split()
    except OSError:
        return []
    is_one = len(words) == 3 and words[1].isdigit() and words[2].isdigit()
    return words if is_one else []


def _all_of(guest: socket.socket, until: float) -> str:
    """What is answered until the end of the connection."""
    found = b""
    try:
        while len(found) < _LONGEST:
            guest.settimeout(max(0.1, until - time.monotonic()))
            part = guest.recv(4096)
            if not part:
                break
            found += part
    except OSError:
        return ""
    return found.decode(errors="replace")
