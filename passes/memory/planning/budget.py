"""How much memory a program may take, as people say it."""

import re
from collections.abc import Callable
from numbers import Real
from typing import Any, TypeAlias

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


def check_memory_options(memory_budget: Any, memory_policy: Any) -> None:
    """Raise where one of these is of another type; the passes inside know them by other names."""
    is_number = isinstance(memory_budget, Real) and not isinstance(memory_budget, bool)
    if memory_budget is not None and not (is_number or isinstance(memory_budget, str)):
        raise TypeError(f"`memory_budget` is {memory_budget!r}, which is no budget: write {_FORMS}")
    if memory_policy is not None and not isinstance(memory_policy, str):
        raise TypeError(
            f"`memory_policy` must be the name of one, but it is {memory_policy!r}: write "
            '"free", or another that `Rematerialize` explains'
        )


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
