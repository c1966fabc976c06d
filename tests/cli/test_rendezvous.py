"""Processes that come together, each a thread here, and what all are told where they do not."""

import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from relaxjax.cli.failure import InputError
from relaxjax.cli.rendezvous import meet


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def outcomes(processes: Sequence[tuple[int, int]], seconds: float = 10) -> list[str]:
    """What becomes of processes, each a number and how many it believes there are."""
    port = free_port()

    def joins(number: int, count: int) -> str:
        try:
            meet("127.0.0.1", port, number, count, seconds)
        except InputError as error:
            return str(error)
        return "met"

    with ThreadPoolExecutor(len(processes)) as pool:
        return list(pool.map(joins, *zip(*processes, strict=True)))


def test_all_come() -> None:
    assert outcomes([(2, 3), (0, 3), (1, 3)]) == ["met"] * 3
    assert outcomes([(0, 1)]) == ["met"]


def test_another_number_of_processes_is_told_to_both() -> None:
    found = outcomes([(0, 2), (1, 3)])
    assert found[0] == found[1]
    assert found[0].startswith(
        "process 1 was started with --processes 3, but process 0 with --processes 2"
    )


def test_a_number_that_is_there_twice_is_told_to_all() -> None:
    found = outcomes([(0, 3), (1, 3), (1, 3)])
    assert {*found} == {"two processes have --process-id 1: give each one of its own, from 0 on"}


def test_those_that_are_missing_are_named() -> None:
    found = outcomes([(0, 4), (2, 4)], seconds=1)
    assert found[0] == found[1]
    assert found[0].startswith("processes 1, 3 of 4 did not come within 1 s")


def test_no_process_0() -> None:
    (found,) = outcomes([(1, 2)], seconds=0.3)
    assert found.startswith("process 0 of 2 was not at 127.0.0.1:")


def test_the_port_is_taken() -> None:
    with socket.create_server(("", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(InputError, match=r"cannot listen at .*Address already in use"):
            meet("127.0.0.1", port, 0, 2, 1)
        with pytest.raises(InputError, match="is no process 0 of this training"):
            meet("127.0.0.1", port, 1, 2, 1)


def test_who_greets_otherwise_is_not_counted() -> None:
    port = free_port()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(meet, "127.0.0.1", port, 0, 2, 10)
        with socket.create_connection(_there(port)) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\n")
            meet("127.0.0.1", port, 1, 2, 10)
        first.result()


def _there(port: int) -> tuple[str, int]:
    """The address, once somebody listens there."""
    for _ in range(1000):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            continue
        break
    return "127.0.0.1", port
