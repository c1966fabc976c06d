"""What can be asked of a program, where TVM has it."""

from collections.abc import Callable

from relaxjax.ir import IRModule, check, walk
from relaxjax.ir.dead_code import remove_all_unused as remove_all_unused
from relaxjax.ir.expr import Expr, GlobalVar, Var
from relaxjax.ir.function import Function


def free_vars(expr: Expr) -> list[Var]:
    """The variables that `expr` uses and does not define."""
    return list(walk.free_vars(expr))


def bound_vars(expr: Expr) -> list[Var]:
    """The variables that `expr` defines, parameters included."""
    return list(walk.bound_vars(expr))


def all_vars(expr: Expr) -> list[Var]:
    """The variables that `expr` defines or uses."""
    return list(walk.all_vars(expr))


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
