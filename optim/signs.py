"""Which states of an optimizer are never negative, and by which others it divides."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from relaxjax.ir.expr import Call, Constant, Expr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Function
from relaxjax.ir.op import Op, operator_of
from relaxjax.ir.walk import used_vars

_SUMS = {"add", "add_any", "divide", "div", "minimum", "min", "power", "pow"}
_PRODUCTS = {"multiply", "mul"}
_CHOICES = {"where", "select_n"}
_KEEPING = {
    "astype",
    "convert_element_type",
    "broadcast_to",
    "broadcast_in_dim",
    "reshape",
    "copy",
} | {"squeeze", "expand_dims", "permute_dims", "transpose", "stop_gradient"}
_NEVER = {"square", "abs", "sqrt", "rsqrt", "exp", "exp2"}
_INVERSES = {"rsqrt", "log", "reciprocal"}


class StateSigns:
    """The function of an optimizer, of which the first states are given.

    `nonnegative` are the states, by their numbers, that are at least zero after each step: they
    begin so, and what makes them keeps that.
    """

    def __init__(self, function: Function, first: Sequence[Any]) -> None:
        self._states = function.params[2]
        self._values: dict[Expr, Expr] = {}
        for binding in function.body.bindings():
            value = getattr(binding, "value", None)
            if isinstance(value, Expr):
                self._values[binding.var] = value
        body = function.body.body
        assert isinstance(body, Tuple)
        results = self._value(body.fields[1])
        assert isinstance(results, Tuple)
        self._results = results.fields
        found = {n for n, array in enumerate(first) if np.asarray(array).dtype.kind in "fiu"}
        found = {n for n in found if (np.asarray(first[n]) >= 0).all()}
        while (kept := self._kept(found)) != found:
            found = kept
        self.nonnegative = frozenset(found)

    def divides_by(self, states: Collection[int]) -> int | None:
        """One of these states that may be negative and that a number is divided by, if any.

        What is made of a state that is never negative is not looked into: that one is not zero
        where it was not. Nor are sums and norms, to which the largest numbers add as they were.
        """
        proven = {one for n in self.nonnegative & set(states) for one in self._names(n)}
        sources = set(states) - self.nonnegative
        made: dict[Var, int] = {}
        for var, value in self._values.items():
            if not isinstance(var, Var) or var in proven or _is_reduction(value):
                continue
            number = self._number(value)
            if number is not None and number in sources:
                made[var] = number
            for used in used_vars(value):
                if used in made:
                    made.setdefault(var, made[used])
            for divisor in _divisors(value):
                if isinstance(divisor, Var) and divisor in made:
                    return made[divisor]
        return None

    def _names(self, state: int) -> Iterator[Expr]:
        """The variables for the new value of a state."""
        one: Expr | None = self._results[state]
        while isinstance(one, Var):
            yield one
            one = self._values.get(one)

    def _number(self, value: Expr) -> int | None:
        """The state that a value is, by its number."""
        is_one = isinstance(value, TupleGetItem) and value.tuple_value is self._states
        return value.index if is_one and isinstance(value, TupleGetItem) else None

    def _value(self, expr: Expr) -> Expr:
        while expr in self._values:
            expr = self._values[expr]
        return expr

    def _kept(self, states: Collection[int]) -> set[int]:
        """Those of the states that are not negative after a step if all are not before."""
        known: set[Expr] = set()
        for var, value in self._values.items():
            if self._is_at_least_zero(value, states, known):
                known.add(var)
        return {n for n in states if self._holds(self._results[n], known)}

    def _is_at_least_zero(
        self, value: Expr, states: Collection[int], known: Collection[Expr]
    ) -> bool:
        number = self._number(value)
        if number is not None:
            return number in states
        if not isinstance(value, Call) or not isinstance(value.op, Op):
            return self._holds(value, known)
        name = value.op.name.split(".", 1)[1]
        holds = [self._holds(arg, known) for arg in value.args]
        if name in _NEVER or value.op.facts.get("nonnegative"):
            return True
        if name in _PRODUCTS:
            return all(holds) or value.args[0] is value.args[1]
        if name == "integer_pow":
            return value.attrs["y"] % 2 == 0 or holds[0]
        if name in ("maximum", "max"):
            return any(holds)
        if name in _CHOICES:
            return all(holds[1:])
        return all(holds) if name in _SUMS else name in _KEEPING and holds[0]

    def _holds(self, expr: Expr, known: Collection[Expr]) -> bool:
        if isinstance(expr, Constant):
            return bool((np.asarray(expr.data) >= 0).all())
        return expr in known


def _is_reduction(value: Expr) -> bool:
    operator = operator_of(value)
    return operator is not None and operator.fusion == "reduction"


def _divisors(value: Expr) -> Iterable[Expr]:
    """What a call divides by."""
    if not isinstance(value, Call) or not isinstance(value.op, Op):
        return ()
    name = value.op.name.split(".", 1)[1]
    if name in ("divide", "div"):
        return value.args[1:2]
    is_inverse = name in _INVERSES or name in ("power", "pow")
    is_inverse |= name == "integer_pow" and value.attrs["y"] < 0
    return value.args[:1] if is_inverse else ()
