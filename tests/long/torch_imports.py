"""Models of PyTorch, compared with what they become here: outputs, states and every gradient.

    python tests/long/torch_imports.py make FOLDER [NAMES]       where torch is
    python tests/long/torch_imports.py compare FOLDER [NAMES]    where relaxjax is
    python tests/long/torch_imports.py times FOLDER [NAMES]      the seconds of both alone

The first writes for each model a `.pt2` file and what torch computes, the second reads them, and
adds what it finds to benchmarks/results/torch_imports.json. The two may be different environments.
"""

import argparse
import json
import sys
import time
import traceback
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "support"))
DTYPES = ["float32", "float64"]
RESULTS = ROOT / "benchmarks" / "results" / "torch_imports.json"


def make(folder: Path, names: list[str], dtypes: list[str]) -> None:
    """Export models, and write what torch computes of them beside."""
    import torch_layer_overloads  # noqa: F401  # each adds its families to the models
    import torch_overloads  # noqa: F401
    import torch_place_overloads  # noqa: F401
    import torch_wide_overloads  # noqa: F401
    import torch_zoo as zoo  # what it imports is not there where models are compared

    folder.mkdir(parents=True, exist_ok=True)
    for name in names or list(zoo.MODELS):
        for dtype in dtypes:
            started = time.perf_counter()
            try:
                arrays = zoo.record(name, dtype, folder / f"{name}.{dtype}.pt2")
            except Exception as error:
                print(f"{name} {dtype}: not exported: {type(error).__name__}: {error}"[:600])
                continue
            np.savez(folder / f"{name}.{dtype}.npz", allow_pickle=False, **arrays)
            print(f"{name} {dtype}: exported in {time.perf_counter() - started:.1f} s", flush=True)


def compare(folder: Path, names: list[str], dtypes: list[str]) -> int:
    """Compare models with what torch computed, and note it; the number of those that are off."""
    from torch_comparison import (  # which needs what is not there where models are made
        TOLERANCES,
        compared,
    )

    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    wrong = 0
    for file in sorted(folder.glob("*.npz")):
        name, dtype = file.stem.rsplit(".", 1)
        if (names and name not in names) or dtype not in dtypes:
            continue
        try:
            arrays = dict(np.load(file))
            row = compared(file.with_suffix(".pt2"), arrays, TOLERANCES[dtype])
            row["export_s"] = round(float(arrays["export_s"]), 2)
        except Exception as error:
            row = {"refused": f"{type(error).__name__}: {error}"[:2000]}
            if "--trace" in sys.argv:
                traceback.print_exc()
        found.setdefault(name, {})[dtype] = row
        wrong += not row.get("equal", False)
        print(name, dtype, json.dumps(row)[:600], flush=True)
        RESULTS.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    return wrong


def times(folder: Path, names: list[str], dtypes: list[str]) -> None:
    """Note how long models take to be exported and imported, in whatever dtype they were compared.

    Only those that were compared are in the table.
    """
    from relaxjax.torch import from_torch

    found = json.loads(RESULTS.read_text())
    for file in sorted(folder.glob("*.npz")):
        name, dtype = file.stem.rsplit(".", 1)
        if name not in found or (names and name not in names) or dtype not in dtypes:
            continue
        started = time.perf_counter()
        from_torch(file.with_suffix(".pt2"))
        seconds = {
            "import_s": round(time.perf_counter() - started, 2),
            "export_s": round(float(np.load(file)["export_s"]), 2),
        }
        for row in found[name].values():
            row.update(seconds)
        print(name, dtype, seconds, flush=True)
    RESULTS.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


def print_table() -> None:
    """The table of docs/coming_from_pytorch.md."""
    print("| model | bindings | export | import | outputs | states | gradients |")
    print(f"|---|{'---:|' * 6}")
    for name, rows in json.loads(RESULTS.read_text()).items():
        row = rows.get("float64") or {}
        if name.startswith("operators"):
            continue
        row = row if row.get("equal") else rows.get("float32", row)
        if "refused" in row:
            print(f"| {name} | refused | | | | | |")
            continue
        figures = " | ".join(f"{row[kind]:.0e}" for kind in ("output", "state", "gradient"))
        seconds = f"{row['export_s']:.1f} s | {row['import_s']:.1f} s"
        print(f"| {name} | {row['bindings']} | {seconds} | {figures} |")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["make", "compare", "times", "table"])
    parser.add_argument("folder", type=Path, nargs="?", default=Path())
    parser.add_argument("names", nargs="*")
    parser.add_argument("--dtype", action="append", choices=DTYPES)
    parser.add_argument("--trace", action="store_true")
    given = parser.parse_args()
    dtypes = given.dtype or DTYPES
    if given.what == "table":
        print_table()
        return 0
    if given.what == "make":
        make(given.folder, given.names, dtypes)
        return 0
    if given.what == "times":
        times(given.folder, given.names, dtypes)
        return 0
    return compare(given.folder, given.names, dtypes)


if __name__ == "__main__":
    sys.exit(main())
