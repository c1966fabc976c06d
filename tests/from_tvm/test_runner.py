"""Scripts, modules and commands that say `import tvm`, run as Python runs them."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from relaxjax.tvm import uninstall
from relaxjax.tvm.runner import main

SCRIPT = """\
import sys
import numpy as np
import tvm
from neighbour import ONE
from tvm import relax
from tvm.script import ir as I, relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        with R.dataflow():
            y = R.add(x, x)
            R.output(y)
        return y

vm = relax.VirtualMachine(tvm.compile(Module, "llvm"), tvm.cpu())
print(vm["main"](tvm.runtime.tensor(np.full(2, ONE, "float32"))).numpy())
print(__name__, __file__, sys.argv)
"""


@pytest.fixture(autouse=True)
def process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """What the runner changes of its process, and puts back nothing of."""
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    monkeypatch.chdir(tmp_path)
    yield
    uninstall()
    sys.modules.pop("neighbour", None)


def written(name: str, text: str) -> str:
    path = Path(name)
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return name


def test_a_script(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    written("below/neighbour.py", "ONE = 1")
    script = written("below/script.py", SCRIPT)
    assert main([script, "-m", "one"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "[2. 2.]"
    assert told[1] == f"__main__ {tmp_path / script} ['{script}', '-m', 'one']"


def test_a_command_and_a_module(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-c", "import sys, tvm; print(tvm.__name__, sys.argv, __name__)", "x"]) == 0
    assert capsys.readouterr().out == "relaxjax.tvm ['-c', 'x'] __main__\n"
    written("own_module.py", "import sys, tvm.relax\nprint(__name__, sys.argv[1:])")
    assert main(["-m", "own_module", "x"]) == 0
    assert capsys.readouterr().out == "__main__ ['x']\n"


ERROR = "import tvm\n\ndef fail():\n    raise ValueError('mine')\n\nfail()\n"


def test_an_error_is_shown_from_the_users_lines(capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(written("script.py", ERROR)).absolute()
    assert main(["script.py"]) == 1
    told = capsys.readouterr().err
    expected = subprocess.run(
        [sys.executable, "script.py"],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(Path(written("fake/tvm.py", "")).parent.absolute())},
    ).stderr
    assert told == expected
    assert f'  File "{path}", line 4, in fail' in told


@pytest.mark.parametrize(
    ("run", "code"),
    [
        ("import sys; sys.exit(3)", 3),
        ("raise SystemExit", None),
        ("raise SystemExit('words')", "words"),
    ],
)
def test_exit_codes_are_those_of_the_script(run: str, code: object) -> None:
    with pytest.raises(SystemExit) as exited:
        main([written("script.py", run)])
    assert exited.value.code == code


def test_an_interruption(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-c", "raise KeyboardInterrupt"]) == 130
    assert capsys.readouterr().err.endswith("KeyboardInterrupt\n")


def test_text_that_is_no_python(capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(written("script.py", "import tvm\nx = = 1\n")).absolute()
    assert main(["script.py"]) == 1
    told = capsys.readouterr().err
    assert told.startswith(f'  File "{path}", line 2\n')
    assert "Traceback" not in told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "say what to run\nusage: "),
        (["--fast"], "there is no option `--fast`\nusage: "),
        (["nowhere.py"], "can't open file 'nowhere.py': No such file or directory"),
        (["-m"], "`-m` needs something to run\nusage: "),
    ],
)
def test_what_cannot_be_run(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith(message)


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "--pytest PATH" in capsys.readouterr().out


def test_as_a_command() -> None:
    command = [sys.executable, "-m", "relaxjax.tvm", "-c", "import tvm; raise SystemExit(5)"]
    assert subprocess.run(command, check=False, capture_output=True).returncode == 5
