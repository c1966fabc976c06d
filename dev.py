#!/usr/bin/env python3
"""Set up all that relaxjax needs and run it; nothing but Python 3.11 or later is asked for.

python3 dev.py demo    train a small model; takes the options of `relaxjax demo`
python3 dev.py test    run the tests; takes the options of pytest
python3 dev.py lint    check format, style, types and layers
python3 dev.py wheel   build the wheel and test it away from here; takes the options of pytest
python3 dev.py fuzz    compile random programs in many ways and compare; --help tells its options
python3 dev.py mutants put small faults into the code and run the tests; --help tells its options
python3 dev.py docs    build the documentation site in build/docs; --help tells its options
python3 dev.py pictures draw the pictures of the pages anew, from what benchmarks have recorded
python3 dev.py setup   install what the other commands need; takes names of dependency groups

The environment lives in .venv, or in the folder that RELAXJAX_VENV names. uv installs where it is
on the PATH, pip otherwise.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import IO

if sys.version_info < (3, 11):  # noqa: UP036  # an older Python is just who must be told
    sys.exit(
        f"relaxjax needs Python 3.11 or later, but this is Python {sys.version.split()[0]} "
        f"({sys.executable}).\nRun this file with a newer one, such as: python3.12 dev.py"
    )

import tomllib  # only from Python 3.11 on

Command = Sequence[str | Path]

ROOT = Path(__file__).resolve().parent
VENV = Path(os.environ.get("RELAXJAX_VENV") or ROOT / ".venv").absolute()
BIN = "Scripts" if os.name == "nt" else "bin"
UNFINISHED = "unfinished"
NONE_CHOSEN = 5  # pytest's status where no test was chosen
UV = shutil.which("uv")
# On all cores; each begins with files of its own, because tests of a file share what they compile.
PYTEST = ["-m", "pytest", "-n", "auto", "--dist", "worksteal"]
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]


def main(arguments: list[str]) -> int:
    commands: dict[str, Callable[[list[str]], int]] = {
        "demo": demo,
        "test": test,
        "lint": lint,
        "wheel": wheel,
        "fuzz": fuzz,
        "mutants": mutants,
        "docs": docs,
        "pictures": pictures,
        "setup": setup,
    }
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__)
        return 0
    if arguments[0] not in commands:
        print(f"dev.py has no command `{arguments[0]}`; it has {', '.join(commands)}")
        return 2
    try:
        return commands[arguments[0]](arguments[1:])
    except subprocess.CalledProcessError as error:
        print(
            f"\ndev.py stops, because this failed: {' '.join(map(str, error.cmd))}", file=sys.stderr
        )
        return int(error.returncode) or 1
    except KeyboardInterrupt:
        return 130


def demo(options: list[str]) -> int:
    environment()
    return call([VENV / BIN / "relaxjax", "demo", *options], cwd=Path.cwd())


def test(options: list[str]) -> int:
    """Run the tests; with --browser, those that open pages in Chromium find what they need."""
    groups = ["test", "browser"] if "--browser" in options else ["test"]
    return run_tests(environment(*groups), [word for word in options if word != "--browser"])


def run_tests(
    python: Path,
    options: list[str],
    cwd: Path = ROOT,
    env: Mapping[str, str] = os.environ,
    which: str = "not as_users",
) -> int:
    """Run the tests, and by themselves those that compile as users do, with XLA's own flags."""
    # Each process compiles else all the Python that it reads: half of a worker's start.
    env = {name: value for name, value in env.items() if name != "PYTHONDONTWRITEBYTECODE"}
    if "-m" in options:
        return call([python, *PYTEST, *options], cwd, env)
    print("--- compiled quickly", flush=True)
    found = [call([python, *PYTEST, "-m", which, *options], cwd, env)]
    print("--- compiled as for users", flush=True)
    env = {**env, "XLA_FLAGS": ""}
    found += [call([python, *PYTEST, "-m", "as_users", *options], cwd, env)]
    return max((status for status in found if status != NONE_CHOSEN), default=NONE_CHOSEN)


def fuzz(options: list[str]) -> int:
    return call([environment(), "tests/long/fuzz.py", *options])


def mutants(options: list[str]) -> int:
    return call([environment("test"), "tests/long/mutation.py", *options])


def docs(options: list[str]) -> int:
    groups = ["docs", "browser"] if "--browser" in options else ["docs"]
    return call([environment(*groups), "docs/site/build_site.py", *options])


def pictures(options: list[str]) -> int:
    """Those that are made of something: the other figures are drawings, and their own sources."""
    if options:
        print(f"dev.py pictures takes no options, but was given {' '.join(options)}")
        return 2
    python = environment()
    programs = (
        "benchmarks/suite_report.py",
        "benchmarks/scaling_plot.py",
        "docs/site/demo_picture.py",
    )
    for program in programs:
        checked_call([python, program])
    return 0


def setup(groups: list[str]) -> int:
    environment(*groups)
    return 0


def lint(options: list[str]) -> int:
    """Run every check, side by side, also where one fails, and name those that did."""
    if options:
        print(f"dev.py lint takes no options, but was given {' '.join(options)}")
        return 2
    environment("lint")
    checks: dict[str, Command] = {
        "ruff format": ["ruff", "format", "--check", "."],
        "ruff check": ["ruff", "check", "."],
        "mypy": ["mypy"],
        "import-linter": ["lint-imports"],
    }
    failed = []
    with ThreadPoolExecutor(len(checks)) as pool:  # mypy takes a minute, on one core
        results = pool.map(heard, checks.values())
        for name, (status, said, seconds) in zip(checks, results, strict=True):
            print(f"\n--- {name}\n{said}--- {name}: {seconds:.1f} s", flush=True)
            if status != 0:
                failed.append(name)
    if failed:
        print(f"\nfailed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def heard(check: Command) -> tuple[int, str, float]:
    """The status of a tool of the environment, what it says, and the seconds that it takes."""
    start = time.monotonic()
    with tempfile.TemporaryFile() as output:
        status = call([VENV / BIN / check[0], *check[1:]], output=output)
        output.seek(0)
        said = output.read().decode(errors="replace")
    return status, said, time.monotonic() - start


def wheel(options: list[str]) -> int:
    """Test the package as a user gets it: from a wheel, with no checkout in reach.

    Slow tests but for smokes are left to `.ci/full`.
    """
    with tempfile.TemporaryDirectory(prefix="relaxjax-") as temporary:
        work = Path(temporary)
        built = build(work)
        check_wheel(built)
        python = create(work / "venv")
        install(python, f"relaxjax[pretty] @ {built.as_uri()}", *group("test"))
        away = work / "away"
        left = shutil.ignore_patterns("__pycache__", "checkout")  # what tests a checkout
        for name in ("tests", "programs", "examples"):
            shutil.copytree(ROOT / name, away / name, ignore=left)
        shutil.copy(ROOT / "pyproject.toml", away)
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        installed = "import relaxjax, sys; sys.exit(not relaxjax.__file__.startswith(sys.prefix))"
        checked_call([python, "-c", installed], away, env)
        return run_tests(python, options, away, env, which="fast or smoke")


def check_wheel(built: Path) -> None:
    """Raise where an index would refuse the wheel, or it holds what no wheel should."""
    environment("package")
    checked_call([VENV / BIN / "twine", "check", "--strict", built])
    checked_call([VENV / BIN / "check-wheel-contents", built])


def environment(*groups: str) -> Path:
    """The Python of an environment that has the package, editable, and the groups' packages.

    A stamp in the folder says what is installed. While an installation runs it says `unfinished`,
    and an environment left like that is made anew, because nobody knows what it lacks.
    """
    with one_at_a_time(VENV.with_name(f"{VENV.name}.lock")):
        return up_to_date(groups)


def up_to_date(groups: Sequence[str]) -> Path:
    stamp = VENV / "relaxjax.stamp"
    wanted = hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
    found = stamp.read_text(encoding="utf-8").split() if stamp.exists() else [""]
    python = VENV / BIN / "python"
    if found in ([], [UNFINISHED]) or not python.exists():
        found, python = [""], create(VENV)
    done = set(found[1:]) if found[0] == wanted else set()
    if found[0] != wanted or not done.issuperset(groups):
        names = sorted(done.union(groups))
        stamp.write_text(UNFINISHED, encoding="utf-8")
        install(python, "-e", ".[pretty]", *(package for name in names for package in group(name)))
        stamp.write_text(" ".join([wanted, *names]), encoding="utf-8")
    return python


@contextmanager
def one_at_a_time(lock: Path) -> Iterator[None]:
    """Wait while another dev.py installs into the same environment, where the system has locks."""
    if find_spec("fcntl") is None:  # on Windows
        yield
        return
    import fcntl

    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"Waiting for another dev.py that sets up {VENV}.", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def create(folder: Path) -> Path:
    """The Python of a new, empty environment; what an older one left in the folder goes."""
    print(f"Setting up {folder}; this takes a while, but only once.", flush=True)
    if (folder / "pyvenv.cfg").exists():
        shutil.rmtree(folder)
    if UV:
        checked_call([UV, "venv", "--python", sys.executable, folder])
    else:
        checked_call([sys.executable, "-m", "venv", "--without-pip", folder])
    return folder / BIN / "python"


def install(python: Path, *packages: str) -> None:
    if UV:
        checked_call([UV, "pip", "install", "--python", python, *packages])
    elif find_spec("pip"):
        checked_call([*PIP, "--python", python, "install", *packages])
    elif find_spec("ensurepip"):
        checked_call([python, "-m", "ensurepip"])
        checked_call([python, "-m", "pip", "install", *packages])
    else:
        sys.exit(
            f"{sys.executable} has neither pip nor ensurepip, so nothing can be installed. Install "
            "one of them (Debian and Ubuntu: apt install python3-pip), or uv."
        )


def build(folder: Path) -> Path:
    """The wheel of this checkout, built from a copy, where no older build has left its files."""
    leftovers = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__")
    source = shutil.copytree(ROOT, folder / "source", symlinks=True, ignore=leftovers)
    if UV:
        checked_call([UV, "build", "--wheel", "--out-dir", folder, source])
    else:
        checked_call([*PIP, "wheel", "--no-deps", "--wheel-dir", folder, source])
    return next(folder.glob("*.whl"))


def group(name: str) -> list[str]:
    """The packages of a dependency group in pyproject.toml; pip knows groups only since 25.1."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
        "dependency-groups"
    ]
    packages: list[str] = []
    for item in groups[name]:
        packages += [item] if isinstance(item, str) else group(item["include-group"])
    return packages


def call(
    command: Command,
    cwd: Path = ROOT,
    env: Mapping[str, str] = os.environ,
    output: IO[bytes] | None = None,
) -> int:
    # uv knows only its own certificates by default, pip also those of the machine.
    env = {"UV_SYSTEM_CERTS": "1", **env}
    return subprocess.run(command, cwd=cwd, env=env, stdout=output, stderr=output).returncode


def checked_call(command: Command, cwd: Path = ROOT, env: Mapping[str, str] = os.environ) -> None:
    status = call(command, cwd, env)
    if status != 0:
        raise subprocess.CalledProcessError(status, command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
