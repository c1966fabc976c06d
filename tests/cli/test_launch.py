"""Processes that a command starts and watches: small programs stand for them here."""

import argparse
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from forked_programs import run_program

from relaxjax.cli import launch as launching
from relaxjax.cli.devices import mesh_axes
from relaxjax.cli.failure import InputError
from relaxjax.cli.launch import is_launcher, joined, launch
from relaxjax.cli.parser import parsed

HEAD = """
import os, sys, time
number = int(sys.argv[sys.argv.index("--process-id") + 1])
"""


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], int]:
    """Starts three processes of a program, and gives the exit code of who watches them."""

    def start(program: str) -> int:
        path = tmp_path / "program.py"
        path.write_text(HEAD + program)
        monkeypatch.setattr(launching, "_PROGRAM", (sys.executable, "-S", str(path)))
        return launch(argparse.Namespace(processes=3, given=["train"]))

    return start


def test_all_end_well(started: Callable[[str], int], capfd: pytest.CaptureFixture[str]) -> None:
    assert started("print(number, sys.argv[1:3])") == 0
    assert capfd.readouterr() == ("0 ['train', '--coordinator']\n", "")


def test_each_takes_a_gpu_of_its_own(
    started: Callable[[str], int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first ones are not taken by all of them, as a step of Slurm with one task would say."""
    monkeypatch.setenv("PLACE", str(tmp_path))
    program = """
with open(os.path.join(os.environ["PLACE"], str(number)), "x") as file:
    file.write(os.environ["JAX_LOCAL_DEVICE_IDS"])
"""
    assert started(program) == 0
    assert [(tmp_path / str(number)).read_text() for number in range(3)] == ["0", "1", "2"]


IN_SLURM = """
from argparse import Namespace
import jax
from relaxjax.cli.launch import joined
args = Namespace(coordinator=("127.0.0.1", PORT), processes=1, process_id=0, cpu_devices=1)
with joined(args):
    print("takes", jax.config.values["jax_cuda_visible_devices"])
"""


def test_a_gpu_that_the_launcher_gives_is_not_asked_of_slurm(tmp_path: Path) -> None:
    """JAX's own way to the GPU of a process: Slurm's number of it, unless one is given."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        program = IN_SLURM.replace("PORT", str(free.getsockname()[1]))
    (tmp_path / "program.py").write_text(program)
    step = {"SLURM_JOB_ID": "7", "SLURM_STEP_NODELIST": "here", "SLURM_NTASKS": "1"}
    step |= {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "JAX_LOCAL_DEVICE_IDS": "3"}
    env = {**os.environ, **step, "JAX_PLATFORMS": "cpu"}
    done = run_program(tmp_path / "program.py", env=env)
    assert "takes 3" in done.stdout.splitlines(), done.stderr


def test_one_is_killed(started: Callable[[str], int], capfd: pytest.CaptureFixture[str]) -> None:
    """The others would wait for it for ever."""
    before = time.monotonic()
    program = "os.kill(os.getpid(), 9) if number == 1 else time.sleep(1000)"
    assert started(program) == 1
    assert time.monotonic() - before < 60
    assert capfd.readouterr().err == (
        "relaxjax: error: process 1 of 3 was ended by SIGKILL, and processes 0 and 2 were ended\n"
    )


def test_one_fails(
    started: Callable[[str], int],
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It says why, and one that does not heed the wish to end is ended by force."""
    monkeypatch.setattr(launching, "_ENDS", 0.5)
    monkeypatch.setattr(launching, "_GOES", 0.5)
    program = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if number == 2:
    time.sleep(0.3)
    sys.exit("there is no disk left")
time.sleep(1000)
"""
    assert started(program) == 1
    assert capfd.readouterr().err == (
        "there is no disk left\n"
        "relaxjax: error: process 2 of 3 ended with exit code 1, and processes 0 and 1 were ended\n"
    )


def arguments(*given: str) -> argparse.Namespace:
    return parsed(["train", "model.py", "--data", "digits", "--out", "run", *given])


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["--process-id", "1"], "--process-id is for a process of several"),
        (["--coordinator", "here:1234"], "--coordinator takes --process-id K and --processes N"),
        (
            ["--coordinator", "here:1234", "--process-id", "2", "--processes", "2"],
            "--process-id is 0 to 1 for 2 processes, not 2",
        ),
    ],
)
def test_options_that_do_not_go_together(given: list[str], expected: str) -> None:
    args = arguments(*given)

    def begin() -> None:
        assert not is_launcher(args)
        with joined(args):
            pass

    with pytest.raises(InputError, match=expected):
        begin()


def test_who_starts_processes() -> None:
    assert is_launcher(arguments("--processes", "2"))
    assert not is_launcher(arguments())


def test_a_mesh_and_a_sharding(capsys: pytest.CaptureFixture[str]) -> None:
    args = arguments("--mesh", "data=4,model=2", "--sharding", "w0=-,model;*=model")
    assert args.mesh == {"data": 4, "model": 2}
    assert args.sharding == {"w0": (None, "model"), "*": ("model",)}
    assert arguments("--sharding", "fsdp").sharding == "fsdp"
    for option, wrong in (
        ("--mesh", "data"),
        ("--mesh", "data=0"),
        ("--mesh", "data=2,data=2"),
        ("--mesh", "données=2"),
        ("--mesh", "data=²"),
        ("--sharding", "fsd"),
        ("--coordinator", "here"),
    ):
        with pytest.raises(SystemExit):
            arguments(option, wrong)
        assert option in capsys.readouterr().err
    assert mesh_axes("data=2") == {"data": 2}


def test_signals_have_names() -> None:
    assert launching._how(-signal.SIGTERM) == "was ended by SIGTERM"
