"""The tests of one file, run in this process: `python -m relaxjax.tvm.file_tests FILE ANSWER`."""

import json
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from relaxjax.script.namespace import NoPlaceError

from .conformance import FileResult
from .hook import install
from .scope import OutOfScopeImportError

_LONGEST = 160
_OUT_OF_SCOPE = (NoPlaceError, OutOfScopeImportError)


class Recorder:
    """Takes down what becomes of each test: the worst of its phases counts."""

    def __init__(self, file: str) -> None:
        self.result = FileResult(file)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: Any, call: Any) -> Generator[None, Any, Any]:
        report = yield
        if report.failed:
            self._fail(call.excinfo.value if call.excinfo else None, report, item.nodeid)
        elif report.skipped:
            self.result.add("skipped")
        elif call.when == "call":
            self.result.add("passed")
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: Any) -> Generator[None, Any, Any]:
        report = yield
        if report.failed:
            self._fail(report.call.excinfo.value, report, collector.nodeid)
        elif report.skipped:
            self.result.add("skipped")
        return report

    def _fail(self, error: BaseException | None, report: Any, test: str) -> None:
        if error is None:  # a test that passes although it says that it fails
            self.result.add("failed", str(report.longrepr), test)
            return
        beyond = [one for one in _causes(error) if isinstance(one, _OUT_OF_SCOPE)]
        first = beyond[0] if beyond else _cause(error)
        self.result.add("out of scope" if beyond else "failed", _said(first), test)


def main(file: str, answer: str) -> None:
    """Run the tests of a file, and write what became of them as JSON."""
    install()
    recorder = Recorder(file)
    code = pytest.main([file, "-q", "-p", "no:cacheprovider"], plugins=[recorder])
    if code in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.INTERNAL_ERROR):
        sys.exit(int(code))
    result = recorder.result
    told = json.dumps({"counts": result.counts, "reasons": result.reasons})
    Path(answer).write_text(told, encoding="utf-8")


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error, and those that led to it."""
    seen: set[int] = set()
    following: BaseException | None = error
    while following is not None and id(following) not in seen:
        seen.add(id(following))
        yield following
        following = following.__cause__ or following.__context__


def _cause(error: BaseException) -> BaseException:
    """What kept a file from being imported, rather than that it was; another error as it is."""
    if isinstance(error, pytest.Collector.CollectError) and error.__cause__ is not None:
        return error.__cause__
    return error


def _said(error: BaseException) -> str:
    """The kind of an error, and the first line of what it says."""
    lines = str(error).strip().splitlines() or [""]
    text = f"{type(error).__name__}: {lines[0]}"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


if __name__ == "__main__":
    main(*sys.argv[1:])
