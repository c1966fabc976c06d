"""What a person sees who interrupts the command before any of it runs."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import relaxjax

# What a console script of pip does.
SCRIPT = "import sys\nfrom relaxjax.cli import main\nsys.exit(main())\n"
# Whoever starts the tests may ignore interruptions, and what is started inherits that.
PRESSED = """import os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
os.kill(os.getpid(), signal.SIGINT)
"""

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="there, no process sends itself this signal"
)


def started(folder: Path, at_jax: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A process that does something where it imports JAX, which stands for any place on the way."""
    (folder / "jax.py").write_text(at_jax)
    path = os.pathsep.join([str(folder), str(Path(relaxjax.__file__).parents[1])])
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("script", [None, "relaxjax", "relaxjax.exe"])
def test_an_interruption_of_the_imports_is_no_error(script: str | None, tmp_path: Path) -> None:
    start = ["-m", "relaxjax"] if script is None else [str(tmp_path / script)]
    (tmp_path / start[-1]).write_text(SCRIPT)
    result = started(tmp_path, PRESSED, *start, "ops")
    assert (result.returncode, result.stdout) == (130, "")
    assert result.stderr == "relaxjax: interrupted\n"


def test_other_programs_and_other_errors_are_as_python_has_them(tmp_path: Path) -> None:
    for name in ("mine", "relaxjax"):
        (tmp_path / name).write_text(SCRIPT)
    result = started(tmp_path, PRESSED, str(tmp_path / "mine"))
    assert result.returncode == -signal.SIGINT
    assert result.stderr.startswith("Traceback (most recent call last):\n")
    result = started(tmp_path, "raise RuntimeError('broken')", str(tmp_path / "relaxjax"))
    assert result.returncode == 1
    assert result.stderr.endswith("\nRuntimeError: broken\n")


LOST = """import gc, os, signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)
def when_collected(phase, info):
    gc.callbacks.remove(when_collected)
    os.kill(os.getpid(), signal.SIGINT)
gc.callbacks.append(when_collected)
gc.collect()
time.sleep(20)
"""


def test_an_interruption_while_garbage_is_collected_is_not_lost(tmp_path: Path) -> None:
    """Python ignores what a function raises that is called then."""
    (tmp_path / "relaxjax").write_text(SCRIPT)
    result = started(tmp_path, LOST, str(tmp_path / "relaxjax"))
    assert (result.returncode, result.stdout) == (130, "")
    assert result.stderr == "relaxjax: interrupted\n"


def test_other_errors_that_python_ignores_are_told(tmp_path: Path) -> None:
    (tmp_path / "relaxjax").write_text(SCRIPT)
    broken = LOST.replace("os.kill(os.getpid(), signal.SIGINT)", "raise RuntimeError('broken')")
    end = "raise SystemExit(3)\n"
    result = started(tmp_path, broken.replace("time.sleep(20)\n", end), str(tmp_path / "relaxjax"))
    assert result.returncode == 3
    assert "Exception ignored" in result.stderr
    assert "RuntimeError: broken" in result.stderr
