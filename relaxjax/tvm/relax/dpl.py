"""The dataflow pattern language, all of `relaxjax.dpl`, where TVM has it."""

from typing import Any

import relaxjax.dpl as dpl


def __getattr__(name: str) -> Any:
    if name == "__all__":  # asked for by `from ... import *`
        return [known for known in dir(dpl) if known[0] != "_"]
    return getattr(dpl, name)


def __dir__() -> list[str]:
    return dir(dpl)
