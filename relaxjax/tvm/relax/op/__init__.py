"""The operators as functions of expressions, as programs for the BlockBuilder write them."""

from typing import TYPE_CHECKING, Any

from . import base as base

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
