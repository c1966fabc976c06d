"""RemoveUnusedFunctions, AttachGlobalSymbol, NormalizeGlobalVar: functions and their names."""

import pytest
from parsing import parse_functions
from rewriting import check_kept, check_rewrite

from relaxjax.ir import GlobalVar, IRModule, assert_structural_equal
from relaxjax.passes import AttachGlobalSymbol, NormalizeGlobalVar, RemoveUnusedFunctions


def functions(*chain: str, public: str = "main") -> str:
    """Functions each of which calls the next."""
    texts = []
    for name, callee in zip(chain, [*chain[1:], ""], strict=True):
        options = "" if name in public.split() else "(private=True)"
        value = f"Module.{callee}(x)" if callee else "R.exp(x)"
        texts.append(
            f'@R.function{options}\ndef {name}(x: R.Tensor((3,), "float32")) '
            f'-> R.Tensor((3,), "float32"):\n    y = {value}\n    return y\n'
        )
    return "\n".join(texts)


def test_what_no_entry_reaches_goes() -> None:
    used = functions("main", "first", "second")
    check_rewrite(RemoveUnusedFunctions(), used + functions("lost", "found"), used)


def test_entries_can_be_named() -> None:
    module = parse_functions(functions("main", "first", "second", public="main second"))
    for entry in ("first", GlobalVar("first")):
        assert list(RemoveUnusedFunctions([entry])(module)) == ["first", "second"]
    assert RemoveUnusedFunctions()(module) is module
    with pytest.raises(ValueError, match="no function `frist`"):
        RemoveUnusedFunctions(["frist"])(module)


def test_every_function_becomes_public() -> None:
    names = ("main", "first")
    check_rewrite(AttachGlobalSymbol(), functions(*names), functions(*names, public="main first"))


def test_functions_take_the_names_of_their_symbols() -> None:
    """A private function makes room, and calls follow both."""
    written = parse_functions(functions("forward", "main", public=""))
    mod = IRModule(
        {"forward": written["forward"].with_attr("global_symbol", "main"), "main": written["main"]}
    )
    renamed = NormalizeGlobalVar()(mod)
    assert_structural_equal(renamed, parse_functions(functions("main", "main1")))
    assert NormalizeGlobalVar()(renamed) is renamed
    check_kept(NormalizeGlobalVar(), functions("main", "first"))


def test_no_symbol_is_had_twice() -> None:
    written = parse_functions(functions("forward", "other", public=""))
    mod = IRModule(
        {n: f.with_attr("global_symbol", "main") for n, f in written.relax_functions().items()}
    )
    with pytest.raises(ValueError, match="two public functions have the global symbol `main`"):
        NormalizeGlobalVar()(mod)
