"""The table of TVM's names: each is there, and the modules list them."""

from importlib import import_module

import pytest

from relaxjax.tvm.names import NAMES, SAME
from relaxjax.tvm.scope import OUT_OF_SCOPE
from relaxjax.tvm.surface import ROOT, Source


@pytest.mark.parametrize("path", [path for path in NAMES if NAMES[path]])
def test_each_name_is_there_and_listed(path: str) -> None:
    module = import_module(f"{ROOT}.{path}".rstrip("."))
    listed = dir(module)
    for name in Source.read(NAMES[path]).names():
        assert hasattr(module, name), f"{path}.{name}"
        assert name in listed


def test_a_path_is_said_once() -> None:
    assert not NAMES.keys() & SAME.keys()


def test_what_is_out_of_scope_is_not_here() -> None:
    """A name that has come since must leave the list of what has no place."""
    for path in OUT_OF_SCOPE:
        parent, _, name = path.rpartition(".")
        try:
            module = import_module(f"{ROOT}.{parent}".rstrip("."))
        except ImportError:
            continue
        assert not hasattr(module, name), path


def test_no_module_of_ours_stands_among_the_names_of_relax() -> None:
    """`@relax.function` found the module where functions are defined, which cannot be called."""
    relax = import_module(f"{ROOT}.relax")
    homes = {getattr(value, "__name__", "") for value in vars(relax).values()}
    assert not [home for home in homes if home.startswith("relaxjax.ir.")]
    with pytest.raises(AttributeError, match=r"no `tvm\.relax\.function`; did you mean `Function`"):
        _ = relax.function
