"""Symbolic dimensions and arithmetic on them, all of the script's `T`, where TVM has them."""

from typing import Any

import relaxjax.script.tirx as tirx


def __getattr__(name: str) -> Any:
    return getattr(tirx, name)


def __dir__() -> list[str]:
    return dir(tirx)
