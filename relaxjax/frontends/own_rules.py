"""Functions of JAX with derivatives of their own: private functions with custom gradients here."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.extend import core

from relaxjax.ir.builder import BlockBuilder, Names
from relaxjax.ir.derivatives import CUSTOM_GRADIENT, CUSTOM_JVP
from relaxjax.ir.expr import Call, Expr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.registry import get_op
from relaxjax.ir.structural import structural_equal
from relaxjax.ir.types import TupleType
from relaxjax.ops.lax import (
    JaxSymbols,
    OwnRule,
    UnsupportedPrimitiveError,
    has_own_tangent,
    read_jaxpr,
    standing_for,
    type_of,
)

# Derivatives of a function, by the attribute that names each.
Rules: TypeAlias = dict[str, Function]

# How deep rules may call functions whose rules call functions with rules.
DEEPEST = 8


class OwnRules:
    """Turns calls of functions with `jax.custom_jvp` or `jax.custom_vjp` into calls of `module`'s.

    Each becomes a private function, whose derivatives are others, as JAX derives them by the rule:
    its pullback, and by `jax.custom_jvp` its tangent too. So does each linear system that JAX
    solves by `jax.lax.custom_linear_solve`, whose derivative is that of the system and not of the
    way to its solution. The same functions are there once. None gets the name that is `taken`.
    Where derivatives are to be differentiated `once`, what their programs call is written out.
    """

    def __init__(self, taken: str, once: bool) -> None:
        self.module = IRModule()
        self._taken = taken
        self._once = once
        self._found: dict[str, tuple[Function, Rules]] = {}
        self._open: dict[str, tuple[Function, str]] = {}  # those whose rules are being written

    def __call__(self, eqn: Any, args: list[Expr]) -> Call:
        """The call of a function in the place of an equation."""
        program = standing_for(eqn)
        function = self._function(program, len(eqn.invars), _value, self)
        name = self._known(eqn, function) or self._added(eqn, function, _name(program))
        fixed = [get_op("relax.grad.closed_over")(arg) for arg in args[: _closed_over(eqn)]]
        return Call(self.module.get_global_var(name), (*fixed, *args[len(fixed) :]))

    def _known(self, eqn: Any, function: Function) -> str | None:
        """The function that is there already: equal, and so are its derivatives.

        A rule mostly calls the very function that it is of, and that one is still open then.
        """
        for name, (known, place) in self._open.items():
            if place == _place(eqn) and structural_equal(function, known):
                return name
        for name, (known, rules) in self._found.items():
            if structural_equal(function, known) and _equal(self._rules(eqn, name, known), rules):
                return name
        return None

    def _added(self, eqn: Any, function: Function, hint: str) -> str:
        name = self._entered(hint, function)
        rules = self._rules(eqn, name, function)
        self._found[name] = function, rules
        for attr, rule in rules.items():
            function = function.with_attr(attr, self._entered(f"{name}{_ENDINGS[attr]}", rule))
        self.module = self.module.with_function(name, function)
        return name

    def _entered(self, hint: str, function: Function) -> str:
        name = Names([*self.module, self._taken]).unique(hint)
        self.module = self.module.with_function(name, function)
        return name

    def _rules(self, eqn: Any, name: str, function: Function) -> Rules:
        """The derivatives that an equation's function has by its rule, by the attribute of each."""
        operands, results = ([var.aval for var in vars] for vars in (eqn.invars, eqn.outvars))
        count = len(results)
        if len(self._open) == DEEPEST:
            raise UnsupportedPrimitiveError(
                f"the rule of `{next(iter(self._open))}` calls another function with a rule, that "
                f"one's rule another, and so on, {DEEPEST} deep to `{name}`: a module would hold "
                "them all; `relaxjax.value_and_grad` takes the first derivative alone"
            )
        own_rule = None if self._once else self
        self._open[name] = function, _place(eqn)
        pullback = _traced_rule(_pullback(eqn), [*operands, *results], name)
        rules = {CUSTOM_GRADIENT: self._function(pullback, len(operands), Tuple, own_rule)}
        if has_own_tangent(eqn) and not self._once:
            inputs = [*operands, *filter(_can_vary, operands)]
            rules[CUSTOM_JVP] = self._function(
                _traced_rule(_tangent(eqn), inputs, name),
                len(inputs),
                lambda both: Tuple((_value(both[:count]), _value(both[count:]))),
                own_rule,
            )
        del self._open[name]
        return rules

    @staticmethod
    def _function(
        program: Any,
        apart: int,
        result: Callable[[tuple[Expr, ...]], Expr],
        own_rule: OwnRule | None,
    ) -> Function:
        """A program as a private function; what it takes after `apart` inputs is one parameter."""
        symbols = JaxSymbols()
        types = [type_of(var.aval, symbols) for var in program.jaxpr.invars]
        params = [Var(f"x{index}", ty) for index, ty in enumerate(types[:apart])]
        args: list[Expr] = [*params]
        builder = BlockBuilder()
        if rest := tuple(types[apart:]):
            last = Var(f"x{apart}", rest[0] if len(rest) == 1 else TupleType(rest))
            params.append(last)
            args += [last] if len(rest) == 1 else (TupleGetItem(last, i) for i in range(len(rest)))
        with builder.function("function", params, private=True):
            with builder.dataflow():
                args = [builder.normalize_leaf(arg) for arg in args]
                read = read_jaxpr(program, args, builder, symbols=symbols, own_rule=own_rule)
                outputs = tuple(builder.emit_output(value) for value in read)
            builder.emit_func_output(result(outputs))
        function = builder.get()["function"]
        assert isinstance(function, Function)
        return function


_ENDINGS = {CUSTOM_GRADIENT: "_gradient", CUSTOM_JVP: "_jvp"}


def _equal(some: Rules, others: Rules) -> bool:
    return some.keys() == others.keys() and all(
        structural_equal(some[attr], others[attr]) for attr in some
    )


def _value(results: tuple[Expr, ...]) -> Expr:
    """What a function gives: its only result, or a tuple of them."""
    return results[0] if len(results) == 1 else Tuple(results)


def _traced_rule(rule: Callable[..., Any], avals: Sequence[Any], name: str) -> core.ClosedJaxpr:
    """The program of a rule of the function `name`, which must stand by itself."""
    program = jax.make_jaxpr(rule)(*avals)
    for value in program.consts:
        if isinstance(value, Tracer):
            raise UnsupportedPrimitiveError(
                f"the rule of `{name}` uses an array of the function around it, of type "
                f"{value.aval.str_short()}: hand it to `{name}` as an argument"
            )
    return program


def _closed_over(eqn: Any) -> int:
    """How many of the first operands a `jax.custom_vjp` has from around it: its rule has none."""
    return eqn.params["num_consts"] if eqn.primitive.name == "custom_vjp_call" else 0


def _pullback(eqn: Any) -> Callable[..., Any]:
    """From operands and cotangents of an equation to the adjoints of those that can have one."""

    def pullback(*values: Any) -> tuple[Any, ...]:
        operands, cotangents = values[: len(eqn.invars)], values[len(eqn.invars) :]
        function, varied = _of_smooth(eqn, operands)
        results, pull = jax.vjp(function, *varied)
        fixed = filter(_can_vary, operands[: _closed_over(eqn)])
        adjoints = pull(list(map(_cotangent, cotangents, results)))
        return *map(jnp.zeros_like, fixed), *adjoints

    return pullback


def _tangent(eqn: Any) -> Callable[..., Any]:
    """From operands of an equation, and tangents of those that can have one, to both results."""

    def tangent(*values: Any) -> tuple[Any, ...]:
        operands, tangents = values[: len(eqn.invars)], values[len(eqn.invars) :]
        function, varied = _of_smooth(eqn, operands)
        results, moved = jax.jvp(function, varied, tangents)
        return *results, *map(_plain, moved, results)

    return tangent


def _of_smooth(eqn: Any, operands: Sequence[Any]) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """An equation as a function of those operands that can vary, and their values."""
    call = core.jaxpr_as_fun(_alone(eqn))
    inputs = range(_closed_over(eqn), len(operands))
    smooth = [index for index in inputs if _can_vary(operands[index])]

    def function(*varied: Any) -> Any:
        given = dict(enumerate(operands)) | dict(zip(smooth, varied, strict=True))
        return call(*given.values())

    return function, tuple(operands[index] for index in smooth)


def _alone(eqn: Any) -> core.ClosedJaxpr:
    """The program of one equation by itself."""
    avals = [var.aval for var in (*eqn.invars, *eqn.outvars)]
    blank = jax.make_jaxpr(lambda *values: values)(*avals).jaxpr
    count = len(eqn.invars)
    ins, outs = blank.invars[:count], blank.invars[count:]
    equation = eqn.replace(invars=ins, outvars=outs)
    return core.ClosedJaxpr(blank.replace(invars=ins, outvars=outs, eqns=[equation]), ())


def _can_vary(aval: Any) -> bool:
    return bool(jnp.issubdtype(aval.dtype, np.inexact))


def _cotangent(cotangent: Any, result: Any) -> Any:
    """The cotangent of a result: one without numbers where it cannot vary."""
    return cotangent if _can_vary(result) else np.zeros(result.shape, jax.dtypes.float0)


def _plain(tangent: Any, result: Any) -> Any:
    """The tangent of a result: zeros of its own dtype where it cannot vary."""
    return tangent if _can_vary(result) else jnp.zeros(result.shape, result.dtype)


def _place(eqn: Any) -> str:
    """Where in the user's text the function is written that an equation calls."""
    params = eqn.params
    program = params["call_jaxpr"] if "call_jaxpr" in params else params["jaxprs"].matvec
    place: str = program.jaxpr.debug_info.func_src_info
    return place


def _name(program: Any) -> str:
    """What a function was called in JAX, as far as a script can write it."""
    name: str = program.jaxpr.debug_info.func_name
    return name if name.isidentifier() else "function"
