"""The command `relaxjax` itself: help, version, unknown commands, and how errors are shown."""

import importlib
import subprocess
import sys
from types import SimpleNamespace

import pytest

import relaxjax
from relaxjax.cli import entry, main
from relaxjax.cli.failure import InputError, described
from relaxjax.cli.parser import COMMANDS, every_command


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_is_a_module(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Its docstring is its help."""
    module = importlib.import_module(f"relaxjax.cli.{name}")
    with pytest.raises(SystemExit, match="0"):
        main([name, "--help"])
    text = capsys.readouterr().out
    assert str(module.__doc__).splitlines()[0] in text
    assert "--traceback" in text


def test_help_lists_commands_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    text = " ".join(capsys.readouterr().out.split())  # wrapped as the version of Python does
    for name, summary in COMMANDS.items():
        assert name in text
        assert summary in text
    assert "2 the command line, the file or the pipeline is wrong" in text
    assert "unless NO_COLOR is set" in text


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"relaxjax {relaxjax.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "a command is missing: one of opt, passes"),
        (["optt"], "there is no command `optt`; did you mean `opt`?"),
        (["frobnicate"], "there is no command `frobnicate`: there are "),
        (["opt"], "the following arguments are required: FILE"),
        (
            ["passes", "--jsn"],
            "relaxjax passes: error: there is no such argument: --jsn; did you mean `--js",
        ),
        (["passes", "--jsn=1"], "there is no such argument: --jsn=1; did you mean `--json`?"),
        (["--versin"], "relaxjax: error: there is no such argument: --versin; did you mean `--ver"),
    ],
)
def test_wrong_command_lines(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    error, hint = capsys.readouterr().err.splitlines()  # and no lines of usage before them
    assert message in error
    assert hint.endswith("--help` tells more")


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A command whose `run` each test supplies."""
    module = SimpleNamespace(__doc__="Do it.", add_arguments=lambda parser: None, run=None)
    monkeypatch.setitem(COMMANDS, "do", "do it")
    monkeypatch.setitem(sys.modules, "relaxjax.cli.do", module)
    return module


def raising(error: BaseException) -> object:
    def run(args: object) -> int:
        raise error

    return run


def test_a_command_gives_the_exit_code(command: SimpleNamespace) -> None:
    command.run = lambda args: 7
    assert main(["do"]) == 7


def test_wrong_input_is_one_message(
    command: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    command.run = raising(InputError("`x.py` is empty"))
    assert main(["do"]) == 2
    assert capsys.readouterr() == ("", "relaxjax: error: `x.py` is empty\n")


def test_a_failure_is_shown_with_its_notes(
    command: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    error = KeyError("there is no `x`")
    error.add_note("in the pass `Gradient`")
    command.run = raising(error)
    assert main(["do"]) == 1
    assert capsys.readouterr().err == "relaxjax: error: there is no `x`\nin the pass `Gradient`\n"


def test_traceback_shows_where(
    command: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    command.run = raising(InputError("`x.py` is empty"))
    assert main(["do", "--traceback"]) == 2
    text = capsys.readouterr().err
    assert text.startswith("Traceback (most recent call last):")
    assert text.endswith("relaxjax: error: `x.py` is empty\n")


def test_an_interruption_is_no_error(
    command: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    command.run = raising(KeyboardInterrupt())
    assert main(["do"]) == 130
    assert capsys.readouterr() == ("", "relaxjax: interrupted\n")
    command.run = raising(KeyboardInterrupt("half of it is there"))
    assert main(["do"]) == 130
    assert capsys.readouterr() == ("", "relaxjax: interrupted: half of it is there\n")


def test_an_interruption_of_the_parsing_is_no_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It imports the command that it finds."""
    monkeypatch.setattr(entry, "parsed", raising(KeyboardInterrupt()))
    assert main(["ops"]) == 130
    assert capsys.readouterr().err == "relaxjax: interrupted\n"


def test_errors_without_a_message_show_their_type() -> None:
    assert described(RuntimeError()) == "RuntimeError"
    assert described(OSError("full")) == "full"


def run_python(*arguments: str) -> subprocess.Popen[bytes]:
    """The command as a person starts it, in a process of its own."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-m", "relaxjax", *arguments], stdout=pipe, stderr=pipe
    )


def test_a_reader_that_goes_away_is_no_error() -> None:
    process = run_python("passes", "--json")
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    assert process.wait() == 141
    process.stderr.close()


def test_python_runs_the_package() -> None:
    process = run_python("--help")
    output, _ = process.communicate()
    assert process.returncode == 0
    assert output.startswith(b"usage: relaxjax")


def test_help_imports_no_command() -> None:
    """So help comes as quickly as the package itself."""
    code = (
        "import sys; from relaxjax.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "from relaxjax.cli.parser import COMMANDS\n"
        "sys.exit(any(f'relaxjax.cli.{name}' in sys.modules for name in COMMANDS))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_an_example_and_explains_every_option(name: str) -> None:
    parser = every_command()[name]
    assert f" relaxjax {name}" in str(parser.description)
    for action in parser._actions:
        assert action.help, action
        assert not action.help.endswith("."), action.help
        own_word = action.metavar is None and action.choices is None and action.nargs != 0
        assert not own_word, f"{action.option_strings} needs a metavar"


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "model.py", "--data", "digits", "--out", "x", "--optim", "adm"],
        ["train", "model.py", "--data", "digits", "--out", "x", "--lr", "-1"],
        ["memory", "model.py", "--policy", "most"],
        ["export", "model.py", "--format", "onnx"],
        ["ops", "--json", "--markdown", "x"],
    ],
)
def test_a_usage_error_takes_three_lines_at_most(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert len(capsys.readouterr().err.splitlines()) <= 3


def test_help_fits_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """No line is longer than those of the docstrings, and none ends in blanks."""
    monkeypatch.setenv("COLUMNS", "80")
    for parser in every_command().values():
        for line in parser.format_help().splitlines():
            assert len(line) <= 100, line
            assert line == line.rstrip(), line
