"""The ground that every test stands on: JAX on the CPU and at its strictest."""

import gc
import inspect
import linecache
import os
import threading
from collections.abc import Iterator
from functools import lru_cache, wraps
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

# Only a wish: whoever runs the tests on another platform says so in the same variable.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.pop("FORCE_COLOR", None)  # what tests print goes to no terminal
os.environ["RELAXJAX_COMPILATION_CACHE"] = "off"  # a test leaves nothing in the user's folders
# Compiling thousands of small programs is most of the work here, and of the two emitters that XLA
# has in jaxlib 0.10, the older is quicker by far; without LLVM's passes it takes a third of that.
# With `XLA_FLAGS=` it compiles as for users: so run the tests that are marked `as_users`.
if version("jaxlib").startswith("0.10."):
    os.environ.setdefault(
        "XLA_FLAGS",
        "--xla_cpu_use_fusion_emitters=false --xla_backend_optimization_level=0"
        " --xla_llvm_disable_expensive_passes=true",
    )

import hypothesis
import jax
import pytest
from fast_part import mark_fast
from kept_programs import KeptPrograms, kept_folder
from suite_part import leave_out

from relaxjax.ir import IRModule, assert_structural_equal, check_well_formed
from relaxjax.ir.op import OPS
from relaxjax.passes.infrastructure.kinds import Pass
from relaxjax.script import from_source

pytest_plugins = [
    "explorer_pages",
    "pytester",
    "training_command",
]  # fixtures that several files of tests share

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_enable_compilation_cache", False)  # or JAX makes a key for each program


def _share_contexts(uses: int) -> None:
    """Let programs share contexts of MLIR, as later versions of JAX do of themselves.

    To make one takes longer than to lower a small program. No two threads share one.
    """
    from jax._src.interpreters import mlir

    make, own = mlir.make_ir_context, threading.local()

    def shared() -> Any:
        count = getattr(own, "count", 0)
        if count % uses == 0:
            own.context = make()
        own.count = count + 1
        return own.context

    mlir.make_ir_context = shared


def _share_executables(most: int, kept: KeptPrograms | None) -> None:
    """Compile a program once, however many functions have it; JAX keeps what it has of each alone.

    Where memory is planned, two in three have been compiled for another policy or budget. Of the
    others, those of earlier runs are read from what these have `kept`.
    """
    from jax._src import compiler

    make = compiler.backend_compile_and_load
    known: dict[tuple[Any, ...], Any] = {}

    @wraps(make)
    def shared(backend: Any, module: Any, devices: Any, options: Any, callbacks: Any) -> Any:
        if callbacks:
            return make(backend, module, devices, options, callbacks)
        text = module.operation.get_asm(enable_debug_info=False)
        key = backend, sha256(text.encode()).digest(), devices, options.SerializeAsString()
        made = known.get(key)
        if made is None:
            if len(known) == most:
                known.clear()
            if kept is None:
                made = make(backend, module, devices, options, callbacks)
            else:
                made = kept.compiled(make, backend, module, devices, options)
            known[key] = made
        return made

    compiler.backend_compile_and_load = shared


# The machines of a CI differ too much in speed for a deadline, and a run there must repeat itself.
hypothesis.settings.register_profile(
    "relaxjax", deadline=None, derandomize="CI" in os.environ, print_blob=True
)
hypothesis.settings.load_profile("relaxjax")

# Of a longer text only what the outermost pass gives is read back: the passes inside a pipeline
# give theirs in their own tests.
LONG = 30_000

PASSES = Path(__file__).parent / "passes"

# Texts repeat: passes run one after another, and one program stands in many tests.
_read = lru_cache(maxsize=64)(from_source)


def pytest_configure(config: pytest.Config) -> None:
    if not version("jaxlib").startswith("0.10."):
        return
    folder = kept_folder(config, "programs")
    kept = None if folder is None else KeptPrograms(folder)
    if kept and not hasattr(config, "workerinput"):
        kept.forget_unused()
    _share_contexts(uses=50)
    _share_executables(500, kept)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where only `as_users` is asked for, read no file that has none: nearly all have none."""
    if config.option.markexpr != "as_users" or not collection_path.is_file():
        return None
    return b"as_users" not in collection_path.read_bytes() or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Random programs come first: they take minutes, and else one worker is alone with them."""
    leave_out(config, items)
    if "fast" in config.option.markexpr:
        mark_fast(items)
    items.sort(key=lambda item: "random_programs" not in item.name)
    if "xla_cpu_use_fusion_emitters=false" in os.environ.get("XLA_FLAGS", ""):
        skip = pytest.mark.skip(reason="compiles as users do: XLA_FLAGS= python -m pytest")
        for item in items:
            if item.get_closest_marker("as_users"):
                item.add_marker(skip)


def pytest_collection_finish() -> None:
    """Collect garbage among all objects seldom: that took a fifth of the tests' time.

    What is there once the tests are collected stays to the end, so it need not be looked at.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 100)


def pytest_sessionfinish() -> None:
    """Collect garbage once: pytest does so five times in the end, among all objects."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _every_pass_gives_readable_text(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """After the passes of a test of passes: the module's text reads back as the same module.

    Of passes inside others that is asked for random programs alone: it takes much longer than they.
    So do the many passes of a training in the tests of other folders.
    """
    if not (request.path.is_relative_to(PASSES) or "random" in request.node.name):
        return
    run, inner = Pass.__call__, "random" in request.node.name
    depth = 0

    def check(result: IRModule) -> None:
        if check_well_formed(result):
            text = result.script()
            if depth == 0 or len(text) <= LONG:
                assert_structural_equal(_read(str(text)), result)

    def observed(self: Pass, mod: IRModule) -> IRModule:
        nonlocal depth
        depth += 1
        try:
            result = run(self, mod)
        finally:
            depth -= 1
        if result is not mod and (inner or depth == 0):
            check(result)
        return result

    monkeypatch.setattr(Pass, "__call__", observed)


@pytest.fixture(autouse=True)
def _lines_of_files_elsewhere_are_forgotten() -> Iterator[None]:
    """Of `model.py` in another test's folder: errors of a test without the file showed them."""
    yield
    for name in [name for name in linecache.cache if not name.startswith(("/", "<"))]:
        del linecache.cache[name]


@pytest.fixture
def kept_on_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A folder of the test's own, where plans and programs are kept, as for users."""
    monkeypatch.setenv("RELAXJAX_COMPILATION_CACHE", str(tmp_path))
    jax.config.update("jax_enable_compilation_cache", True)
    yield tmp_path
    jax.config.update("jax_enable_compilation_cache", False)


@pytest.fixture
def executables_on_disk(kept_on_disk: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder in it of compiled programs, all of which are kept, however quick they were."""
    from jax._src import compiler
    from jax.experimental.compilation_cache.compilation_cache import reset_cache

    # What the tests have kept of other runs cannot be written again.
    compiles = inspect.unwrap(compiler.backend_compile_and_load)
    monkeypatch.setattr(compiler, "backend_compile_and_load", compiles)
    config: Any = jax.config
    before = config.jax_persistent_cache_min_compile_time_secs
    config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    yield kept_on_disk / "executables"
    config.update("jax_persistent_cache_min_compile_time_secs", before)
    config.update("jax_compilation_cache_dir", None)  # a trainer sets it
    reset_cache()


@pytest.fixture
def script(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """A file with the `SCRIPT` that stands in the file of the test."""
    path = tmp_path / "model.py"
    path.write_text(request.module.SCRIPT)
    return str(path)


@pytest.fixture
def own_operators() -> Iterator[None]:
    """Operators that a test declares are gone after it."""
    before = set(OPS)
    yield
    for name in set(OPS) - before:
        del OPS[name]


@pytest.fixture
def quickly_compiled() -> Iterator[None]:
    """XLA optimizes little: for tests that compile much, run it briefly, and compare loosely."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.fixture
def in_64_bits() -> Iterator[None]:
    """JAX computes in 64 bits where it is asked to."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def ranks_promote() -> Iterator[None]:
    """As most JAX is written."""
    with jax.numpy_rank_promotion("allow"):
        yield
