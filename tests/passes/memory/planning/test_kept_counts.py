"""What XLA has counted of plans is kept on disk, for the next process that plans the program."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import relaxjax
from relaxjax.ir import IRModule, assert_structural_equal
from relaxjax.lowering.cache_folder import VARIABLE
from relaxjax.lowering.memory import temporary_bytes
from relaxjax.passes import Rematerialize

ADJOINT = "loss_adjoint"


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, kept_on_disk: Path) -> Path:
    # Whole plans are kept as well, which would ask for no count: see test_kept_plans.py.
    monkeypatch.setattr("relaxjax.passes.memory.planning.kept_plans.plans_folder", lambda: None)
    return kept_on_disk / "plans"


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[IRModule]:
    """The modules that XLA has been asked of."""
    found: list[IRModule] = []

    def counted(mod: IRModule, name: str) -> int:
        found.append(mod)
        return temporary_bytes(mod, name)

    monkeypatch.setattr("relaxjax.passes.memory.rematerialize.temporary_bytes", counted)
    return found


def adjoint(factor: float = 1.0) -> IRModule:
    """Of a chain of layers, and a loss that is times a constant."""

    def loss(weights: list[jax.Array], x: jax.Array) -> jax.Array:
        for weight in weights:
            x = jax.nn.gelu(x @ weight)
        return factor * (x * x).sum()

    step = relaxjax.value_and_grad(loss, memory_policy="none")
    return step.module([jnp.ones((32, 32))] * 4, jnp.ones((256, 32)))


def planned(mod: IRModule, budget: str = "70%") -> IRModule:
    return Rematerialize(ADJOINT, budget)(mod)


def test_the_second_plan_of_a_program_compiles_nothing(compiled: list[IRModule]) -> None:
    first = planned(adjoint())
    assert len(compiled) >= 2
    compiled.clear()
    assert_structural_equal(planned(adjoint()), first)
    assert compiled == []


def test_budgets_of_a_program_share_what_is_known(folder: Path, compiled: list[IRModule]) -> None:
    planned(adjoint())
    compiled.clear()
    planned(adjoint(), "72%")
    assert len(compiled) <= 1
    assert len(list(folder.iterdir())) == 1


def test_another_constant_or_other_flags_are_another_program(
    folder: Path, compiled: list[IRModule], monkeypatch: pytest.MonkeyPatch
) -> None:
    planned(adjoint())
    planned(adjoint(2.0))
    assert len(list(folder.iterdir())) == 2
    monkeypatch.setenv("XLA_FLAGS", "")
    planned(adjoint())
    assert len(list(folder.iterdir())) == 3
    monkeypatch.setattr("relaxjax.passes.infrastructure.kept_files.version", lambda package: "9.9")
    planned(adjoint())
    assert len(list(folder.iterdir())) == 4


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[]", b'{"a": "b"}', b'{"a": true}'])
def test_a_file_that_is_no_record_counts_for_nothing(
    folder: Path, compiled: list[IRModule], content: bytes
) -> None:
    first = planned(adjoint())
    asked = len(compiled)
    (file,) = folder.iterdir()
    file.write_bytes(content)
    assert_structural_equal(planned(adjoint()), first)
    assert len(compiled) == 2 * asked
    assert len(json.loads(file.read_bytes())) == asked


@pytest.mark.parametrize("off", ["off", "0", "no"])
def test_the_variable_turns_it_off(
    folder: Path, compiled: list[IRModule], monkeypatch: pytest.MonkeyPatch, off: str
) -> None:
    monkeypatch.setenv(VARIABLE, off)
    planned(adjoint())
    asked = len(compiled)
    planned(adjoint())
    assert len(compiled) == 2 * asked
    assert not folder.exists()


def test_a_folder_that_others_may_write_to_is_not_used(
    folder: Path, compiled: list[IRModule]
) -> None:
    folder.mkdir()
    folder.chmod(0o777)
    planned(adjoint())
    assert list(folder.iterdir()) == []


def test_a_folder_that_goes_away_costs_what_was_known(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(path: Path, content: bytes) -> None:
        raise FileNotFoundError(path)

    monkeypatch.setattr("relaxjax.passes.memory.planning.kept_counts.write_whole", gone)
    planned(adjoint())
    assert list(folder.iterdir()) == []
