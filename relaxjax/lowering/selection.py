"""Which functions of a module to write out, and what can be said against a choice."""

from collections.abc import Sequence

from relaxjax.ir.derivatives import own_derivatives
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule, check_module
from relaxjax.ir.wording import quoted

from .interpreter import LoweringError
from .traits import reachable


def selected(mod: IRModule, functions: str | Sequence[str] | None) -> tuple[str, ...]:
    """The names of chosen functions, each once; all public ones where nothing is chosen."""
    check_module(mod, "writing functions out")
    if functions is None:
        named = mod.relax_functions()
        public = tuple(name for name, f in named.items() if f.global_symbol is not None)
        if not public:
            raise LoweringError(
                "the module has no public function: name private ones to choose them"
            )
        return public
    names = (functions,) if isinstance(functions, str) else tuple(dict.fromkeys(functions))
    if not names:
        raise LoweringError("no function is chosen: give the name of at least one")
    for name in names:
        if not isinstance(mod[name], Function):
            raise LoweringError(f"`{name}` is a function from outside: it has no body to write out")
    return names


def single(mod: IRModule, function: str | None) -> str:
    """The name of a chosen function, or of the only public one."""
    first, *others = selected(mod, function)
    if others:
        listed = quoted((first, *others))
        raise LoweringError(
            f"the module has {len(others) + 1} public functions, {listed}: name one"
        )
    return first


def with_called(mod: IRModule, names: Sequence[str], derivatives: bool = False) -> IRModule:
    """The module without functions that these neither are nor call, nor have for `derivatives`."""
    called = {called for name in names for called, _ in reachable(mod, name)}
    functions = mod.relax_functions()
    rules = {rule for name in called for rule in own_derivatives(functions[name])}
    if derivatives and not rules <= called:
        return with_called(mod, [*called, *rules], derivatives)
    return mod.without_functions(*(name for name in functions if name not in called))
