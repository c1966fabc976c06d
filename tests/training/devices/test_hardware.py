"""What devices can do: the table here, and files of the user's."""

import json
from pathlib import Path
from typing import Any

import pytest

from relaxjax.training.devices.hardware import BUILT_IN, Hardware, hardware

MINE = {
    "memory": 2**30, "flops": {"float32": 1e12}, "bandwidth": 1e11, "link": 1e10, "network": 1e9
}  # fmt: skip


def written(folder: Path, found: Any) -> Path:
    path = folder / "mine.json"
    path.write_text(found if isinstance(found, str) else json.dumps(found))
    return path


def test_a_file_adds_hardware_and_changes_what_there_is(tmp_path: Path) -> None:
    path = written(tmp_path, {"mine": MINE, "h100": {**MINE, "beside": 2, "efficiency": 0.25}})
    assert hardware("mine", path) == Hardware(2**30, {"float32": 1e12}, 1e11, 1e10, 1e9, 8, 0.5)
    assert hardware("h100", path).flops_in("float32") == 0.25e12
    assert hardware("a100", path) == BUILT_IN["a100"]


WRONG = {
    "[1]": "must hold an object of names",
    "{": "is no JSON",
    json.dumps({"mine": {**MINE, "ram": 3}}): "`mine` in .* has `ram`, but hardware has memory",
    json.dumps({"mine": {"memory": 3}}): "`mine` in .* lacks `flops`",
    json.dumps({"mine": {**MINE, "flops": 3}}): "`flops` are by dtype",
    json.dumps({"mine": {**MINE, "link": 0}}): "`link` must be a number above zero, found 0",
    json.dumps({"mine": {**MINE, "flops": {"float32": "x"}}}): "`float32` must be a number above",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_file_that_describes_no_hardware_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=WRONG[text]):
        hardware("mine", written(tmp_path, text))


def test_unknown_hardware_is_refused_with_what_there_is() -> None:
    with pytest.raises(ValueError, match=r"no hardware `h10`: there are h100, .*did you mean"):
        hardware("h10")
