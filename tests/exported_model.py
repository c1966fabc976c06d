"""The file of an exported training, as a program that does not know this package takes it."""

import importlib.util
from pathlib import Path
from typing import Any


def model_of(folder: Path) -> Any:
    spec = importlib.util.spec_from_file_location("exported_model_file", folder / "model.py")
    assert spec is not None
    assert spec.loader is not None
    alone = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(alone)
    return alone.Model()
