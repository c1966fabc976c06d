"""The dataflow pattern language, all of `relaxjax.dpl`, where TVM has it."""

from typing import Any

import relaxjax.dpl as dpl


def __getattr__(name: str) -> Any:
    return getattr(dpl, name)


def __dir__() -> list[str]:
    return dir(dpl)
