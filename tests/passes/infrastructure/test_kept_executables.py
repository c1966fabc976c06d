"""A compiled step is kept on disk: the next process that makes it only loads it."""

import _thread
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src import monitoring
from jax.experimental.compilation_cache.compilation_cache import reset_cache

from relaxjax import from_source
from relaxjax.ir import IRModule
from relaxjax.passes.infrastructure import kept_executables, kept_files
from relaxjax.passes.infrastructure.kept_executables import KeptExecutable
from relaxjax.training.state_cell import StateCell

TEXT = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        return R.add(x, x)
"""
MODULE = from_source(TEXT)
X = jnp.arange(3, dtype="float32")


@pytest.fixture(autouse=True)
def folder(executables_on_disk: Path) -> Path:
    return executables_on_disk


def kept(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.executable"))


def twice(mod: IRModule = MODULE, known_as: str = "") -> KeptExecutable:
    """A function of a process that has not compiled it."""
    return KeptExecutable(jax.jit(lambda x: x + x), lambda: mod, known_as)


def only_loaded(step: KeptExecutable) -> KeptExecutable:
    """One that must not be traced."""
    step.jitted = step.lower = lambda *_: pytest.fail("it is compiled")
    return step


def test_what_one_has_compiled_the_next_one_loads(folder: Path) -> None:
    first = twice()(X)
    assert len(kept(folder)) == 1
    again = only_loaded(twice())
    for _ in range(2):
        chex.assert_trees_all_equal(again(X), first, X + X)
    assert not again.is_plain


def test_the_types_of_what_is_loaded_are_those_of_this_process() -> None:
    """JAX would trace anew for others."""
    twice()(X)
    assert jax.typeof(only_loaded(twice())(X)) == jax.typeof(X)


def test_another_process_loads_it_and_traces_nothing(folder: Path) -> None:
    """There the function that is traced gives another result, and is not asked."""
    program = """
import sys
import jax, jax.numpy as jnp
from relaxjax import from_source
from relaxjax.passes.infrastructure.kept_executables import KeptExecutable
step = KeptExecutable(jax.jit(eval(sys.argv[1])), lambda: from_source(sys.argv[2]))
print(step(jnp.arange(3, dtype="float32")))
"""
    environment = {**os.environ, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    environment["JAX_ENABLE_COMPILATION_CACHE"] = "true"
    found = [
        subprocess.run(
            [sys.executable, "-c", program, function, TEXT],
            env=environment,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout
        for function in ("lambda x: x * 2 + 1", "lambda x: x")
    ]
    assert found == ["[1. 3. 5.]\n"] * 2
    assert len(kept(folder)) == 1


CHANGES: dict[str, Callable[[], Any]] = {
    "another module": lambda: twice(MODULE.with_attr("a", 1))(X),
    "another name": lambda: twice(known_as="the name")(X),
    "another shape": lambda: twice()(jnp.ones(4)),
    "another dtype": lambda: twice()(X.astype("int32")),
    "a weak type": lambda: twice()(jnp.asarray(1.0) * 1.0 + 0 * 2.0),
    "another precision": lambda: _with_precision(),
}


def _with_precision() -> None:
    with jax.default_matmul_precision("highest"):
        twice()(X)


@pytest.mark.parametrize("name", CHANGES)
def test_what_differs_has_a_file_of_its_own(name: str, folder: Path) -> None:
    twice()(X)
    CHANGES[name]()
    assert len(kept(folder)) == 2


def test_what_a_module_is_known_as_stands_for_its_text(folder: Path) -> None:
    twice(known_as="the name")(X)
    again = only_loaded(twice(MODULE.with_attr("a", 1), "the name"))
    chex.assert_trees_all_equal(again(X), X + X)


def test_another_processor_has_files_of_its_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    twice()(X)
    monkeypatch.setattr(kept_executables, "processor", lambda: "another one")
    twice()(X)
    assert len(kept(folder)) == 2


def test_a_processor_is_told_where_linux_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    here = kept_files.processor.__wrapped__()
    monkeypatch.setattr(Path, "read_text", _missing)
    elsewhere = kept_files.processor.__wrapped__()
    assert "flags" in here
    assert elsewhere != here
    assert str(os.cpu_count()) in elsewhere


def _missing(*_: Any, **__: Any) -> str:
    raise FileNotFoundError


@pytest.mark.parametrize("is_loaded", [False, True])
def test_arguments_of_other_types_are_compiled_as_ever(is_loaded: bool) -> None:
    if is_loaded:
        twice()(X)
    step = twice()
    step(X)
    chex.assert_trees_all_equal(step(jnp.ones((2, 2), "int32")), 2 * jnp.ones((2, 2), "int32"))
    chex.assert_trees_all_equal(jax.jit(step)(X), X + X)
    chex.assert_trees_all_equal(step(X), X + X)


def test_operators_are_run_one_by_one_where_jit_is_disabled_later() -> None:
    twice()(X)
    again = twice()
    again(X)
    with jax.disable_jit():
        chex.assert_trees_all_equal(again(X), X + X)


def test_a_file_is_of_the_types_that_it_was_looked_for(folder: Path) -> None:
    """Between the look and the call, another thread may call it for others, or trace it."""
    step, ones = twice(), jnp.ones((2, 2))
    step._looked_for((X,))
    chex.assert_trees_all_equal(step(ones), ones + ones)
    chex.assert_trees_all_equal(jax.vmap(step)(X[None]), (X + X)[None])
    assert not kept(folder)
    step(X)
    chex.assert_trees_all_equal(only_loaded(twice())(X), X + X)


def test_what_other_threads_compile_is_not_taken_for_ones_own(folder: Path) -> None:
    """What is in memory may be of JAX's cache, and is not to be written, whoever compiles."""
    chex.assert_trees_all_equal(KeptExecutable(_CompiledElsewhere(), lambda: MODULE)(X), X + X)
    assert not kept(folder)


class _CompiledElsewhere:
    """A function under `jax.jit` that another thread compiles."""

    def __init__(self) -> None:
        self.jitted = jax.jit(lambda x: x + x)

    def __call__(self, x: Any) -> Any:
        return self.jitted(x)

    def lower(self, x: Any) -> "_CompiledElsewhere":
        return self

    def compile(self) -> Any:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(self.jitted.lower(X).compile).result()


def test_a_call_that_jax_traces_decides_nothing(folder: Path) -> None:
    step = twice()
    chex.assert_trees_all_equal(jax.vmap(step)(X[None]), (X + X)[None])
    assert not kept(folder)
    step(X)
    assert len(kept(folder)) == 1


@pytest.mark.parametrize("damage", ["a byte", "cut off", "of another kind"])
def test_a_file_that_cannot_be_loaded_is_told_and_written_anew(damage: str, folder: Path) -> None:
    twice()(X)
    (path,) = kept(folder)
    good = path.read_bytes()
    if damage == "of another kind":
        kept_files.write_kept(path, kept_executables._FORMAT, b"no program")
    else:
        path.write_bytes(good[:-9] if damage == "cut off" else good[:-9] + bytes(9))
    with pytest.warns(UserWarning, match="holds no program that can be loaded, so that it is"):
        chex.assert_trees_all_equal(twice()(X), X + X)
    chex.assert_trees_all_equal(only_loaded(twice())(X), X + X)


def test_what_jax_has_loaded_of_its_own_cache_is_not_written_again(
    folder: Path, tmp_path: Path
) -> None:
    """XLA writes such a program without some of its functions, and it fails as it runs."""
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "of JAX"))
    reset_cache()
    twice()(X)
    assert len(kept(folder) or kept(tmp_path / "of JAX" / "executables")) == 1
    for path in (tmp_path / "of JAX" / "executables").iterdir():
        path.unlink()
    jax.clear_caches()
    chex.assert_trees_all_equal(twice()(X), X + X)
    assert not kept(tmp_path / "of JAX" / "executables")


def test_what_is_in_memory_already_is_not_written(folder: Path) -> None:
    step = twice()
    step.jitted(X)
    step(X)
    assert not kept(folder)
    assert step.is_plain


def _quick(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(kept_executables, "_least_seconds", lambda: 1e9)


def _with_two_devices(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(jax, "devices", lambda: [jax.local_devices()[0]] * 2)


def _on_a_gpu(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(jax, "devices", lambda: [SimpleNamespace(platform="gpu")])


def _as_an_archive(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(kept_executables, "code", lambda: "")


def _switched_off(patch: pytest.MonkeyPatch) -> None:
    patch.setenv("RELAXJAX_COMPILATION_CACHE", "off")


def _without_serialization(patch: pytest.MonkeyPatch) -> None:
    def refused(_: Any) -> Any:
        raise ValueError("Compilation does not support serialization")

    patch.setattr(kept_executables, "serialize", refused)


@pytest.mark.parametrize(
    "where",
    [
        _quick,
        _with_two_devices,
        _on_a_gpu,
        _as_an_archive,
        _switched_off,
        _without_serialization,
    ],
)
def test_nothing_is_kept(
    where: Callable[[pytest.MonkeyPatch], None], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where(monkeypatch)
    chex.assert_trees_all_equal(twice()(X), X + X)
    assert not kept(folder)


@pytest.mark.parametrize("setting", ["jax_debug_nans", "jax_debug_infs", "jax_disable_jit"])
def test_nothing_is_loaded_where_jax_looks_at_each_operation(setting: str, folder: Path) -> None:
    jax.config.update(setting, True)
    try:
        chex.assert_trees_all_equal(twice()(X), X + X)
    finally:
        jax.config.update(setting, False)
    assert not kept(folder)


def of_python(x: Any) -> Any:
    return jax.pure_callback(lambda one: np.asarray(one) * 2, x, x)


def of_lapack(x: Any) -> Any:
    return x + jnp.linalg.cholesky(jnp.diag(x**2)).sum(0)


@pytest.mark.parametrize("function", [of_python, of_lapack])
def test_what_calls_a_function_of_the_process_is_not_kept(
    function: Callable[[Any], Any], folder: Path
) -> None:
    """In the next one that is another function, or one that is not there yet."""
    chex.assert_trees_all_close(KeptExecutable(jax.jit(function), lambda: MODULE)(X + 1), 2 * X + 2)
    assert not kept(folder)


def test_what_calls_a_function_of_xla_is_kept(folder: Path) -> None:
    KeptExecutable(jax.jit(lambda x: jax.lax.top_k(x, 2)[0]), lambda: MODULE)(X)
    assert len(kept(folder)) == 1


def test_a_module_with_functions_of_the_users_is_not_kept(folder: Path) -> None:
    called = 'R.call_pure_packed("of.the.user", x, ty_args=R.Tensor((3,), "float32"))'
    twice(from_source(TEXT.replace("R.add(x, x)", called)))(X)
    assert not kept(folder)


def test_a_module_whose_text_does_not_say_it_all_is_not_kept(folder: Path) -> None:
    twice(MODULE.with_attr("by", len))(X)
    assert not kept(folder)


def test_nothing_listens_to_jax_afterwards() -> None:
    before = [*monitoring.get_event_listeners(), *monitoring.get_event_duration_listeners()]
    twice()(X)
    after = [*monitoring.get_event_listeners(), *monitoring.get_event_duration_listeners()]
    assert after == before


def test_a_signal_during_a_loaded_program_finds_its_result() -> None:
    """What calls it is written in Python, which lets signals through."""
    cell, found = StateCell[Any](X), list[Any]()

    class Interrupted(KeptExecutable):
        def __call__(self, *args: Any) -> Any:
            result = super().__call__(*args)
            cast("Any", _thread).interrupt_main()
            return "loss", result

    former = signal.signal(signal.SIGINT, lambda number, frame: found.append(cell.state))
    try:
        cell.run(Interrupted(jax.jit(lambda x: x + x), lambda: MODULE))
    finally:
        signal.signal(signal.SIGINT, former)
    chex.assert_trees_all_equal(found, [X + X])
