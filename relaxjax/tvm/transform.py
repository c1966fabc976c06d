"""Passes and their contexts, all of `relaxjax.passes`, where TVM has them."""

from typing import Any

import relaxjax.passes as passes


def __getattr__(name: str) -> Any:
    return getattr(passes, name)


def __dir__() -> list[str]:
    return dir(passes)
