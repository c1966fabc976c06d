"""The first table of docs/performance.md has the means of what benchmarks have recorded."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from suite_report import (  # found by the path above
    OURS,
    PAGE,
    RESULTS,
    TABLES,
    TORCH,
    geometric_mean,
    recorded,
)

ALL = ("step", "temp", "compile")
Columns = list[list[float]]


def rows_of(name: str, kind: str = "models") -> list[dict[str, Any]]:
    return list(json.loads((RESULTS / name).read_text())[kind].values())


def of_suite(ours: str, theirs: str, keys: tuple[str, ...] = ALL) -> Columns:
    """Of the models that both have trained."""
    models = [one for one in recorded()[0]["models"].values() if {ours, theirs} <= one.keys()]
    return [[model[ours][key] / model[theirs][key] for model in models] for key in keys]


def of_newest_jax() -> Columns:
    return [[model[OURS][key] for model in rows_of("suite-jax-0.12.json")] for key in ALL]


def of_torch_models() -> Columns:
    models = rows_of("torch_steps.json")
    taken = [model["bytes"] for model in models]
    times = [model["ratios"]["here / eager"] for model in models]
    return [times, [one["here"] / one["eager"] for one in taken]]


def of_libraries(least: float = 0.0) -> Columns:
    losses = [one for one in rows_of("libraries.json", "losses") if one["seconds"] >= least]
    return [[loss["default"][key] for loss in losses] for key in ALL]


def of_losses() -> Columns:
    """Of those that drop_in.py prints, which stand in a table alone."""
    table = TABLES.read_text().partition("### As found in the wild")[2].partition("\n### ")[0]
    rows = re.findall(r"^\| (?!geo)[^|]+" + r"\| (\d+\.\d\d) " * 4 + r"\|$", table, re.MULTILINE)
    columns = [[float(cell) for cell in column] for column in zip(*rows, strict=True)]
    return [columns[0], *columns[2:]]


def of_starts(way: str) -> Columns:
    return [[model[way] / model["plain"] for model in rows_of("starts.json")]]


MEANS: dict[str, Callable[[], Columns]] = {
    "| [14 whole models]": lambda: of_suite(OURS, "plain"),
    "| [13 of these]": of_newest_jax,
    "| 13 of the 14, [memory]": lambda: of_suite("balanced", "plain"),
    "| the 14, by default | PyTorch, eager": lambda: of_suite(OURS, TORCH[0], ALL[:2]),
    "| 13 of them, by default | `torch.compile`": lambda: of_suite(OURS, TORCH[1]),
    "| [41 models of PyTorch]": of_torch_models,
    "| [25 losses in JAX]": of_losses,
    "| [30 losses of libraries]": of_libraries,
    "| the 25 of them": lambda: of_libraries(0.01),
    "| [13 trainings, the first start]": lambda: of_starts("ours"),
    "| [13 trainings, the next process]": lambda: of_starts("again"),
}


@pytest.mark.parametrize("begin", MEANS)
def test_means_and_worst_programs_are_those_recorded(begin: str) -> None:
    """Where a record is new, write what is found here into the table."""
    columns = MEANS[begin]()
    (row,) = [line for line in PAGE.read_text().splitlines() if line.startswith(begin)]
    found = [f"{geometric_mean(column):.2f} ({max(column):.2f})" for column in columns]
    assert re.findall(r"\d+\.\d\d \(\d+\.\d\d\)", row) == found
    count = re.match(r"\D*(\d+) ", begin)
    assert count is None or int(count[1]) == len(columns[0])
