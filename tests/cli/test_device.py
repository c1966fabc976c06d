"""The option `--device`: commands run where it says."""

import re
from pathlib import Path

import jax
import pytest
from several_devices import printed_lines

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
