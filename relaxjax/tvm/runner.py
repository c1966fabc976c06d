"""Running what is written for TVM as it stands: scripts, modules, commands and folders of tests."""

import builtins
import runpy
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import SourceFileLoader
from io import open_code
from pathlib import Path
from types import CodeType, ModuleType

from .hook import install

USAGE = """\
usage: python -m relaxjax.tvm SCRIPT [ARGUMENTS]       run a script that says `import tvm`
       python -m relaxjax.tvm -m MODULE [ARGUMENTS]    run a module
       python -m relaxjax.tvm -c COMMAND [ARGUMENTS]   run a command
       python -m relaxjax.tvm --pytest PATH...         run tests, a file at a time, and sum up
           [--limit SECONDS] [--list]                  for a file (600); list what failed, too

In that process alone, `import tvm` finds relaxjax."""


def main(argv: Sequence[str]) -> int:
    """Run what the arguments say; the exit code."""
    first, rest = (argv[0], list(argv[1:])) if argv else ("", [])
    if first in ("-h", "--help"):
        print(USAGE)
        return 0
    if first == "--pytest":
        from .conformance import main as run_tests

        return run_tests(rest)
    if first in ("-m", "-c") and rest:
        name, arguments = rest[0], rest[1:]
        return _run_module(name, arguments) if first == "-m" else _run_command(name, arguments)
    if not first or first.startswith("-"):
        option = f"`{first}` needs something to run"
        if first not in ("-m", "-c"):
            option = f"there is no option `{first}`"
        print(f"{option if first else 'say what to run'}\n{USAGE}", file=sys.stderr)
        return 2
    return _run_script(first, rest)


def _run_script(script: str, arguments: list[str]) -> int:
    """A file, as `python SCRIPT` runs it: its folder is where its imports are found first."""
    path = str(Path(script).absolute())  # as Python has it in `__file__` and in tracebacks
    try:
        with open_code(path) as file:
            source = file.read()
    except OSError as error:
        print(f"can't open file {script!r}: {error.strerror}", file=sys.stderr)
        return 2
    _begin([script, *arguments], str(Path(script).resolve().parent))

    def run(namespace: dict[str, object]) -> None:
        namespace.update(__file__=path, __cached__=None)
        namespace["__loader__"] = SourceFileLoader("__main__", path)
        exec(_compiled(source, path), namespace)

    return _as_main(run)


def _run_command(command: str, arguments: list[str]) -> int:
    """A text, as `python -c COMMAND` runs it."""
    _begin(["-c", *arguments], "")
    return _as_main(lambda namespace: exec(_compiled(command, "<string>"), namespace))


def _run_module(name: str, arguments: list[str]) -> int:
    """A module, as `python -m MODULE` runs it."""
    _begin([name, *arguments], None)
    try:
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    except Exception as error:
        return _shown(error)
    return 0


def _compiled(source: bytes | str, name: str) -> CodeType:
    return compile(source, name, "exec", dont_inherit=True)


def _begin(argv: list[str], folder: str | None) -> None:
    """Take the place of Python: the arguments, where imports are found, and TVM's names."""
    sys.argv[:] = argv
    if folder is not None and not sys.flags.safe_path:
        sys.path[0] = folder
    install()


def _as_main(run: Callable[[dict[str, object]], None]) -> int:
    """Run something as the main module, and show its error as Python does, from its own lines."""
    module = ModuleType("__main__")
    vars(module).update(__builtins__=builtins, __annotations__={})
    sys.modules["__main__"] = module
    try:
        run(vars(module))
    except KeyboardInterrupt as error:
        _shown(error)
        return 130
    except Exception as error:
        return _shown(error)
    return 0


def _shown(error: BaseException) -> int:
    """Show an error without the frames of the runner."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_frame.f_globals.get("__name__") == __name__:
        traceback = traceback.tb_next
    sys.excepthook(type(error), error.with_traceback(traceback), traceback)
    return 1
