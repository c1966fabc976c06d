"""dev.py sets up an environment once, mends a half-made one, and says what it lacks."""

import importlib.util
import os
import re
import runpy
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import IO

import pytest

DEV = Path(__file__).parents[2] / "dev.py"


@pytest.fixture
def dev(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """dev.py in a folder of its own, which records each command instead of running it."""
    spec = importlib.util.spec_from_file_location("dev", DEV)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / "pyproject.toml").write_text((DEV.parent / "pyproject.toml").read_text())
    commands: list[list[str]] = []

    def call(command: list[object], *_: object, **__: object) -> int:
        words = [str(word) for word in command]
        commands.append(words)
        if "venv" in words:
            python = module.VENV / module.BIN / "python"
            python.parent.mkdir(parents=True)
            python.touch()
            (module.VENV / "pyvenv.cfg").touch()
        return 0

    for name, value in {
        "ROOT": tmp_path,
        "VENV": tmp_path / "venv",
        "UV": None,
        "find_spec": lambda name: True,
        "call": call,
        "commands": commands,
    }.items():
        monkeypatch.setattr(module, name, value, raising=False)
    return module


def verbs(dev: ModuleType) -> list[str]:
    """What the recorded commands did, in short; empties the record."""
    names = [next(w for w in words if w in ("venv", "install", "pytest")) for words in dev.commands]
    dev.commands.clear()
    return names


def test_the_first_call_sets_up_and_the_second_does_nothing(dev: ModuleType) -> None:
    python = dev.environment("test")
    assert "pytest>=9" in dev.commands[1]
    assert verbs(dev) == ["venv", "install"]
    assert dev.environment("test") == python == dev.VENV / dev.BIN / "python"
    assert verbs(dev) == []


def test_a_new_group_is_added_and_the_older_ones_stay(dev: ModuleType) -> None:
    dev.environment("test")
    dev.environment("lint")
    assert "ruff" in dev.commands[-1]
    assert verbs(dev) == ["venv", "install", "install"]
    dev.environment("test")
    dev.environment()
    assert verbs(dev) == []


def test_a_changed_pyproject_is_installed_again(dev: ModuleType) -> None:
    dev.environment()
    (dev.ROOT / "pyproject.toml").write_text("[dependency-groups]\ntest = []\n")
    dev.environment()
    assert verbs(dev) == ["venv", "install", "install"]


def test_an_interrupted_installation_starts_anew(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(dev, "install", interrupt)
        assert dev.main(["demo"]) == 130
    (dev.VENV / "half an installation").touch()
    dev.environment()
    assert verbs(dev) == ["venv", "venv", "install"]
    assert not (dev.VENV / "half an installation").exists()


@pytest.mark.parametrize("stamp", ["", "unfinished"])
def test_a_torn_stamp_starts_anew(dev: ModuleType, stamp: str) -> None:
    dev.environment()
    (dev.VENV / "relaxjax.stamp").write_text(stamp)
    dev.environment()
    assert verbs(dev) == ["venv", "install", "venv", "install"]


def test_an_environment_whose_python_is_gone_starts_anew(dev: ModuleType) -> None:
    (dev.environment()).unlink()
    dev.environment()
    assert verbs(dev) == ["venv", "install", "venv", "install"]


def test_an_environment_made_by_uv_run_is_kept(dev: ModuleType) -> None:
    dev.create(dev.VENV)
    dev.environment()
    assert verbs(dev) == ["venv", "install"]


def test_a_folder_that_is_no_environment_is_never_deleted(dev: ModuleType) -> None:
    dev.VENV.mkdir()
    (dev.VENV / "thesis.txt").touch()
    dev.create(dev.VENV)
    assert (dev.VENV / "thesis.txt").exists()


def test_options_go_through(dev: ModuleType) -> None:
    assert dev.main(["test", "-k", "one thing"]) == 0
    quickly, as_users = (words[1:] for words in dev.commands[-2:])
    assert quickly == [*dev.PYTEST, "-m", "not as_users", "-k", "one thing"]
    assert as_users == [*dev.PYTEST, "-m", "as_users", "-k", "one thing"]
    assert dev.main(["test", "-m", "slow"]) == 0
    assert dev.commands[-1][1:] == [*dev.PYTEST, "-m", "slow"]
    assert dev.main(["fuzz", "--quick"]) == 0
    assert dev.commands[-1][1:] == ["tests/long/fuzz.py", "--quick"]
    assert dev.main(["mutants", "table"]) == 0
    assert dev.commands[-1][1:] == ["tests/long/mutation.py", "table"]
    assert dev.main(["docs", "--out", "site"]) == 0
    assert dev.commands[-1][1:] == ["docs/site/build_site.py", "--out", "site"]
    assert not any("playwright" in words for words in dev.commands)
    assert dev.main(["setup", "docs", "lint"]) == 0
    assert {"sphinx>=8", "ruff"} <= set(dev.commands[-1])
    assert dev.main(["docs", "--browser"]) == 0
    assert "playwright" in dev.commands[-2]
    assert dev.main(["test", "--browser", "tests/explorer"]) == 0
    assert dev.commands[-1][1:] == [*dev.PYTEST, "-m", "as_users", "tests/explorer"]
    assert dev.main(["demo", "--show"]) == 0
    assert dev.commands[-1][-2:] == ["demo", "--show"]


def test_what_opens_pages_is_installed_where_it_is_asked_for(dev: ModuleType) -> None:
    assert dev.main(["test", "--browser"]) == 0
    assert "playwright" in dev.commands[-3]


def test_a_part_of_the_tests_goes_before_those_that_compile_as_users(dev: ModuleType) -> None:
    assert dev.run_tests(Path("python"), ["--durations", "20"], which="fast or smoke") == 0
    marks = [words[words.index("-m", 2) + 1] for words in dev.commands[-2:]]
    assert marks == ["fast or smoke", "as_users"]


@pytest.mark.parametrize(
    ("statuses", "whole"), [((0, 0), 0), ((1, 0), 1), ((0, 1), 1), ((0, 5), 0), ((5, 5), 5)]
)
def test_tests_fail_where_some_do_and_where_none_is_chosen(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, statuses: tuple[int, int], whole: int
) -> None:
    left = iter(statuses)
    monkeypatch.setattr(dev, "call", lambda *_, **__: next(left))
    assert dev.run_tests(Path("python"), []) == whole


def test_processes_of_tests_keep_the_python_that_they_compile(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = list[dict[str, str]]()

    def call(command: list[object], cwd: Path, env: dict[str, str]) -> int:
        given.append(env)
        return 0

    monkeypatch.setattr(dev, "call", call)
    env = {"PYTHONDONTWRITEBYTECODE": "1", "PATH": "here"}
    assert dev.run_tests(Path("python"), [], Path(), env) == 0
    assert dev.run_tests(Path("python"), ["-m", "fast"], Path(), env) == 0
    assert given == [{"PATH": "here"}, {"PATH": "here", "XLA_FLAGS": ""}, {"PATH": "here"}]
    assert "PYTHONDONTWRITEBYTECODE" in env


def test_uv_installs_where_it_is(dev: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dev, "UV", "/bin/uv")
    dev.environment()
    assert [words[0] for words in dev.commands] == ["/bin/uv", "/bin/uv"]


def test_groups_include_groups(dev: ModuleType) -> None:
    assert {"pytest>=9", "ruff"} <= set(dev.group("dev"))
    assert "ruff" not in dev.group("test")


def test_lint_runs_every_check_and_names_those_that_failed(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record = dev.call

    def call(words: list[object], *_: object, output: IO[bytes] | None = None) -> int:
        if output is not None:
            output.write(f"said by {Path(str(words[0])).name}\n".encode())
        return int("mypy" in str(words[0])) or record(words)

    monkeypatch.setattr(dev, "call", call)
    assert dev.main(["lint"]) == 1
    out, err = capsys.readouterr()
    tools = ["ruff", "ruff", "mypy", "lint-imports"]
    assert re.findall("said by (.*)", out) == tools
    assert out.index("--- mypy\nsaid by mypy\n--- mypy: 0.") < out.index("--- import-linter\n")
    assert "failed: mypy" in err


def test_lint_takes_no_options(dev: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert dev.main(["lint", "passes"]) == 2
    assert "lint takes no options, but was given passes" in capsys.readouterr().out


def test_all_pictures_are_drawn_by_one_command(
    dev: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dev.main(["pictures"]) == 0
    drawn = [words[1:] for words in dev.commands[-3:]]
    assert drawn == [
        ["benchmarks/suite_report.py"],
        ["benchmarks/scaling_plot.py"],
        ["docs/site/demo_picture.py"],
    ]
    assert all((Path(__file__).parents[2] / program).exists() for (program,) in drawn)
    assert dev.main(["pictures", "now"]) == 2
    assert "pictures takes no options, but was given now" in capsys.readouterr().out


def test_a_command_that_fails_is_shown(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dev, "call", lambda *_: 3)
    assert dev.main(["demo"]) == 3
    assert "stops, because this failed:" in capsys.readouterr().err


def test_an_unknown_command_is_told_the_known_ones(
    dev: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dev.main(["tset"]) == 2
    assert "no command `tset`; it has demo, test, lint, wheel" in capsys.readouterr().out
    assert dev.main([]) == dev.main(["--help"]) == 0
    assert "python3 dev.py demo" in capsys.readouterr().out


def test_without_pip_ensurepip_does(dev: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dev, "find_spec", lambda name: name != "pip")
    dev.install(Path("python"), "jax")
    assert [words[1:3] for words in dev.commands] == [["-m", "ensurepip"], ["-m", "pip"]]


def test_without_pip_and_ensurepip_the_way_out_is_named(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dev, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match=r"neither pip nor ensurepip.*python3-pip.*or uv"):
        dev.install(Path("python"), "jax")


def test_an_older_python_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 4))
    with pytest.raises(SystemExit, match=r"needs Python 3\.11 or later, but this is Python"):
        runpy.run_path(str(DEV))


def test_it_runs_as_a_program() -> None:
    result = subprocess.run([sys.executable, DEV, "--help"], check=True, capture_output=True)
    assert b"python3 dev.py test" in result.stdout


@pytest.mark.skipif(os.name == "nt", reason="there are no such locks")
def test_two_at_once_set_up_one_after_the_other(
    dev: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    lock = dev.VENV.with_name("venv.lock")
    holder = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX)"
    wait = "print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", f"{holder}; {wait}", str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        other.stdout.readline()
        release = threading.Timer(0.3, other.stdin.close)
        release.start()
        dev.environment()
        assert other.wait() == 0
    assert f"Waiting for another dev.py that sets up {dev.VENV}." in capsys.readouterr().out
