"""How much of TVM's names is here: the rows of the table on the page for who comes from TVM.

    python tests/support/tvm_coverage.py    prints the table

The names of TVM are those of `tests/beside_tvm/tvm_names.json`, which a full run compares with TVM.
"""

import importlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from relaxjax.script.namespace import NoPlaceError
from relaxjax.tvm.scope import reason

NAMES = Path(__file__).parents[1] / "beside_tvm" / "tvm_names.json"
HEAD = "| module | names | here | no place here | missing |\n|---|---:|---:|---:|---|"


@dataclass(frozen=True)
class Row:
    """A module of TVM: how many names it has, and which of them are where."""

    module: str
    here: tuple[str, ...]
    no_place: tuple[str, ...]
    missing: tuple[str, ...]

    def __str__(self) -> str:
        count = len(self.here) + len(self.no_place) + len(self.missing)
        missing = ", ".join(f"`{name}`" for name in self.missing)
        counts = f"{count} | {len(self.here)} | {len(self.no_place)}"
        return f"| `{self.module}` | {counts} | {missing} |"


def rows() -> Iterator[Row]:
    """A row for each module."""
    for module, names in json.loads(NAMES.read_text()).items():
        kinds: dict[str, list[str]] = {"here": [], "no_place": [], "missing": []}
        for name in names:
            kinds[_kind(module.removeprefix("tvm").removeprefix("."), name)].append(name)
        yield Row(module, *map(tuple, kinds.values()))


def table() -> str:
    """The table, with a row for all."""
    found = list(rows())
    counts = [sum(len(getattr(row, kind)) for row in found) for kind in ("here", "no_place")]
    missing = sum(len(row.missing) for row in found)
    total = f"| all | {sum(counts) + missing} | {counts[0]} | {counts[1]} | {missing} |"
    return "\n".join([HEAD, *map(str, found), total])


def _kind(path: str, name: str) -> str:
    if reason(f"{path}.{name}".removeprefix(".")) is not None:
        return "no_place"
    module = importlib.import_module(f"relaxjax.tvm.{path}".removesuffix("."))
    try:
        getattr(module, name)
    except NoPlaceError:
        return "no_place"
    except AttributeError:
        return "missing"
    return "here"


if __name__ == "__main__":
    print(table())
