"""The names of TVM, those that are here and those that are not."""

import json
from pathlib import Path
from typing import Any

from asking_tvm import asked_of_tvm
from tvm_coverage import NAMES, rows

SUPPORT = Path(__file__).parents[1] / "support"


def test_what_trains_is_all_here() -> None:
    training = [row for row in rows() if ".training" in row.module or row.module.endswith(".nn")]
    assert len(training) == 6
    assert not [row.missing for row in training if row.missing]


def test_the_names_are_those_of_tvm(tmp_path: Path) -> None:
    listed: dict[str, Any] = json.loads(NAMES.read_text())
    given = asked_of_tvm(tmp_path, SUPPORT / "tvm_name_list.py", lambda: list(listed))
    assert given == listed
