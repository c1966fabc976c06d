"""Public functions that get another signature, which nothing in the module may call."""

from collections.abc import Callable

from relaxjax.ir.expr import Var
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.types import FuncType, ObjectType, PrimType, TupleType, Type
from relaxjax.ir.walk import global_vars
from relaxjax.passes.infrastructure.error_notes import in_function

NOTHING = TupleType(())


def with_new_signatures(
    mod: IRModule, pass_name: str, change: Callable[[Function], Function]
) -> IRModule:
    """`mod` with its public functions changed; one that others call is an error."""
    functions = mod.relax_functions()
    public = {name: f for name, f in functions.items() if f.global_symbol is not None}
    for name, function in functions.items():
        for var in global_vars(function):
            if var.name in public:
                raise ValueError(
                    f"{pass_name} changes what `{var.name}` takes, but `{name}` calls it: let "
                    f"both call a private function that does its work, or inline it before"
                )
    changed = {}
    for name, function in public.items():
        with in_function(name, function):
            changed[name] = change(function)
    return mod.with_functions(changed)


def number_taker(name: str, ret: Type) -> Var:
    """A parameter for a Python function of a number and a value; it acts if it gives nothing."""
    return Var(name, FuncType((PrimType("int64"), ObjectType()), ret, ret != NOTHING))
