"""What devices can do, as a roofline takes it: a table, which a file of the user's can extend."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from os import PathLike
from pathlib import Path
from typing import Any

from relaxjax.ir.registry import did_you_mean


@dataclass(frozen=True, slots=True)
class Hardware:
    """A kind of device, and how such devices are joined. All rates are by the second.

    `flops` are those of products by dtype, of which a step reaches the share `efficiency`. `link`
    is what a device sends to those beside it, of which there are `beside` with itself, and
    `network` what it sends to all others.
    """

    memory: int  # bytes
    flops: Mapping[str, float]
    bandwidth: float  # bytes from and to its own memory
    link: float  # bytes
    network: float  # bytes
    beside: int = 8
    efficiency: float = 0.5

    def flops_in(self, dtype: str) -> float:
        """What products of a dtype reach; those of a dtype that is not listed are as in float32."""
        return self.flops.get(dtype, self.flops["float32"]) * self.efficiency


_GB = 10**9
_T = 10**12


def _halves(count: float) -> dict[str, float]:
    return {"bfloat16": count, "float16": count}


# By the makers' data sheets: products without sparsity, and a link's bytes in one direction.
BUILT_IN: Mapping[str, Hardware] = {
    "h100": Hardware(
        80 * 2**30, {"float32": 67 * _T, **_halves(989 * _T)}, 3350 * _GB, 450 * _GB, 50 * _GB
    ),
    "h200": Hardware(
        141 * _GB, {"float32": 67 * _T, **_halves(989 * _T)}, 4800 * _GB, 450 * _GB, 50 * _GB
    ),
    "a100": Hardware(
        80 * 2**30, {"float32": 19.5 * _T, **_halves(312 * _T)}, 2039 * _GB, 300 * _GB, 25 * _GB
    ),
    "tpu-v5e": Hardware(
        16 * _GB, {"float32": 98.5 * _T, **_halves(197 * _T)}, 819 * _GB, 200 * _GB, 25 * _GB, 256
    ),
}


def hardware(name: str, file: str | PathLike[str] | None = None) -> Hardware:
    """The hardware of that name, of a file of the user's, or else of the table here."""
    known = {**BUILT_IN, **({} if file is None else read_hardware(file))}
    if name not in known:
        raise ValueError(
            f"there is no hardware `{name}`: there are {', '.join(known)}"
            f"{did_you_mean(name, list(known))}; or describe it in a file of JSON"
        )
    return known[name]


def read_hardware(file: str | PathLike[str]) -> dict[str, Hardware]:
    """The hardware that a file of JSON describes, by name."""
    try:
        found = json.loads(Path(file).read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"`{file}` is no JSON: {error}") from None
    if not isinstance(found, dict) or not all(isinstance(one, dict) for one in found.values()):
        raise ValueError(f"`{file}` must hold an object of names, each with an object of numbers")
    return {name: _hardware(f"`{name}` in `{file}`", given) for name, given in found.items()}


def _hardware(subject: str, given: dict[str, Any]) -> Hardware:
    names = [field.name for field in fields(Hardware)]
    for name in given:
        if name not in names:
            raise ValueError(
                f"{subject} has `{name}`, but hardware has {', '.join(names)}"
                f"{did_you_mean(name, names)}"
            )
    missing = [name for name in names[:5] if name not in given]
    if missing:
        raise ValueError(f"{subject} lacks `{missing[0]}`")
    flops = given["flops"]
    if not isinstance(flops, dict) or "float32" not in flops:
        raise ValueError(f'{subject}: `flops` are by dtype, such as {{"float32": 1e13}}: {flops!r}')
    for name, value in {**given, **flops}.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if name != "flops" and not (is_number and 0 < value < float("inf")):
            raise ValueError(f"{subject}: `{name}` must be a number above zero, found {value!r}")
    return Hardware(**given)
