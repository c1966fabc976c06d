"""Calls that are differentiated though no gradient comes back to them: their rules give the value.

Such a call is made by what the variables differentiated by vary, and stands beside the target or
behind a stop. JAX computes it as `jax.custom_vjp` says for where a function is differentiated.
"""

from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence

from relaxjax.ir.derivatives import CUSTOM_FORWARD
from relaxjax.ir.expand import expand_calls
from relaxjax.ir.expr import Call, Expr, GlobalVar, TupleGetItem, Var
from relaxjax.ir.function import Binding, Function, If
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import get_op

from .activity import in_full, local_functions, module_functions
from .dependence import Dependence, Dependent, depends, smooth_parts


def with_own_values(function: Function, required: Iterable[Var], mod: IRModule) -> Function:
    """A function that is differentiated by some of its variables, with what rules give for calls.

    Calls that a gradient comes back to are not there any more: their rules run in their place.
    """
    if not any(CUSTOM_FORWARD in one.attrs for one in mod.relax_functions().values()):
        return function
    search = _Varied(mod)
    search.sequence(tuple(function.body.bindings()), in_full(required))

    def own_value(call: Call) -> Expr | None:
        if id(call) not in search.found:
            return None
        assert isinstance(call.op, GlobalVar)
        forward = mod.get_global_var(mod[call.op.name].attrs[CUSTOM_FORWARD])
        return TupleGetItem(Call(forward, call.args), 0)

    return expand_calls(function, own_value)


class _Varied:
    """The calls of functions with a forward program of their own by what varies."""

    def __init__(self, mod: IRModule) -> None:
        self.mod = mod
        self.functions = ChainMap(module_functions(mod))
        self.found: dict[int, Call] = {}

    def sequence(self, bindings: Sequence[Binding], required: Mapping[Var, Dependent]) -> None:
        self.functions |= local_functions(bindings)
        dependence = Dependence(required, self.functions)
        dependence.read(bindings)
        for binding in bindings:
            self.value(binding.value, dependence)

    def value(self, value: Expr, dependence: Dependence) -> None:
        match value:
            case If():
                for branch in (value.true_branch, value.false_branch):
                    self.sequence(tuple(branch.bindings()), dependence.parts)
            case Call(op=GlobalVar(name=name)):
                own = CUSTOM_FORWARD in self.mod[name].attrs
                if own and any(depends(dependence.of(arg)) for arg in value.args):
                    self.found[id(value)] = value
            case Call(args=(step, init, xs)) if value.op is get_op("relax.scan"):
                body = self.functions.get(step)
                if body is not None:
                    self.step(body, dependence.step_inputs(body, init, xs), dependence)
            case Call(args=(_, step, *args)) if value.op is get_op("lax.while_loop"):
                body = self.functions.get(step)
                if body is not None:
                    self.while_body(value, body, args, dependence)

    def while_body(
        self, loop: Call, body: Function, args: Sequence[Expr], dependence: Dependence
    ) -> None:
        """The body alone: JAX does not differentiate what says how often."""
        given, behind = args[loop.attrs["cond_consts"] :], loop.attrs["body_consts"]
        carried = dependence.carried(body, given, behind)
        assert isinstance(carried, tuple)
        parts = (*map(dependence.of, given[:behind]), *carried)
        self.step(body, smooth_parts(body.params, parts), dependence)

    def step(self, body: Function, inputs: Mapping[Var, Dependent], dependence: Dependence) -> None:
        given = dependence.parts.new_child(dict(inputs))
        self.sequence(tuple(body.body.bindings()), given)
