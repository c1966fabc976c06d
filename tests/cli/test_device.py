"""The option `--device`: commands run where it says."""

import re
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jax
import pytest
from several_devices import printed_lines

from relaxjax.cli import train
from relaxjax.cli.entry import main
from relaxjax.cli.parser import COMMANDS

RUN = ("train", "predict", "demo", "memory", "bisect", "explore")

PROGRAM = """
import sys
import tempfile
import jax
from relaxjax.cli import demo, entry, predict, train_setup
from relaxjax.cli.demo import Trainer

places = []


class Seen(Trainer):
    def fit(self, *args, **options):
        places.append(self.device)
        return super().fit(*args, **options)


demo.Trainer = Seen
with tempfile.TemporaryDirectory() as folder:
    model = f"{folder}/model"
    for device in ([], ["--device", "cpu:1"], ["--device", "cpu"]):
        entry.main(["demo", "--epochs", "1", "--out", model, *device])
print(*places, jax.config.jax_default_device)
"""


def test_a_command_runs_on_its_device_and_leaves_the_default_as_it_was() -> None:
    assert printed_lines(PROGRAM, 2)[-1] == "cpu:0 cpu:1 cpu:0 None"


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_that_run_programs_take_a_device(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([name, "--help"])
    assert (re.search(r"--device\b", capsys.readouterr().out) is not None) == (name in RUN)


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("tpu", r"there is no device for `tpu` here; JAX sees \w+:0"),
        ("cpu:9", "there is no device cpu:9 here, only"),
        ("cuad", "there is no target `cuad`.* did you mean `cuda`"),
    ],
)
def test_a_device_that_is_not_there(
    device: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--out", str(tmp_path / "model"), "--device", device]) == 2
    assert re.search(message, capsys.readouterr().err)
    assert jax.config.jax_default_device is None  # type: ignore[attr-defined]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "several", [["--devices", "1"], ["--mesh", "data=1"], ["--processes", "2"]]
)
def test_one_device_and_several(
    several: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ["model.py", "--data", "digits", "--out", str(tmp_path / "model")]
    assert main(["train", *files, "--device", "cpu:0", *several]) == 2
    assert capsys.readouterr().err == (
        f"relaxjax: error: --device cpu:0 is one device, and {several[0]} is for several: leave "
        f"{several[0]} out, or give --device cpu, for its first devices\n"
    )


def test_a_cluster_of_several_and_one_device(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The number of processes is known only once they have met."""

    @contextmanager
    def joined(args: Namespace) -> Iterator[None]:
        args.processes = 2
        yield

    monkeypatch.setattr(train, "joined", joined)
    files = ["model.py", "--data", "digits", "--out", str(tmp_path / "model")]
    assert main(["train", *files, "--device", "cpu:0"]) == 2
    assert "--device cpu:0 is one device, and --processes is for" in capsys.readouterr().err
