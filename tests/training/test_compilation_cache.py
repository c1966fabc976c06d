"""Compiled programs kept from run to run: where, and when not."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import jax
import pytest
from jax.experimental.compilation_cache.compilation_cache import reset_cache

from relaxjax.lowering.cache_folder import VARIABLE
from relaxjax.training.devices.process_settings import use_compilation_cache

TRAIN = """
import sys
sys.path.insert(0, sys.argv[1])
import jax
from small_models import batch, classifier
jax.numpy.zeros(3) + 1  # JAX has looked for its cache before
classifier().update(*batch(0)).block_until_ready()
"""


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    jax.config.update("jax_enable_compilation_cache", True)
    yield
    jax.config.update("jax_enable_compilation_cache", False)
    jax.config.update("jax_compilation_cache_dir", None)
    reset_cache()


def chosen() -> str | None:
    use_compilation_cache()
    folder: str | None = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]  # made at run time
    return folder


def test_it_lies_in_the_users_cache_folder_for_the_user_alone(tmp_path: Path) -> None:
    assert chosen() == str(tmp_path / "caches" / "relaxjax" / "compiled")
    assert os.stat(tmp_path / "caches" / "relaxjax" / "compiled").st_mode & 0o077 == 0


def test_without_a_cache_folder_it_lies_in_the_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert chosen() == str(tmp_path / ".cache" / "relaxjax" / "compiled")


def test_the_variable_names_another_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "elsewhere"))
    assert chosen() == str(tmp_path / "elsewhere")


@pytest.mark.parametrize("off", ["off", "0", " OFF "])
def test_it_can_be_switched_off(off: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(VARIABLE, off)
    assert chosen() is None
    assert not list(tmp_path.iterdir())


def test_a_cache_of_the_users_own_stays(tmp_path: Path) -> None:
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "own"))
    assert chosen() == str(tmp_path / "own")


def test_a_folder_that_others_may_write_into_is_not_used(tmp_path: Path) -> None:
    """What lies there is run."""
    folder = tmp_path / "caches" / "relaxjax" / "compiled"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    assert chosen() is None


def test_a_folder_that_cannot_be_made_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "caches").write_text("")
    assert chosen() is None


def test_a_trainer_keeps_its_programs(tmp_path: Path) -> None:
    environment = {**os.environ, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    tests = Path(__file__).parents[1] / "support"
    subprocess.run([sys.executable, "-c", TRAIN, str(tests)], env=environment, check=True)
    kept = os.listdir(tmp_path / "caches" / "relaxjax" / "compiled")
    assert any(name.startswith("jit__run-") for name in kept)
