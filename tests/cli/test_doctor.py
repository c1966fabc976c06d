"""`relaxjax doctor`: what it shows, and what it takes for a fault."""

from pathlib import Path
from types import ModuleType

import jax
import pytest

import relaxjax
from relaxjax.cli import doctor, main, requirements
from relaxjax.cli.requirements import Requirement
from relaxjax.lowering.cache_folder import VARIABLE


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What packages ask for, in these tests."""
    texts = ["numpy>=2", 'pygments>=2; extra == "pretty"']
    tables = {"relaxjax": texts, "numpy": ['nowhere; extra == "gpu"']}

    def requires(package: str) -> list[str] | None:
        return tables.get(package)

    monkeypatch.setattr(requirements, "requires", requires)
    return texts


def test_what_is_needed_is_there(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert f"  relaxjax     {relaxjax.__version__}  " in text
    for package in ("jax", "jaxlib", "numpy", "optax", "chex"):
        assert f"\n  {package} " in text
    assert f"  cpu:0        {jax.local_devices()[0].device_kind}\n" in text
    assert "the derivative of x * x at 3 is 6" in text
    assert text.endswith("all that is needed works\n")


@pytest.mark.parametrize(
    ("requirement", "found"),
    [
        ("nowhere>=1", 'nowhere      is not installed: pip install "nowhere>=1"'),
        ("numpy>=99.5", 'is older than 99.5: pip install "numpy>=99.5"'),
    ],
)
def test_what_is_missing_or_too_old_is_a_fault(
    requirement: str, found: str, asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    asked.append(requirement)
    assert main(["doctor"]) == 1
    text = capsys.readouterr().out
    (line,) = [line for line in text.splitlines() if line.startswith("! ")]
    assert found in line
    assert text.endswith("faults: 1\n")


def test_a_package_that_cannot_be_imported_is_a_fault(
    asked: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(name: str) -> ModuleType:
        raise ImportError("no symbol __cudaSetup")

    monkeypatch.setattr("importlib.import_module", broken)
    lines = list(doctor._versions())
    assert [line.name for line in lines if line.is_fault] == ["numpy"]
    assert "cannot be imported: ImportError: no symbol __cudaSetup" in lines[-1].text


def test_a_checkout_that_is_not_installed_is_a_fault(
    asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    asked.clear()
    assert main(["doctor"]) == 1
    assert "relaxjax is not installed: install it by `pip install .`" in capsys.readouterr().out


def test_a_device_that_fails_is_a_fault(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing() -> None:
        raise RuntimeError("no GPU answers")

    monkeypatch.setattr(jax, "local_devices", failing)
    assert main(["doctor"]) == 1
    assert "! a program    cannot run: RuntimeError: no GPU answers" in capsys.readouterr().out


def test_an_extra_says_what_it_is_for_and_what_is_missing(
    asked: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked += ['nowhere; extra == "tb"', 'numpy[gpu]; extra == "cuda12"']
    monkeypatch.setattr(doctor, "extras_of", lambda package: ["pretty", "tb", "cuda12"])
    pretty, tb, cuda = doctor._extras()
    assert pretty.text == "colours and progress bars: installed"
    assert tb.text == (
        'events for TensorBoard: nowhere is not installed: pip install "relaxjax[tb]"'
    )
    assert "nowhere is not installed" in cuda.text  # which numpy[gpu] would bring


def test_the_cache_is_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor, "cache_folder", lambda: tmp_path / "programs")
    (nothing,) = doctor._caches()
    assert nothing.text.endswith("nothing yet")
    with monkeypatch.context() as read_only:
        read_only.setattr("os.access", lambda path, mode: False)
        (never,) = doctor._caches()
        assert never.text.endswith(f"not kept: {tmp_path} is read-only")
    (tmp_path / "programs").write_text("a file", encoding="utf-8")
    (in_the_way,) = doctor._caches()
    assert in_the_way.text.endswith(f"not kept: {tmp_path / 'programs'} is no folder")
    (tmp_path / "programs").unlink()
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs" / "one").write_bytes(bytes(3 << 20))
    (held,) = doctor._caches()
    assert held.text.endswith("1 files, 3.0 MiB")
    with monkeypatch.context() as read_only:
        read_only.setattr("os.access", lambda path, mode: False)
        (old,) = doctor._caches()
        assert old.text.endswith(f"not kept: {tmp_path / 'programs'} is read-only")
    (tmp_path / "programs").chmod(0o777)
    (refused,) = doctor._caches()
    assert refused.text.endswith("not used: it must be yours, and yours alone to write")
    monkeypatch.setattr(doctor, "cache_folder", lambda: None)
    (none,) = doctor._caches()
    assert none.text == "what is compiled is not kept"


@pytest.mark.parametrize(
    ("text", "name", "extra", "least", "specifier"),
    [
        ("jax>=0.10.1", "jax", None, "0.10.1", "jax>=0.10.1"),
        ("jaxlib<=0.11,>=0.10", "jaxlib", None, "0.10", "jaxlib<=0.11,>=0.10"),
        ('jax[cuda12]; extra == "cuda12"', "jax", "cuda12", None, "jax[cuda12]"),
        ('a-b; sys_platform == "linux" and extra == "tb"', "a-b", "tb", None, "a-b"),
    ],
)
def test_requirements_are_read(
    text: str, name: str, extra: str | None, least: str | None, specifier: str
) -> None:
    found = Requirement(text)
    assert (found.name, found.extra, found.least) == (name, extra, least)
    assert found.specifier == specifier


def test_versions_are_compared_by_their_numbers() -> None:
    assert Requirement("jax>=0.10.1").is_met_by("0.10.2.dev3")
    assert Requirement("jax>=0.10.1").is_met_by("0.11")
    assert not Requirement("jax>=0.10.1").is_met_by("0.9.9")
    assert not Requirement("jax>=0.10.1").is_met_by("0.10.1rc1"[:4])
    assert Requirement("jax").is_met_by("0")
