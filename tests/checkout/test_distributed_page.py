"""The commands of the page on many devices are ones; tests/cli/test_train_devices.py runs such."""

import re
import shlex
from pathlib import Path

import pytest

from relaxjax.cli.launch import is_launcher
from relaxjax.cli.parser import parsed

PAGE = Path(__file__).parents[2] / "docs" / "distributed.md"
BLOCKS = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
COMMANDS = [line for block in BLOCKS for line in block.splitlines()]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_of_the_page_are_ones(command: str) -> None:
    program, *words = shlex.split(command)
    args = parsed(words)
    assert program == "relaxjax"
    if words[0] != "train":
        return
    assert is_launcher(args) == ("--processes" in words and "--coordinator" not in words)
