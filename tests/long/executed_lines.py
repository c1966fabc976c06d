"""A plugin of pytest that notes which lines of the package each test executes.

    RELAXJAX_LINES=FOLDER RELAXJAX_STAGE=fast python -m pytest -p executed_lines --dist loadfile ...

It writes a file for each file of tests into the folder. What a test executes is more than what runs
while it does, because some code runs once for many tests:

* The body of a fixture that several tests share, or of a function that keeps its results
  (`functools.cache`), counts for every test of the file. What such functions and JAX kept is
  forgotten before each file.
* What runs outside of tests, or once for all of them, counts for all.
* A test that starts processes may execute any line there. So may one that failed when it was noted.

One thing goes unseen: JAX traces a function once, though several tests of a file may call it with
arguments of the same types. Its lines count for the first of these.
"""

import functools
import gzip
import hashlib
import importlib.machinery
import inspect
import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("relaxjax", "passes", "losses", "optim")
STARTS_PROCESS = ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn")
EVERY = -1  # the mask of a line that all tests of a file execute

_LINKS = tuple(f"relaxjax/{name}/" for name in PACKAGES[1:])
_MONITORING: Any = getattr(sys, "monitoring", None)  # since Python 3.12

Line = tuple[str, int]


@functools.cache
def place_of(file: str) -> str:
    """The path of a file from the root of the checkout, under one name; empty if it is not ours."""
    path = Path(file)
    name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else ""
    return name.removeprefix("relaxjax/") if name.startswith(_LINKS) else name


def is_ours(file: str) -> bool:
    return place_of(file).partition("/")[0] in PACKAGES


def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Recorder:
    """Notes the lines, in whichever set is that of what runs now."""

    def __init__(self, folder: Path, stage: str) -> None:
        self.folder, self.stage = folder, stage
        self.outside = set[Line]()
        self.shared = set[Line]()
        self.seen = self.outside
        self.masks = defaultdict[Line, int](int)
        self.cases: dict[str, tuple[float, bool]] = {}
        self.file = ""
        self.kept: list[Any] = []  # functions that keep their results

    def note(self, code: CodeType, line: int) -> object:
        self.seen.add((place_of(code.co_filename), line))
        return _MONITORING.DISABLE

    @contextmanager
    def into(self, lines: set[Line]) -> Iterator[None]:
        """Note what is executed inside in other lines, and afterwards as if it had not been."""
        before, self.seen = self.seen, lines
        _MONITORING.restart_events()
        try:
            yield
        finally:
            self.seen = before
            _MONITORING.restart_events()

    def begin(self, file: str) -> None:
        self.finish()
        self.file = file
        for function in self.kept:
            function.cache_clear()
        if "jax" in sys.modules:
            sys.modules["jax"].clear_caches()

    def add(self, case: str, seconds: float, is_known: bool, lines: set[Line]) -> None:
        bit = 1 << len(self.cases)
        self.cases[case] = seconds, is_known
        for line in lines:
            self.masks[line] |= bit

    def finish(self) -> None:
        """Write down the file of tests that has run."""
        if not self.cases:
            return
        self.masks.update(dict.fromkeys(self.shared, EVERY))
        lines = defaultdict[str, dict[int, str]](dict)
        for (place, line), mask in self.masks.items():
            lines[place][line] = f"{mask:x}"
        found = {
            "tests": self.file,
            "digest": digest_of(ROOT / self.file),
            "cases": self.cases,
            "lines": lines,
        }
        self.write(self.file.replace("/", "."), found)
        self.write(f"outside.{os.getpid()}", sorted(self.outside))
        self.shared.clear()
        self.masks.clear()
        self.cases.clear()

    def write(self, name: str, found: object) -> None:
        with gzip.open(self.folder / f"{self.stage}.{name}.json.gz", "wt", 1) as file:
            json.dump(found, file)

    def watch(self) -> None:
        """Watch the functions of all modules of the package that are loaded from now on."""
        _MONITORING.use_tool_id(_MONITORING.COVERAGE_ID, "relaxjax")
        _MONITORING.register_callback(_MONITORING.COVERAGE_ID, _MONITORING.events.LINE, self.note)
        loader: Any = importlib.machinery.SourceFileLoader
        get_code, execute = loader.get_code, loader.exec_module

        def watched(self_: Any, name: str) -> CodeType:
            code: CodeType = get_code(self_, name)
            if is_ours(code.co_filename):
                _watch_functions(code)
            return code

        def executed(self_: Any, module: ModuleType) -> None:
            with self.into(self.outside) if is_ours(self_.path) else nullcontext():
                execute(self_, module)

        loader.get_code, loader.exec_module = watched, executed

    def watch_kept_results(self) -> None:
        """Have the body of each function that keeps its results run for all tests of a file."""
        keep: Any = functools.lru_cache

        def shared(function: Any) -> Any:
            @functools.wraps(function)
            def run(*args: Any, **kwargs: Any) -> Any:
                with self.into(self.outside if self.seen is self.outside else self.shared):
                    return function(*args, **kwargs)

            return run

        def lru_cache(maxsize: Any = 128, typed: bool = False) -> Any:
            if not callable(maxsize):
                return lambda function: kept(function, maxsize, typed)
            return kept(maxsize, 128, False)

        def kept(function: Any, maxsize: int | None, typed: bool) -> Any:
            code = getattr(function, "__code__", None)
            if code is None or not place_of(code.co_filename):
                return keep(maxsize, typed)(function)
            made = keep(maxsize, typed)(shared(function))
            self.kept.append(made)
            return made

        functools.lru_cache = lru_cache


def _watch_functions(code: CodeType) -> None:
    """Watch the functions inside some code; its own lines run where it is imported."""
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            if inner.co_flags & inspect.CO_OPTIMIZED:
                events = _MONITORING.events.LINE
                _MONITORING.set_local_events(_MONITORING.COVERAGE_ID, inner, events)
            _watch_functions(inner)


class Hooks:
    """What pytest tells the recorder."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.is_known = True

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        file, _, case = item.nodeid.partition("::")
        if file != self.recorder.file:
            self.recorder.begin(file)
        lines, start = set[Line](), time.monotonic()
        self.is_known = True
        with self.recorder.into(lines):
            result = yield
        self.recorder.add(case, round(time.monotonic() - start, 3), self.is_known, lines)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.is_known = self.is_known and not report.failed

    def asked(self, event: str, _: object) -> None:
        if event in STARTS_PROCESS:
            self.is_known = False

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        scope, recorder = fixturedef.scope, self.recorder
        if scope == "function":
            return (yield)
        with recorder.into(recorder.outside if scope == "session" else recorder.shared):
            return (yield)

    def pytest_sessionfinish(self) -> None:
        self.recorder.finish()


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Begin before the package is imported, which `conftest.py` does."""
    recorder = Recorder(Path(os.environ["RELAXJAX_LINES"]), os.environ["RELAXJAX_STAGE"])
    recorder.watch()
    recorder.watch_kept_results()
    hooks = Hooks(recorder)
    sys.addaudithook(hooks.asked)
    early_config.pluginmanager.register(hooks)
