"""What can be asked of a program, where TVM has it."""

from collections.abc import Callable

from relaxjax.dpl import get_var2val as get_var2val
from relaxjax.ir import IRModule, check, walk
from relaxjax.ir.check import check_well_formed as check_well_formed
from relaxjax.ir.dead_code import remove_all_unused as remove_all_unused
from relaxjax.ir.expr import Expr, GlobalVar, Var
from relaxjax.ir.function import Binding, BindingBlock, Function
from relaxjax.script.purity import impure_call


def free_vars(expr: Expr) -> list[Var]:
    """The variables that `expr` uses and does not define."""
    return list(walk.free_vars(expr))


def bound_vars(expr: Expr) -> list[Var]:
    """The variables that `expr` defines, parameters included."""
    return list(walk.bound_vars(expr))


def all_vars(expr: Expr) -> list[Var]:
    """The variables that `expr` defines or uses."""
    return list(walk.all_vars(expr))


def used_vars(expr: Expr) -> list[Var]:
    """The variables that `expr` uses."""
    return list(walk.used_vars(expr))


def udchain(block: BindingBlock) -> dict[Var, list[Var]]:
    """For each variable that `block` defines or uses, the variables whose values use it."""
    users: dict[Var, list[Var]] = {}
    for binding in block.bindings:
        users.setdefault(binding.var, [])
        for used in dict.fromkeys(walk.used_vars(binding.value)):
            users.setdefault(used, []).append(binding.var)
    return users


def name_to_binding(function: Function) -> dict[str, list[Binding]]:
    """The bindings of a function by the names of their variables, in branches and closures too."""
    found: dict[str, list[Binding]] = {}
    for sequence in walk.nested_sequences(function):
        for binding in sequence.bindings():
            found.setdefault(binding.var.name, []).append(binding)
    return found


def contains_impure_call(function: Function) -> bool:
    """Whether a function calls what has effects. Its closures answer for themselves."""
    return impure_call(function) is not None


def all_global_vars(expr: Expr) -> list[GlobalVar]:
    """The functions of the module that `expr` names."""
    return list(walk.global_vars(expr))


def post_order_visit(expr: Expr, fvisit: Callable[[Expr], None]) -> None:
    """Call `fvisit` with everything inside `expr` and with itself, children first."""
    for item in walk.post_order(expr):
        fvisit(item)


def well_formed(obj: IRModule | Function) -> bool:
    """True; a program that breaks a rule is an error."""
    check.well_formed(obj)
    return True
