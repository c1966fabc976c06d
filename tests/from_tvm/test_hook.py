"""`import tvm` finds relaxjax while the hook is there, and says of the rest what to do instead."""

import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

import pytest

import relaxjax
from relaxjax.tvm import install, uninstall
from relaxjax.tvm.hook import OURS, THEIRS, RealTvmError, is_installed
from relaxjax.tvm.names import NAMES, SAME
from relaxjax.tvm.surface import full_path


@pytest.fixture
def hook() -> Iterator[None]:
    install()
    yield
    uninstall()


@pytest.mark.usefixtures("hook")
def test_every_module_of_the_table_is_found_by_both_names() -> None:
    for path in (*NAMES, *SAME):
        module = import_module(full_path(path))
        assert module.__name__.startswith(OURS), path
        ours = f"relaxjax.tvm.{path}" if path else "relaxjax.tvm"
        assert import_module(ours) is module, path


@pytest.mark.usefixtures("hook")
def test_programs_import_as_they_do_with_tvm() -> None:
    names: dict[str, object] = {}
    exec(
        "import tvm, tvm.testing, tvm_ffi, tvm.relax.op.nn\n"
        "from tvm import relax, tirx\n"
        "from tvm.script import ir as I, relax as R, tirx as T\n"
        "from tvm.relax.dpl.pattern import is_op\n"
        "from tvm.relax.transform import *\n",
        names,
    )
    assert names["tvm"] is relaxjax.tvm
    assert names["I"] is relaxjax.script.ir
    assert names["is_op"] is relaxjax.dpl.is_op
    assert names["Gradient"] is relaxjax.passes.Gradient


def test_the_hook_is_undone() -> None:
    install()
    install()
    import_module("tvm.relax.dpl")
    uninstall()
    assert not is_installed()
    assert not [name for name in sys.modules if name.partition(".")[0] in THEIRS]
    with pytest.raises(ModuleNotFoundError, match="No module named 'tvm'"):
        import_module("tvm")


def test_a_tvm_that_is_imported_already_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    real = ModuleType("tvm")
    real.__file__ = "site-packages/tvm/__init__.py"
    monkeypatch.setitem(sys.modules, "tvm", real)
    match = r"`tvm` is imported already, from site-packages.*: call .* has not"
    with pytest.raises(RealTvmError, match=match):
        install()
    assert not is_installed()
    uninstall()
    assert sys.modules["tvm"] is real


@pytest.mark.usefixtures("hook")
@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("import tvm.te", r"`tvm.te` has no place in relaxjax: programs become `jax.lax` and XLA"),
        ("from tvm import te", r"`tvm.te` has no place in relaxjax: programs become"),
        ("from relaxjax.tvm import rpc", r"`tvm.rpc` has no place in relaxjax: programs run"),
        ("import tvm.rpc.server", r"`tvm.rpc` has no place in relaxjax"),
        (
            "from tvm.relax.frontend.onnx import from_onnx",
            r"`tvm.relax.frontend.onnx` has no .*: make the",
        ),
        (
            "from tvm.relax.frontend.nn import KVCache",
            r"`tvm.relax.frontend.nn.KVCache` has no .*: a method gives all that it changes",
        ),
        ("from tvm.relax.transform import FuseTIR", r"`tvm.relax.transform.FuseTIR` has no place"),
        ("from tvm.s_tir import meta_schedule", r"`tvm.s_tir` has no place in relaxjax"),
        ("import tvm.nothing", r"relaxjax has no `tvm.nothing`"),
        ("from tvm.relax.transform import Gradien", "cannot import name 'Gradien'"),
    ],
)
def test_imports_of_what_is_not_here(statement: str, message: str) -> None:
    with pytest.raises(ImportError, match=message):
        exec(statement)


@pytest.mark.parametrize(
    ("path", "name", "message"),
    [
        ("", "te", r"`tvm.te` has no place in relaxjax: programs become `jax.lax`"),
        ("relax", "call_tir", r"`tvm.relax.call_tir` has no place in relaxjax"),
        ("relax.transform", "FuseTIR", r"`tvm.relax.transform.FuseTIR` has no place"),
        ("relax.transform", "Gradien", r"relaxjax has no `tvm.relax.transform.Gradien`; did you "),
        ("relax.op", "ad", r"there is no `R.ad`"),
        ("relax.op", "call_tir", r"`tvm.relax.op.call_tir` has no place in relaxjax"),
        ("tvm_ffi", "Aray", r"relaxjax has no `tvm_ffi.Aray`; did you mean `Array`"),
    ],
)
def test_names_that_are_not_here(path: str, name: str, message: str) -> None:
    module = import_module(f"relaxjax.tvm.{path}".rstrip("."))
    with pytest.raises(AttributeError, match=message):
        getattr(module, name)
    assert not hasattr(module, name)


def test_the_hook_is_of_its_process_alone() -> None:
    install()
    try:
        command = [sys.executable, "-c", "import tvm"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    finally:
        uninstall()
    assert "No module named 'tvm'" in done.stderr
