"""What `relaxjax memory` prints: the values of a plan as a table, and the bytes that are live."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

from relaxjax.passes.memory.ledger import Entry, Ledger

_LEVELS = " ▁▂▃▄▅▆▇█"
_WIDTH = 72
_NAMED = 5  # of the values at the peak
ORDERS = ("bytes", "program")


def report(ledger: Ledger, name: str, measured: tuple[int, int], order: str) -> list[str]:
    """The lines to print; `measured` is what XLA says, before and after."""
    before, after = ledger.planner.none, ledger.plan
    entries = list(ledger.entries)
    if order == "bytes":
        entries.sort(key=lambda entry: -entry.size)
    head = (
        f"{name}: at most {_size(before.peak)} are live if everything is kept, "
        f"{_size(after.peak)} as planned, {ledger.extra_share:.1%} computed again"
    )
    kept = _sum("kept", [entry for entry in entries if entry.kept])
    again = _sum("computed again", [entry for entry in entries if not entry.kept])
    return [
        head,
        f"by XLA's count {_size(measured[0])} and {_size(measured[1])}",
        "",
        *_table(entries),
        "",
        f"{kept}; {again}",
        f"at the peak, where `{ledger.peak_at}` is computed: {_held(ledger.at_peak)}",
        "",
        f"live before  {_plot(before.placement.live, before.peak)}  at most {_size(before.peak)}",
        f"live after   {_plot(after.placement.live, before.peak)}  at most {_size(after.peak)}",
    ]


def _table(entries: Iterable[Entry]) -> list[str]:
    rows = [("value", "bytes", "line", "needed by", "what becomes of it")]
    rows += [_row(entry) for entry in entries]
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    return ["  ".join([*map(str.ljust, row, widths), row[4]]).rstrip() for row in rows]


def _row(entry: Entry) -> tuple[str, str, str, str, str]:
    place = "-" if entry.span is None else f"{Path(entry.span.file).name}:{entry.span.line}"
    first, *others = entry.needed_by or ("-",)
    needed = f"{first} and {len(others)} more" if others else first
    return entry.name, _size(entry.size), place, needed, _decision(entry)


def _decision(entry: Entry) -> str:
    if not entry.kept:
        return entry.reason
    if entry.is_choice:
        return f"kept: computing it again takes {_flops(entry.flops)}"
    return f"kept: {entry.reason}"


def _sum(what: str, entries: Sequence[Entry]) -> str:
    return f"{what}: {_size(sum(entry.size for entry in entries))} in {_count(len(entries))}"


def _held(sizes: dict[str, int]) -> str:
    """What is live at once: the largest by name, the others together."""
    named = [f"{name} {_size(size)}" for name, size in list(sizes.items())[:_NAMED]]
    others = list(sizes.values())[_NAMED:]
    if others:
        named.append(f"{_size(sum(others))} in {_count(len(others))} more")
    return ", ".join(named) or "nothing"


def _count(values: int) -> str:
    return f"{values} value{'' if values == 1 else 's'}"


def _size(count: int) -> str:
    """Bytes as a person reads them."""
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} B"


def _flops(count: int) -> str:
    for unit, scale in (("Gflop", 10**9), ("Mflop", 10**6), ("kflop", 10**3)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} flop"


def _plot(sizes: Sequence[int], most: int) -> str:
    """A line of bars, each the most of its stretch, the highest level for `most`."""
    count = min(_WIDTH, len(sizes))
    places = [len(sizes) * i // count for i in range(count + 1)]
    peaks = [max(sizes[a:b]) for a, b in pairwise(places)]
    return "".join(_LEVELS[-(-peak * (len(_LEVELS) - 1) // max(most, 1))] for peak in peaks)
