"""Functions that are called in training and in inference, and differ there: a copy of their own."""

from relaxjax.ir.builder import Names
from relaxjax.ir.expr import Expr, GlobalVar
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.renew import renew
from relaxjax.ir.walk import rewrite
from relaxjax.lowering.traits import reachable

from .decompose_ops import has_training_form


def with_training_copies(mod: IRModule, name: str) -> tuple[IRModule, list[str]]:
    """The module in which `name` calls copies of its own, and the names of it and of the copies.

    Copied is what behaves differently in training, or calls what does.
    """
    called = [other for other, _ in reachable(mod, name) if other != name]
    different = [
        other
        for other in called
        if any(has_training_form(function) for _, function in reachable(mod, other))
    ]
    unique = Names(list(mod)).unique
    copies = {other: unique(f"{other}_training") for other in different}

    def to_copy(expr: Expr) -> Expr:
        if isinstance(expr, GlobalVar) and expr.name in copies:
            return GlobalVar(copies[expr.name], ty=expr.ty, span=expr.span)
        return expr

    changes = {}
    for old, new in {name: name, **copies}.items():
        function, _ = renew(mod[old]) if new != old else (mod[old], None)
        changed = rewrite(function, to_copy)
        assert isinstance(changed, Function)
        changes[new] = changed if new == old else changed.without_attr("global_symbol")
    return mod.with_functions(changes), [name, *copies.values()]
