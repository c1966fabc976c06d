"""What can be asked of a program, where TVM has it."""

from collections.abc import Callable

from relaxjax.dpl import get_var2val as get_var2val
from relaxjax.ir import IRModule, check, walk
from relaxjax.ir.dead_code import remove_all_unused as remove_all_unused
from relaxjax.ir.expr import Call, Expr, GlobalVar, Var
from relaxjax.ir.function import Binding, BindingBlock, Function
from relaxjax.ir.infer import impure_call, is_pure_call
from relaxjax.ir.reached import reached


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
    for binding in walk.nested_bindings(function):
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


def well_formed(obj: IRModule | Function, check_ty: bool = True) -> bool:
    """True; a program that breaks a rule is an error. Types are always looked at."""
    check.well_formed(obj)
    return True


def check_well_formed(obj: IRModule | Function, check_ty: bool = True) -> bool:
    """Whether a program keeps all rules. Types are always looked at."""
    return check.check_well_formed(obj)


def detect_recursion(mod: IRModule) -> list[list[GlobalVar]]:
    """The functions that call themselves, and the groups of those that call one another."""
    functions = mod.relax_functions()
    calls = {name: {var.name for var in walk.global_vars(f)} for name, f in functions.items()}
    leads_to = {name: set(reached(calls[name], lambda n: calls.get(n, ()))) for name in functions}
    groups: list[list[GlobalVar]] = []
    placed: set[str] = set()
    for name in functions:
        if name in leads_to[name] and name not in placed:
            group = [n for n in functions if n in leads_to[name] and name in leads_to[n]]
            placed.update(group)
            groups.append([mod.get_global_var(other) for other in group])
    return groups


def computable_at_compile_time(func: Function) -> list[Var]:
    """The weights of a function, and the variables that only depend on these and on constants.

    The weights are the parameters behind the first `num_input` ones, an attribute of the function;
    without it nothing is known before a run.
    """
    if "num_input" not in func.attrs:
        return []
    first = int(func.attrs["num_input"])
    known = set(func.params[first:])
    found = list(func.params[first:])
    for binding in func.body.bindings():
        value = binding.value
        is_pure = not isinstance(value, Call) or is_pure_call(value)
        if is_pure and known.issuperset(walk.free_vars(value)):
            known.add(binding.var)
            found.append(binding.var)
    return found
