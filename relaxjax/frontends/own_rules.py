"""Functions of JAX with derivatives of their own: private functions with custom gradients here."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.extend import core

from relaxjax.ir.builder import BlockBuilder, Names
from relaxjax.ir.derivatives import CUSTOM_GRADIENT
from relaxjax.ir.expr import Call, Expr, GlobalVar, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.structural import structural_equal
from relaxjax.ir.types import TupleType
from relaxjax.ops.lax import JaxSymbols, read_jaxpr, type_of


class OwnRules:
    """Turns calls of functions with `jax.custom_jvp` or `jax.custom_vjp` into calls of `module`'s.

    Each becomes a private function, whose custom gradient is another one: the pullback that JAX
    derives by the rule. The same function with the same pullback is there once. No function gets
    the name that is `taken`.
    """

    def __init__(self, taken: str) -> None:
        self.module = IRModule()
        self._taken = taken
        self._found: list[tuple[str, Function, Function]] = []

    def __call__(self, eqn: Any, args: list[Expr]) -> Call:
        """The call of a function in the place of an equation."""
        program = eqn.params["call_jaxpr"]
        several = len(eqn.outvars) != 1
        forward = self._function(program, len(eqn.invars), several)
        avals = [var.aval for var in (*eqn.invars, *eqn.outvars)]
        pullback = jax.make_jaxpr(_pullback(eqn))(*avals)
        backward = self._function(pullback, len(eqn.invars), True, packed=several)
        return Call(self._known_or_added(_name(program), forward, backward), tuple(args))

    def _known_or_added(self, hint: str, forward: Function, backward: Function) -> GlobalVar:
        for name, *pair in self._found:
            if all(map(structural_equal, pair, (forward, backward))):
                return self.module.get_global_var(name)
        name = self._added(hint, forward)
        rule = self._added(f"{name}_gradient", backward)
        self._found.append((name, forward, backward))
        own = forward.with_attr(CUSTOM_GRADIENT, rule)
        self.module = self.module.with_function(name, own)
        return self.module.get_global_var(name)

    def _added(self, hint: str, function: Function) -> str:
        name = Names([*self.module, self._taken]).unique(hint)
        self.module = self.module.with_function(name, function)
        return name

    def _function(
        self, program: Any, operands: int, as_tuple: bool, packed: bool = False
    ) -> Function:
        """A program as a private function, whose results are a tuple or the only one.

        What comes after the operands is `packed` in a tuple, or each a parameter too.
        """
        symbols = JaxSymbols()
        types = [type_of(var.aval, symbols) for var in program.jaxpr.invars]
        single = operands if packed else len(types)
        params = [Var(f"x{index}", ty) for index, ty in enumerate(types[:single])]
        args: list[Expr] = [*params]
        if packed:
            params.append(Var(f"x{single}", TupleType(tuple(types[single:]))))
            args += [TupleGetItem(params[-1], index) for index in range(len(types) - single)]
        builder = BlockBuilder()
        with builder.function("function", params, private=True):
            with builder.dataflow():
                args = [builder.normalize_leaf(arg) for arg in args]
                read = read_jaxpr(program, args, builder, symbols=symbols, own_rule=self)
                results = [builder.emit_output(result) for result in read]
            builder.emit_func_output(Tuple(tuple(results)) if as_tuple else results[0])
        function = builder.get()["function"]
        assert isinstance(function, Function)
        return function


def _pullback(eqn: Any) -> Callable[..., Any]:
    """From operands and cotangents of an equation to the adjoints of those that can have one."""
    call = core.jaxpr_as_fun(_alone(eqn))
    count = len(eqn.invars)
    smooth = [index for index, var in enumerate(eqn.invars) if _can_vary(var.aval)]

    def pullback(*values: Any) -> tuple[Any, ...]:
        operands, cotangents = values[:count], values[count:]

        def of_smooth(*varied: Any) -> Any:
            given = dict(enumerate(operands)) | dict(zip(smooth, varied, strict=True))
            return call(*given.values())

        results, pull = jax.vjp(of_smooth, *(operands[index] for index in smooth))
        return tuple(pull(list(map(_cotangent, cotangents, results))))

    return pullback


def _alone(eqn: Any) -> core.ClosedJaxpr:
    """The program of one equation by itself."""
    avals = [var.aval for var in (*eqn.invars, *eqn.outvars)]
    blank = jax.make_jaxpr(lambda *values: values)(*avals).jaxpr
    count = len(eqn.invars)
    ins, outs = blank.invars[:count], blank.invars[count:]
    equation = eqn.replace(invars=ins, outvars=outs)
    return core.ClosedJaxpr(blank.replace(invars=ins, outvars=outs, eqns=[equation]), ())


def _can_vary(aval: Any) -> bool:
    return bool(jax.numpy.issubdtype(aval.dtype, np.inexact))


def _cotangent(cotangent: Any, result: Any) -> Any:
    """The cotangent of a result: one without numbers where it cannot vary."""
    return cotangent if _can_vary(result) else np.zeros(result.shape, jax.dtypes.float0)


def _name(program: Any) -> str:
    """What a function was called in JAX, as far as a script can write it."""
    name: str = program.jaxpr.debug_info.func_name
    return name if name.isidentifier() else "function"
