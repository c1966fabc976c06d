"""The operators as functions of expressions, as programs for the BlockBuilder write them."""

from typing import Any

from relaxjax.script import relax

from . import base as base


def __getattr__(name: str) -> Any:
    return getattr(relax, name)


def __dir__() -> list[str]:
    return dir(relax)
