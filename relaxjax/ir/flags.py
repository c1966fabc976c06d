"""Options that are on or off."""

from typing import Any

import numpy as np


def check_flags(**flags: Any) -> None:
    """Raise where one of these is neither: Python takes "no" for true, and None for false."""
    for name, value in flags.items():
        if not isinstance(value, bool | np.bool_):
            raise TypeError(f"`{name}` must be True or False, but it is {value!r}")
