"""Bodies of functions instead of their calls."""

from collections import Counter
from collections.abc import Callable

from relaxjax.ir.derivatives import own_derivatives
from relaxjax.ir.expr import Call, GlobalVar
from relaxjax.ir.function import Function
from relaxjax.ir.inline import callees_first, inlined_into, recursive
from relaxjax.ir.module import IRModule
from relaxjax.ir.walk import global_vars, nested_bindings, post_order
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.infrastructure.error_notes import in_function

# Given a function and the number of its calls: whether inlining it pays.
CostModel = Callable[[Function, int], bool]


@pass_factory(opt_level=1)
def Inline(mod: IRModule, cost_model: CostModel | int | None = None) -> IRModule:
    """Replace calls of functions with the attribute `inline` by the functions' bodies.

    Functions that call themselves stay, and so do those with a derivative of their own, which a
    body does not have. A private function that nothing calls any more goes.

    Args:
        cost_model: says of every other function, and of how often it is called, whether to inline
            it too. A number n stands for: what is called once, or holds at most n bindings.
    """
    calls = _calls(mod)
    model = _model(cost_model)
    chosen = [
        name
        for name, function in mod.relax_functions().items()
        if function.attrs.get("inline") or (calls[name] and model(function, calls[name]))
    ]
    return inlined(mod, chosen)


@pass_factory(opt_level=0)
def InlinePrivateFunctions(mod: IRModule, differentiated: bool = False) -> IRModule:
    """Replace calls of private functions by the functions' bodies.

    Functions that call themselves stay. So do those with a derivative of their own, which a body
    does not have, unless the program is `differentiated` and nothing will ask for it.
    """
    private = [name for name, f in mod.relax_functions().items() if f.global_symbol is None]
    return inlined(mod, private, differentiated)


def inlined(mod: IRModule, names: list[str], differentiated: bool = False) -> IRModule:
    """`mod` with some functions inlined, and without those of them that nothing uses any more.

    Those with a derivative of their own are inlined only where all is `differentiated`.
    """
    functions = mod.relax_functions()
    candidates = {
        name: functions[name]
        for name in names
        if differentiated or not own_derivatives(functions[name])
    }
    circles = set(recursive(functions))
    chosen = {name: f for name, f in candidates.items() if name not in circles}
    bodies: dict[str, Function] = {}
    for name in callees_first(chosen):
        with in_function(name, chosen[name]):
            bodies[name] = inlined_into(chosen[name], bodies)
    changed = dict(bodies)
    for name, function in functions.items():
        if name not in bodies:
            with in_function(name, function):
                changed[name] = inlined_into(function, bodies)
    result = mod.with_functions(changed)
    used = {var.name for f in result.relax_functions().values() for var in global_vars(f)}
    called = {var.name for f in functions.values() for var in global_vars(f)}
    gone = {n for n, f in chosen.items() if not f.global_symbol and n in called - used}
    staying = (function for name, function in functions.items() if name not in gone)
    derivatives = {name for function in staying for name in own_derivatives(function)}
    return result.without_functions(*(gone - derivatives))


def _calls(mod: IRModule) -> Counter[str]:
    """How often each function of the module is called."""
    found = Counter[str]()
    for function in mod.relax_functions().values():
        for expr in post_order(function):
            if isinstance(expr, Call) and isinstance(expr.op, GlobalVar):
                found[expr.op.name] += 1
    return found


def _model(given: CostModel | int | None) -> CostModel:
    if given is None:
        return lambda function, calls: False
    if isinstance(given, int):
        return lambda function, calls: calls == 1 or binding_count(function) <= given
    return given


def binding_count(function: Function) -> int:
    """How many bindings a function has, those in branches and closures too."""
    return sum(1 for _ in nested_bindings(function))
