"""Functions under the names by which they are known."""

from relaxjax.ir.builder import Names
from relaxjax.ir.expr import Expr, GlobalVar
from relaxjax.ir.module import BaseFunc, IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.walk import rewrite
from relaxjax.passes.infrastructure.base import pass_factory


@pass_factory(opt_level=0)
def NormalizeGlobalVar(mod: IRModule) -> IRModule:
    """Name every public function in the module as its global symbol does; calls follow.

    A private function that has such a name takes the next free one. Two public functions of one
    symbol are an error.
    """
    names = _new_names(mod)
    if all(name == new for name, new in names.items()):
        return mod

    def rename(expr: Expr) -> Expr:
        if not isinstance(expr, GlobalVar) or expr.name not in names:
            return expr
        return expr if names[expr.name] == expr.name else replace(expr, name=names[expr.name])

    functions: dict[str, BaseFunc] = {}
    for var, function in mod.functions_items():
        changed = rewrite(function, rename)
        assert isinstance(changed, type(function))
        functions[names[var.name]] = changed
    return replace(mod, functions=functions)


def _new_names(mod: IRModule) -> dict[str, str]:
    """The name that each function gets: public ones their symbol, the others what is left."""
    public: dict[str, str] = {}
    for name, function in mod.relax_functions().items():
        symbol = function.global_symbol
        if symbol is None:
            continue
        if symbol in public.values():
            raise ValueError(f"two public functions have the global symbol `{symbol}`")
        public[name] = symbol
    others = [var.name for var in mod.functions if var.name not in public]
    free = Names(list(public.values()))
    new = public | {name: free.unique(name) for name in others}
    return {var.name: new[var.name] for var in mod.functions}
