"""How much memory a program may take, as people say it."""

import re
from collections.abc import Callable
from typing import TypeAlias

# Bytes, bytes with a unit such as "8GiB", a share of what keeping everything takes, or "60%".
Budget: TypeAlias = int | float | str

# The attribute of a function that is planned for a budget: its bytes.
MEMORY_BUDGET = "memory_budget"

_UNITS = {
    unit: scale
    for power, prefix in enumerate(("", "K", "M", "G", "T"))
    for unit, scale in ((f"{prefix}IB", 1024**power), (f"{prefix}B", 1000**power))
} | {"": 1}
_FORMS = '"64MiB", "1.5GiB", "60%", a number of bytes, or a share between 0.0 and 1.0'


def budget_in_bytes(budget: Budget, everything_kept: Callable[[], int]) -> int:
    """The bytes of a budget, given those that the program takes where everything is kept."""
    if isinstance(budget, str):
        budget = _read(budget)
    if isinstance(budget, float):
        if not 0 < budget <= 1:
            raise ValueError(f"a memory budget of {budget} is no share: write {_FORMS}")
        return int(budget * everything_kept())
    if type(budget) is not int or budget < 0:
        raise ValueError(f"{budget!r} is no memory budget: write {_FORMS}")
    return budget


def _read(text: str) -> int | float:
    match = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*([A-Za-z]*|%)\s*", text)
    if match is None or (match[2] != "%" and match[2].upper() not in _UNITS):
        raise ValueError(f"`{text}` is no memory budget: write {_FORMS}")
    number, unit = float(match[1]), match[2]
    if not unit and "." in match[1]:
        return number
    return number / 100 if unit == "%" else int(number * _UNITS[unit.upper()])
