"""What the devices of a compiled program tell each other, read from XLA's text of it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import prod
from typing import Any

import numpy as np

from .compiled_text import Instruction, computations_of, place_of

KINDS = (
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "ragged-all-to-all",
    "collective-permute",
    "collective-broadcast",
)
# What takes time while data is on its way.
_WORKS = ("fusion", "dot", "convolution", "custom-call", "while", "call", "reduce", "sort")
_IN_PIECES = ("all-to-all", "ragged-all-to-all")  # of one value, a piece for each device
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')
_SHAPE = re.compile(r"\b([a-z]+\d*\w*)\[([\d,]*)\]")
_MESH = re.compile(
    r"replica_groups=mesh\[([^\]]*)\]"
    r"(?:, device_ids=\(\[([\d,]+)\](?:T\(([\d,]+)\))?\))? \{([^}]*)\}"
)
_BITS = re.compile(r"^[a-z]+?(\d+)")


@dataclass(frozen=True, slots=True)
class Collective:
    """One exchange in a program, as each device has it.

    `bytes` are those that a device gives or takes at once, whichever are more, and `times` how
    often a run makes it, None in a loop of unknown length. `groups` are the numbers of the devices
    that exchange, none for all of them, None where XLA does not tell; `place` is where in the
    program it comes from. Of several values that XLA sends together, each is one.
    """

    kind: str
    bytes: int
    times: int | None
    groups: frozenset[frozenset[int]] | None
    place: str
    is_overlapped: bool | None  # None where XLA does not say when it starts and ends


def collectives_of(text: str) -> list[Collective]:
    """All exchanges in a compiled program, of its text as XLA gives it, in their order."""
    computations, entry = computations_of(text)
    return list(_visited(computations, entry, 1, None))


def axes_of_groups(
    mesh: Mapping[str, int], groups: frozenset[frozenset[int]] | None
) -> tuple[str, ...] | None:
    """The axes of a mesh along which devices exchange; None where it is along none of them."""
    if groups is None:
        return None
    names = tuple(mesh)
    if not groups:
        return names
    for count in range(1, len(names) + 1):
        for axes in combinations(names, count):
            if groups == groups_along(mesh, axes):
                return axes
    return None


def groups_along(mesh: Mapping[str, int], axes: Sequence[str]) -> frozenset[frozenset[int]]:
    """The devices that differ along some axes alone, by their numbers in the mesh."""
    numbers = np.arange(prod(mesh.values())).reshape(list(mesh.values()))
    kept = [at for at, name in enumerate(mesh) if name not in axes]
    moved = [at for at, name in enumerate(mesh) if name in axes]
    rows = numbers.transpose([*kept, *moved]).reshape(-1, prod(numbers.shape[at] for at in moved))
    return frozenset(frozenset(map(int, row)) for row in rows)


def _visited(
    computations: dict[str, list[Instruction]],
    name: str,
    times: int | None,
    is_overlapped: bool | None,
) -> Iterator[Collective]:
    """The exchanges of a computation that is run so often, and of those that it calls."""
    instructions = computations.get(name, [])
    shapes = {one.name: one.shape for one in instructions}
    places_of = {one.name: place_of(one.text) for one in instructions}
    for at, one in enumerate(instructions):
        kind = one.opcode.removesuffix("-start")
        if kind in KINDS:
            starts = one.opcode != kind
            overlapped = _works_between(instructions, at) if starts else is_overlapped
            result = _done_shape(instructions, at) if starts else one.shape
            groups, place = _groups(one.text), place_of(one.text)
            given = [_bytes_of(shapes.get(operand, "")) for operand in one.operands]
            places = [places_of.get(operand) or place for operand in one.operands]
            gives = _parts_of(result)
            if kind in _IN_PIECES or len(given) != len(gives) or len(given) == 1:
                given, gives, places = [sum(given)], [sum(gives)], [place or "".join(places[:1])]
            for taken, made, where in zip(given, gives, places, strict=True):
                yield Collective(kind, max(taken, made), times, groups, where, overlapped)
        for way, called in one.calls:
            trips = _TRIPS.search(one.text)
            often = times
            if way == "body":
                often = None if times is None or trips is None else times * int(trips[1])
            is_async = one.opcode == "async-start"
            overlapped = _works_between(instructions, at) if is_async else is_overlapped
            if called in computations:
                yield from _visited(computations, called, often, overlapped)


def _works_between(instructions: Sequence[Instruction], start: int) -> bool:
    """Whether there is work between the start of an exchange and its end."""
    return any(one.opcode in _WORKS for one in instructions[start + 1 : _done(instructions, start)])


def _done(instructions: Sequence[Instruction], start: int) -> int:
    name = instructions[start].name
    ends = (
        at
        for at, one in enumerate(instructions)
        if at > start and one.opcode.endswith("-done") and name in one.operands
    )
    return next(ends, start + 1)


def _done_shape(instructions: Sequence[Instruction], start: int) -> str:
    done = _done(instructions, start)
    return instructions[done].shape if done < len(instructions) else instructions[start].shape


def _bytes_of(shape: str) -> int:
    """The bytes of a shape, or of all in a tuple of them."""
    return sum(_parts_of(shape))


def _parts_of(shape: str) -> list[int]:
    """The bytes of a shape, or of each in a tuple."""
    found = []
    for dtype, dims in _SHAPE.findall(shape):
        bits = _BITS.match(dtype)
        size = 8 if dtype == "pred" else int(bits[1]) if bits is not None else 0
        found.append(-(-size * prod(_numbers(dims)) // 8))
    return found


def _groups(text: str) -> frozenset[frozenset[int]] | None:
    """The groups of devices, in any of the forms in which XLA writes them."""
    pairs = re.search(r"source_target_pairs=\{((?:\{\d+,\d+\},?)*)\}", text)
    if pairs is not None:
        return _connected([tuple(map(int, one.split(","))) for one in _braced(pairs[1])])
    listed = re.search(r"replica_groups=\{((?:\{[\d,]*\},?)*)\}", text)
    if listed is not None:
        return frozenset(frozenset(map(int, one.split(","))) for one in _braced(listed[1]))
    counted = re.search(r"replica_groups=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?", text)
    if counted is not None:
        rows = _in_order(counted[2], counted[3]).reshape(_numbers(counted[1]))
        return frozenset(frozenset(map(int, row)) for row in rows)
    meshed = _MESH.search(text)
    return None if meshed is None else _of_mesh(*meshed.groups())


def _in_order(dims: str, order: str | None) -> np.ndarray[Any, Any]:
    """Numbers from 0 on in some dimensions, these in another order."""
    numbers = np.arange(prod(_numbers(dims))).reshape(_numbers(dims))
    return numbers.transpose(_numbers(order)) if order else numbers


def _of_mesh(
    axes: str, dims: str | None, order: str | None, used: str
) -> frozenset[frozenset[int]] | None:
    sizes = {name: int(size) for name, size in re.findall(r"'(\w+)'=(\d+)", axes)}
    names = re.findall(r"'(\w+)'", used)
    if not sizes or not {*names} <= {*sizes}:
        return None
    placed = _in_order(dims or str(prod(sizes.values())), order)
    numbers = placed.reshape(list(sizes.values()))
    kept = [at for at, name in enumerate(sizes) if name not in names]
    places = product(*(range(numbers.shape[at]) for at in kept))
    rows = numbers.transpose([*kept, *(at for at in range(numbers.ndim) if at not in kept)])
    return frozenset(frozenset(map(int, rows[place].ravel())) for place in places)


def _numbers(text: str | None) -> list[int]:
    return [int(one) for one in (text or "").split(",") if one]


def _braced(text: str) -> list[str]:
    return re.findall(r"\{([\d,]*)\}", text)


def _connected(pairs: Sequence[tuple[int, ...]]) -> frozenset[frozenset[int]]:
    """The sets of devices that are tied by pairs."""
    found: list[set[int]] = []
    for pair in pairs:
        tied = [one for one in found if one & {*pair}]
        found = [one for one in found if not one & {*pair}] + [{*pair}.union(*tied)]
    return frozenset(map(frozenset, found))
