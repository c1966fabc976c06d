"""The instruments that come with the passes: they time, keep, print, dump and check."""

import re
import sys
import time
from collections.abc import Collection, Iterable
from contextvars import Token
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from relaxjax.ir.check import well_formed
from relaxjax.ir.highlight import painted
from relaxjax.ir.module import IRModule
from relaxjax.ir.rewriting import REWRITES, Rewrite

from .hooks import pass_instrument
from .info import PassInfo, known_passes


@dataclass(slots=True)
class _Timed:
    """A pass that ran, with the passes that ran inside it."""

    name: str
    seconds: float = 0.0
    inner: "list[_Timed]" = field(default_factory=list)


@pass_instrument
class PassTimingInstrument:
    """Times every pass; `render()` shows the times, those of nested passes indented.

    The times are kept after the context is left, until it is entered again.
    """

    def __init__(self) -> None:
        self.enter_pass_ctx()

    def enter_pass_ctx(self) -> None:
        self._whole = _Timed("")
        self._running: list[tuple[_Timed, float]] = []

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        outer = self._running[-1][0] if self._running else self._whole
        timed = _Timed(info.name)
        outer.inner.append(timed)
        self._running.append((timed, time.perf_counter()))

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        timed, start = self._running.pop()
        timed.seconds = time.perf_counter() - start

    def run_failed_pass(self, mod: IRModule, info: PassInfo, error: BaseException) -> None:
        self.run_after_pass(mod, info)

    def render(self) -> str:
        """A line a pass: its time, [its own part of it], its share of all and of the outer pass."""
        total = sum(timed.seconds for timed in self._whole.inner)
        return "".join(f"{line}\n" for line in _timing_lines(self._whole.inner, total, total, ""))


def _timing_lines(passes: list[_Timed], outer: float, total: float, indent: str) -> Iterable[str]:
    for timed in passes:
        own = timed.seconds - sum(inner.seconds for inner in timed.inner)
        of_all, of_outer = _share(timed.seconds, total), _share(timed.seconds, outer)
        yield (
            f"{indent}{timed.name}: {timed.seconds * 1e6:.0f}us [{own * 1e6:.0f}us] "
            f"({of_all:.2%}; {of_outer:.2%})"
        )
        yield from _timing_lines(timed.inner, timed.seconds, total, indent + "\t")


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


@dataclass(frozen=True, slots=True)
class PassRecord:
    """One run of a pass: its input, its output, its time, and how deep it was nested.

    `rewrites` are those that its own rules made, and not the passes inside it.
    """

    info: PassInfo
    before: IRModule
    after: IRModule
    milliseconds: float
    depth: int
    rewrites: tuple[Rewrite, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether the pass gave another module than it was given."""
        return self.after is not self.before


@dataclass(frozen=True, slots=True)
class _Started:
    """A pass that runs: what it was given, what its rules have rewritten, and since when."""

    mod: IRModule
    rewrites: list[Rewrite]
    told: Token[list[Rewrite] | None]
    start: float


@pass_instrument
class PassHistory:
    """Keeps a record of every pass that ran, in the order in which they ended, in `records`."""

    def __init__(self) -> None:
        self.enter_pass_ctx()

    def enter_pass_ctx(self) -> None:
        self.records: list[PassRecord] = []
        self._running: list[_Started] = []

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        rewrites: list[Rewrite] = []
        told = REWRITES.set(rewrites)
        self._running.append(_Started(mod, rewrites, told, time.perf_counter()))

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        run = self._running.pop()
        milliseconds = (time.perf_counter() - run.start) * 1e3
        REWRITES.reset(run.told)
        self.records.append(
            PassRecord(info, run.mod, mod, milliseconds, len(self._running), tuple(run.rewrites))
        )

    def run_failed_pass(self, mod: IRModule, info: PassInfo, error: BaseException) -> None:
        REWRITES.reset(self._running.pop().told)

    def render(self) -> str:
        """A line a pass: its time, its name, and whether it changed the module."""
        return "".join(
            f"{record.milliseconds:10.3f} ms  {'  ' * record.depth}{record.info.name}"
            f"{'' if record.changed else '  (unchanged)'}\n"
            for record in self.records
        )


@pass_instrument
class PassPrintingInstrument:
    """Prints the module before and after the passes of the given names."""

    def __init__(
        self,
        print_before_pass_names: Collection[str] = (),
        print_after_pass_names: Collection[str] = (),
        file: TextIO | None = None,
    ) -> None:
        self.before = known_passes("print_before_pass_names", print_before_pass_names)
        self.after = known_passes("print_after_pass_names", print_after_pass_names)
        self.file = file

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        if info.name in self.before:
            _print(mod, f"before {info.name}", self.file)

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        if info.name in self.after:
            _print(mod, f"after {info.name}", self.file)


@pass_instrument
class PrintBeforeAll:
    """Prints the module before every pass."""

    def __init__(self, file: TextIO | None = None) -> None:
        self.file = file

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        _print(mod, f"before {info.name}", self.file)


@pass_instrument
class PrintAfterAll:
    """Prints the module after every pass."""

    def __init__(self, file: TextIO | None = None) -> None:
        self.file = file

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        _print(mod, f"after {info.name}", self.file)


@pass_instrument
class DumpIR:
    """Writes the module after every pass into a folder: `000_Normalize.py`, `001_Gradient.py`, ….

    Args:
        dump_dir: the folder, made where it is missing.
        refresh: whether to delete the dumps of earlier runs first; nothing else is ever deleted.
    """

    def __init__(self, dump_dir: str | Path, refresh: bool = False) -> None:
        self.dump_dir = Path(dump_dir)
        self.counter = 0
        if refresh and self.dump_dir.is_dir():
            for path in self.dump_dir.iterdir():
                if re.fullmatch(r"\d{3,}_.*\.py", path.name) and path.is_file():
                    path.unlink()

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        self.dump_dir.mkdir(parents=True, exist_ok=True)
        name = re.sub(r"[^\w.-]", "_", info.name)
        path = self.dump_dir / f"{self.counter:03d}_{name}.py"
        path.write_text(f"{mod.script()}\n", encoding="utf-8")
        self.counter += 1


@pass_instrument
class WellFormedInstrument:
    """Checks the module before and after every pass, except those that make a module well formed.

    Args:
        validate_before_transform: whether to check also what a pass is given.
    """

    skipped = frozenset({"Normalize", "NormalizeGlobalVar"})

    def __init__(self, validate_before_transform: bool = True) -> None:
        self.validate_before_transform = validate_before_transform

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        if self.validate_before_transform:
            self._check(mod, info, "before")

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        self._check(mod, info, "after")

    def _check(self, mod: IRModule, info: PassInfo, when: str) -> None:
        if info.name in self.skipped:
            return
        try:
            well_formed(mod)
        except Exception as error:
            error.add_note(f"{when} the pass `{info.name}`")
            raise


def _print(mod: IRModule, title: str, file: TextIO | None) -> None:
    stream = file or sys.stdout
    print(painted(f"# {title}", "bold", stream), file=stream)
    mod.script().show(stream=stream)
    print(file=stream)
