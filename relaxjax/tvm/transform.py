"""Passes and their contexts, all of `relaxjax.passes`, where TVM has them."""

from typing import Any

import relaxjax.passes as passes


def __getattr__(name: str) -> Any:
    if name == "__all__":  # asked for by `from ... import *`
        return [known for known in dir(passes) if known[0] != "_"]
    return getattr(passes, name)


def __dir__() -> list[str]:
    return dir(passes)
