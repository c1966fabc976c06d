"""What one run of the tests has compiled, the next one reads, where XLA would make the same."""

import errno
import os
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import pytest
from kept_programs import KeptPrograms, kept_folder

TEXT = "func @main(%arg0: tensor<3xf32>)"
PLACES = """
#loc1 = loc("x")
#loc2 = loc("loss.py":6:18 to :29)
#loc3 = loc("jit(loss)/tanh"(#loc2))
"""


@dataclass
class Module:
    text: str = TEXT
    places: str = PLACES

    @property
    def operation(self) -> "Module":
        return self

    def get_asm(self, enable_debug_info: bool) -> str:
        return self.text + (self.places if enable_debug_info else "")


@dataclass
class Options:
    text: bytes = b"options"

    def SerializeAsString(self) -> bytes:
        return self.text


@dataclass
class Compiler:
    """A compiler that counts, and the kept programs of a folder."""

    folder: Path
    platform: str = "cpu"
    made: list[str] = field(default_factory=list)

    def serialize_executable(self, executable: str) -> bytes:
        return executable.encode()

    def deserialize_executable(self, data: bytes, devices: Any, options: Any) -> str:
        if data == b"half":
            raise jax.errors.JaxRuntimeError("it is broken")
        return data.decode()

    def compiled(
        self, module: Module, options: Options | None = None, devices: tuple[int, ...] = (0,)
    ) -> str:
        """By an object of its own each time, as in a run of its own."""

        def make(*_: Any) -> str:
            self.made.append(module.text)
            return f"compiled {module.text}"

        kept = KeptPrograms(self.folder)
        return str(kept.compiled(make, self, module, devices, options or Options()))


@pytest.fixture
def compiler(tmp_path: Path) -> Compiler:
    return Compiler(tmp_path)


def test_the_next_run_compiles_nothing_that_is_the_same(compiler: Compiler) -> None:
    moved = Module(places=PLACES.replace("6:18", "7:20"))
    assert compiler.compiled(Module()) == compiler.compiled(moved) == f"compiled {TEXT}"
    assert len(compiler.made) == 1
    assert len(list(compiler.folder.iterdir())) == 1


@pytest.mark.parametrize(
    "other",
    [
        Module(TEXT.replace("3", "4")),
        Module(places=PLACES.replace("tanh", "sin")),
        Module(places=PLACES.replace('"x"', '"y"')),
    ],
    ids=["text", "operation", "parameter"],
)
def test_another_program_is_compiled(other: Module, compiler: Compiler) -> None:
    compiler.compiled(Module())
    assert compiler.compiled(other) == f"compiled {other.text}"
    assert len(compiler.made) == 2


def test_other_options_devices_and_flags_compile_anew(
    compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler.compiled(Module())
    compiler.compiled(Module(), Options(b"others"))
    compiler.compiled(Module(), devices=(1,))
    monkeypatch.setenv("XLA_FLAGS", "--xla_another=true")
    compiler.compiled(Module())
    monkeypatch.setattr("kept_programs.version", lambda name: "9.9")
    compiler.compiled(Module())
    monkeypatch.setattr("kept_programs.processor", lambda: "another")
    compiler.compiled(Module())
    assert len(compiler.made) == 6


def test_half_a_file_is_compiled_anew(compiler: Compiler) -> None:
    compiler.compiled(Module())
    (path,) = compiler.folder.iterdir()
    path.write_bytes(b"half")
    assert compiler.compiled(Module()) == compiler.compiled(Module()) == f"compiled {TEXT}"
    assert len(compiler.made) == 2


def test_where_nothing_can_be_written_nothing_is_kept(
    compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, data: bytes) -> int:
        self.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    assert compiler.compiled(Module()) == compiler.compiled(Module()) == f"compiled {TEXT}"
    assert len(compiler.made) == 2
    assert not list(compiler.folder.iterdir())


def test_without_a_cache_there_is_no_folder(
    pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(name: str) -> Path:
        raise PermissionError(name)

    monkeypatch.setattr(pytestconfig, "cache", SimpleNamespace(mkdir=refused), raising=False)
    assert kept_folder(pytestconfig, "programs") is None
    monkeypatch.setattr(pytestconfig, "cache", None)
    assert kept_folder(pytestconfig, "programs") is None


def test_of_other_platforms_nothing_is_kept(compiler: Compiler) -> None:
    gpu = replace(compiler, platform="gpu")
    assert gpu.compiled(Module()) == gpu.compiled(Module()) == f"compiled {TEXT}"
    assert len(gpu.made) == 2
    assert not list(compiler.folder.iterdir())


def test_what_no_run_has_used_for_days_is_forgotten(compiler: Compiler) -> None:
    compiler.compiled(Module())
    compiler.compiled(Module("another"))
    for path in compiler.folder.iterdir():
        os.utime(path, (0, time.time() - 4 * 24 * 3600))
    compiler.compiled(Module())
    KeptPrograms(compiler.folder).forget_unused()
    (left,) = compiler.folder.iterdir()
    assert left.read_bytes() == f"compiled {TEXT}".encode()
