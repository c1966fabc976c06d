"""Functions of JAX with derivatives of their own: private functions with custom gradients here."""

from collections.abc import Callable, Sequence
from operator import and_
from typing import Any, TypeAlias

from relaxjax.ir.builder import BlockBuilder, Names
from relaxjax.ir.derivatives import (
    CUSTOM_FORWARD,
    CUSTOM_GRADIENT,
    CUSTOM_JVP,
    LINEARIZED,
    carries_gradient,
)
from relaxjax.ir.expr import Call, Expr, Tuple, Var
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import get_op
from relaxjax.ir.structural import structural_equal
from relaxjax.ir.types import TupleType
from relaxjax.ir.walk import nested_bindings
from relaxjax.ops.lax import (
    Found,
    JaxSymbols,
    OwnRule,
    UnsupportedPrimitiveError,
    function_of_jax,
    has_own_tangent,
    read_jaxpr,
    standing_for,
    type_of,
    whole_function,
)
from relaxjax.ops.refused import REFUSED

from .moving import Flags, MovingOperands, can_vary
from .reached import ReachedResults
from .rule_programs import RulePrograms, name_of, rule_programs, still_results

# Derivatives of a function, by the attribute that names each.
Rules: TypeAlias = dict[str, Function]

# How deep rules may call functions whose rules call functions with rules: each is one derivative of
# the first one more, and each level is written as often again as the one before.
DEEPEST = 5
# How often they may call the function that they are of on a larger program, as the rule of a solver
# of differential equations does: each program takes a multiple of the time of the one before.
_MOST_LARGER = 2
# Functions of JAX whose rules go by the types of their operands alone. Equal calls of others may
# differ by what the rule has closed over, such as an argument that it is not differentiated by.
_BY_TYPES_ALONE = {"relu"}


class OwnRules:
    """Turns calls of functions with `jax.custom_jvp` or `jax.custom_vjp` into calls of `module`'s.

    Each becomes a private function, whose derivatives are others, as JAX derives them by the rule:
    its pullback, and by `jax.custom_jvp` its tangent too. So does each linear system that JAX
    solves by `jax.lax.custom_linear_solve`, whose derivative is that of the system and not of the
    way to its solution. The same functions are there once. None gets a name that is `taken`.
    Where derivatives are to be differentiated once, `moving` says by what and `reached` what comes
    back, and what the programs of derivatives call is written out.
    """

    def __init__(
        self,
        taken: Sequence[str],
        moving: MovingOperands | None = None,
        reached: ReachedResults | None = None,
    ) -> None:
        self.module = IRModule()
        self.use_surroundings = False  # what the function around a rule computes
        self._taken = taken
        self._moving = moving
        self._reached = reached
        self._once = moving is not None
        self._found: dict[str, tuple[Function, Rules]] = {}
        self._open: dict[str, tuple[Function, str]] = {}  # those whose rules are being written
        self._ends: dict[str, Function] = {}  # those that have none
        self._by_types: dict[tuple[Any, ...], tuple[str, Flags]] = {}  # of `_BY_TYPES_ALONE`

    def __call__(
        self, eqn: Any, args: list[Expr], found: Found, wanted: Sequence[bool]
    ) -> tuple[Call, Sequence[bool]] | None:
        """The call of a function in the place of an equation; None where no operand moves.

        And which results have no derivative by the rule: what asks for it later is not to be asked.
        Where derivatives are taken once, rules are told of results that are not `wanted`, and those
        by `jax.custom_vjp` of results that nothing comes back to.

        What has an operator needs no rule where operands vary over other mapped axes than their
        fellows, for which JAX sums in the rule what is summed here in the end. Nor where some have
        no derivative: a rule of JAX's own may multiply by the tangent of an integer.
        """
        avals = [var.aval for var in eqn.invars]
        differ = len({aval.manual_axis_type for aval in avals}) > 1 or not all(map(can_vary, avals))
        if differ or function_of_jax(eqn) in REFUSED:
            whole = whole_function(eqn, args, found, wanted)
            if whole is not None:
                return whole
        moving = self._moving_operands(eqn)
        if not any(moving):
            return None
        alike = self._alike(eqn)
        if alike in self._by_types:
            name, still = self._by_types[alike]
            return Call(self.module.get_global_var(name), tuple(args)), still
        asked = self._asked(eqn, wanted)
        programs = rule_programs(eqn, moving, asked, forward=not self._once)
        around = [self._given(value, found, eqn) for value in programs.around]
        self.use_surroundings |= bool(around)
        inputs = len(around) + len(eqn.invars)
        function = self._function(programs.value, inputs, _value, self, programs.around)
        given, fixed = [*around, *args], get_op("relax.grad.closed_over")
        callee = self._being_written(eqn, function)
        if callee is None and self._goes_on_and_on(_place(eqn), function):
            callee, moved = self._without_rules(function), get_op("relax.grad.deepest_rule")
            given = [moved(arg) if carries_gradient(arg.ty) else arg for arg in given]
        elif callee is None:
            callee = self._known(eqn, function, programs) or self._added(eqn, function, programs)
        given[: programs.fixed] = map(fixed, given[: programs.fixed])
        call = Call(self.module.get_global_var(callee), tuple(given))
        still = still_results(eqn, moving, programs)
        if alike is not None and not programs.fixed and not self._open:
            self._by_types[alike] = callee, still
        return call, still

    @staticmethod
    def _alike(eqn: Any) -> tuple[Any, ...] | None:
        """What an equation has in common with those of the very same function and rule."""
        name = function_of_jax(eqn)
        if name not in _BY_TYPES_ALONE:
            return None
        return name, _place(eqn), tuple(var.aval for var in eqn.invars)

    def _asked(self, eqn: Any, wanted: Flags) -> Flags:
        """Which results of an equation its rule is asked for."""
        if not self._once:
            return [True] * len(eqn.outvars)
        if self._reached is None or eqn.primitive.name != "custom_vjp_call":
            return wanted
        return list(map(and_, wanted, self._reached.of(eqn)))

    def _moving_operands(self, eqn: Any) -> Flags:
        """Which operands move; JAX's own functions are read whole, and so have rules for all.

        The rule of a linear function is one for all of its operands, too.
        """
        known = [True] * len(eqn.invars) if self._moving is None else self._moving.of(eqn)
        whole = function_of_jax(eqn) is not None or (
            eqn.primitive.name == "linear_call" and any(known)
        )
        return [True] * len(eqn.invars) if whole else known

    @staticmethod
    def _given(value: Any, found: Found, eqn: Any) -> Expr:
        """What an array is here that the rule of an equation uses without having been given it."""
        expr = found(value)
        if expr is None:
            name = name_of(standing_for(eqn))
            raise UnsupportedPrimitiveError(
                f"the rule of `{name}` uses an array of the function around it, of type "
                f"{value.aval.str_short()}: hand it to `{name}` as an argument"
            )
        return expr

    def _being_written(self, eqn: Any, function: Function) -> str | None:
        """The function, if its rules are open: one mostly calls the very function that it is of."""
        for name, (known, place) in self._open.items():
            if place == _place(eqn) and structural_equal(function, known):
                return name
        return None

    def _without_rules(self, function: Function) -> str:
        """A function that is called where no more rules are written."""
        for name, known in self._ends.items():
            if structural_equal(function, known):
                return name
        name = self._entered("deepest", function)
        self._ends[name] = function
        return name

    def _known(self, eqn: Any, function: Function, programs: RulePrograms) -> str | None:
        """The function that is there already: equal, and so are its derivatives."""
        for name, (known, rules) in self._found.items():
            if structural_equal(function, known):
                own = self._rules(eqn, name, known, programs)
                if _equal(own, rules):
                    return name
        return None

    def _added(self, eqn: Any, function: Function, programs: RulePrograms) -> str:
        name = self._entered(name_of(programs.value), function)
        rules = self._rules(eqn, name, function, programs)
        self._found[name] = function, rules
        for attr, rule in rules.items():
            function = function.with_attr(attr, self._entered(f"{name}{_ENDINGS[attr]}", rule))
        self.module = self.module.with_function(name, function)
        return name

    def _entered(self, hint: str, function: Function) -> str:
        name = Names([*self.module, *self._taken]).unique(hint)
        self.module = self.module.with_function(name, function)
        return name

    def _rules(self, eqn: Any, name: str, function: Function, programs: RulePrograms) -> Rules:
        """The derivatives that an equation's function has by its rule, by the attribute of each."""
        count, inputs = len(eqn.outvars), len(function.params)
        own_rule = None if self._once else self
        self._open[name] = function, _place(eqn)
        kept = None if programs.forward is None else programs.saved
        pullback = self._function(programs.pullback, inputs, Tuple, own_rule, programs.around, kept)
        if has_own_tangent(eqn):
            pullback = pullback.with_attr(LINEARIZED, True)
        rules = {CUSTOM_GRADIENT: pullback}
        if programs.forward is not None:
            rules[CUSTOM_FORWARD] = self._function(
                programs.forward,
                inputs,
                lambda all_: Tuple((_value(all_[:count]), Tuple(all_[count:]))),
                own_rule,
                programs.around,
            )
        if programs.tangent is not None:
            rules[CUSTOM_JVP] = self._function(
                programs.tangent,
                len(programs.tangent.in_avals),
                lambda both: Tuple((_value(both[:count]), _value(both[count:]))),
                own_rule,
                programs.around,
            )
        del self._open[name]
        return rules

    def _goes_on_and_on(self, place: str, function: Function) -> bool:
        """Whether rules call functions whose rules call others with rules, too deep for a module.

        Or whether the rules that are being written call what stands at a place on ever more.
        """
        if len(self._open) == DEEPEST:
            return True
        alike = [known for known, at in self._open.values() if at == place]
        sizes = [sum(1 for _ in nested_bindings(one.body)) for one in (*alike, function)]
        return len(alike) > _MOST_LARGER and sizes == sorted(set(sizes))

    def _function(
        self,
        program: Any,
        apart: int,
        result: Callable[[tuple[Expr, ...]], Expr],
        own_rule: OwnRule | None,
        around: Sequence[Any],
        saved: int | None = None,
    ) -> Function:
        """A program as a private function; what it takes after `apart` inputs is one parameter.

        The first inputs stand for the arrays `around` of the program around it. Where so many are
        `saved` by a forward program, the first after those apart are a tuple of them.
        """
        symbols = JaxSymbols()
        types = [type_of(var.aval, symbols) for var in program.jaxpr.invars]
        params = [Var(f"x{index}", ty) for index, ty in enumerate(types[:apart])]
        args: list[Expr] = [*params]
        builder = BlockBuilder()
        if saved is not None:
            params.append(Var(f"x{len(params)}", TupleType(tuple(types[apart : apart + saved]))))
            args += list(params[-1])
        if rest := tuple(types[apart + (saved or 0) :]):
            last = Var(f"x{len(params)}", rest[0] if len(rest) == 1 else TupleType(rest))
            params.append(last)
            args += [last] if len(rest) == 1 else list(last)
        with builder.function("function", params, private=True):
            with builder.dataflow():
                args = [builder.normalize_leaf(arg) for arg in args]
                read = read_jaxpr(
                    program,
                    args,
                    builder,
                    symbols=symbols,
                    own_rule=own_rule,
                    around=known_as(around, args),
                    callbacks=self._once,
                )
                outputs = tuple(builder.emit_output(value) for value in read)
            builder.emit_func_output(result(outputs))
        function: Function = builder.get()["function"]
        return function


_ENDINGS = {CUSTOM_GRADIENT: "_gradient", CUSTOM_FORWARD: "_forward", CUSTOM_JVP: "_jvp"}


def _equal(some: Rules, others: Rules) -> bool:
    return some.keys() == others.keys() and all(
        structural_equal(some[attr], others[attr]) for attr in some
    )


def _value(results: tuple[Expr, ...]) -> Expr:
    """What a function gives: its only result, or a tuple of them."""
    return results[0] if len(results) == 1 else Tuple(results)


def known_as(arrays: Sequence[Any], exprs: Sequence[Expr]) -> Found:
    """Where to find arrays of a program around, of which the first expressions stand for them."""

    def found(array: Any) -> Expr | None:
        pairs = zip(arrays, exprs, strict=False)
        return next((expr for known, expr in pairs if known is array), None)

    return found


def _place(eqn: Any) -> str:
    """Where in the user's text the function is written that an equation calls, or JAX's name."""
    params = eqn.params
    if "_prim" in params:
        return type(params["_prim"]).__qualname__
    program = params["jaxprs"].matvec if "jaxprs" in params else standing_for(eqn)
    place: str = program.jaxpr.debug_info.func_src_info
    return place
