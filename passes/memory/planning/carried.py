"""What is there at once while a loop of unknown length runs: what it carries, and what waits."""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from relaxjax.ir.expr import Expr, TupleGetItem, Var
from relaxjax.ir.function import Function
from relaxjax.ir.reached import reached
from relaxjax.ir.uses import Uses
from relaxjax.ir.walk import free_vars, used_vars
from relaxjax.ops.control_call import ControlCall

from ..program.step import size_of

# Variables that have memory, and their bytes.
Held: TypeAlias = Mapping[Var, int]


def carried_at_once(loop: Var, known: Uses) -> Held:
    """What has memory of its own at once while a loop runs; nothing for what is no such loop.

    That is all that it carries, but for what it hands on unchanged, which may be the caller's, and
    for what nothing needs. Where a loop runs inside of its steps, it is what that carries, and of
    the other what is read afterwards. Variables that are read from the loop stand for what it
    carries.
    """
    control = ControlCall.of(known.value(loop), known)
    if control is None or control.condition is None:
        return {}
    names = {
        control.params(value.index)[-1]: user
        for user in known.users_of(loop)
        if isinstance(value := known.value(user), TupleGetItem)
    }
    held = _while_it_runs(loop, control, known)
    return {names.get(var, var): size for var, size in held.items()}


def _while_it_runs(loop: Var, control: ControlCall, known: Uses) -> Held:
    changed = {
        control.params(index)[-1]
        for index in _needed(loop, control, known)
        if control.results(index)[0] is not control.params(index)[-1]
    }
    carried = {var: size_of(var) for var in control.functions[-1].params if var in changed}
    return _most([carried, _inside(control.functions[-1], carried, known)])


def _needed(loop: Var, control: ControlCall, known: Uses) -> set[int]:
    """What of that which a loop carries its condition needs, or what is read of it in the end."""
    indices = range(control.count)
    index_of = {param: index for index in indices for param in control.params(index)}
    users = known.users_of(loop)
    values = [known.value(user) for user in users]
    fields = [value.index for value in values if isinstance(value, TupleGetItem)]
    if len(fields) < known.count(loop):
        return set(indices)  # it is handed on as a whole

    def of(var: Var) -> Iterable[Var]:
        return free_vars(known.bindings[var].value) if var in known.bindings else ()

    def read_for(result: Expr) -> list[int]:
        return [index_of[var] for var in reached(used_vars(result), of) if var in index_of]

    assert control.condition is not None
    first = [*fields, *read_for(control.condition.body.body)]
    return set(reached(first, lambda index: read_for(control.results(index)[0])))


def _inside(function: Function, kept: Held, known: Uses) -> Held:
    """The most that is there at once while a loop runs inside of a function.

    That is with those of its parameters that are kept and that something reads afterwards.
    """
    found: list[Held] = []
    results = set(used_vars(function.body.body))
    for binding in function.body.bindings():
        control = ControlCall.of(binding.value, known)
        if control is None:
            continue
        later = set(reached([binding.var], known.users_of)) - {binding.var}
        stays = {
            var: size
            for var, size in kept.items()
            if var in results or not later.isdisjoint(known.users_of(var))
        }
        if control.condition is not None:
            for var, param in control.constants:
                if isinstance(var, Var) and var in kept and known.count(param):
                    stays[var] = kept[var]
            found.append({**stays, **_while_it_runs(binding.var, control, known)})
        for number, branch in enumerate(() if control.is_loop else control.functions):
            given = {
                control.params(index)[number]: kept[var]
                for index, var in enumerate(control.handed)
                if isinstance(var, Var) and var in kept and var not in stays
            }
            found.append({**stays, **_inside(branch, given, known)})
    return _most(found)


def _most(held: Iterable[Held]) -> Held:
    return max(held, key=lambda one: sum(one.values()), default={})
