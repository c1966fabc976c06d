"""Which results of functions with rules of their own something comes back from to their inputs."""

from collections.abc import Iterator, Sequence
from operator import or_
from typing import Any, TypeAlias

from jax.core import Tracer
from jax.extend import core

from relaxjax.ops.lax import FLAT, Program, has_own_rule, inlined, open_program, scan_counts

from .moving import Flags, can_vary

# Operands of an equation, and whether something comes back to them.
_Back: TypeAlias = Iterator[tuple[Any, bool]]


class ReachedResults:
    """What comes back to the results of each equation with a derivative of its own.

    JAX tells a rule of the results that nothing comes back to, such as those behind a stop, and
    some rules may not be asked for them. An equation that several calls share is reached as in any
    of them.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, Flags]] = {}  # with the equation, lest its id be another
        self._scopes: list[set[Any]] = []  # what is reached in the programs around

    def of(self, eqn: Any) -> Flags:
        """Which results of an equation are reached: all of one that was not looked at."""
        return self._known.get(id(eqn), (eqn, [True] * len(eqn.outvars)))[1]

    def read(self, program: Program, results: Flags) -> Flags:
        """Go back through a program from some of its results; what comes back to its inputs."""
        jaxpr, consts = program
        reached: set[Any] = set()
        self._scopes.append(reached)
        self._add(zip(jaxpr.outvars, results, strict=True))
        for eqn in reversed(jaxpr.eqns):
            self._add(self._operands(eqn, [var in reached for var in eqn.outvars]))
        self._scopes.pop()
        for var, const in zip(jaxpr.constvars, consts, strict=True):
            computed = getattr(const, "val", None) if isinstance(const, Tracer) else None
            if var in reached and isinstance(computed, core.Var):
                for around in self._scopes:  # one of which computes it
                    around.add(computed)
        return [var in reached for var in jaxpr.invars]

    def _add(self, pairs: _Back) -> None:
        self._scopes[-1].update(
            atom
            for atom, comes in pairs
            if comes and not isinstance(atom, core.Literal) and can_vary(atom.aval)
        )

    def _operands(self, eqn: Any, results: Flags) -> _Back:
        name = eqn.primitive.name
        if has_own_rule(eqn):
            _, before = self._known.get(id(eqn), (eqn, [False] * len(results)))
            self._known[id(eqn)] = eqn, list(map(or_, before, results))
        elif name == "scan":
            return zip(eqn.invars, self._scan(eqn.params, results), strict=True)
        elif name == "cond":
            inside = [self.read(open_program(one), results) for one in eqn.params["branches"]]
            return zip(eqn.invars[1:], map(any, zip(*inside, strict=True)), strict=True)
        elif name != "while" and (wrapped := inlined(eqn)) is not None:
            program, given = wrapped
            return zip(given, self.read(program, results), strict=True)
        return zip(eqn.invars, [any(results) and name not in FLAT] * len(eqn.invars), strict=True)

    def _scan(self, params: Any, results: Flags) -> Sequence[bool]:
        """What comes back to the operands of a loop, from one step or another."""
        first, carried = scan_counts(params)
        program, carry = open_program(params["jaxpr"]), list(results[:carried])
        while True:
            inputs = self.read(program, [*carry, *results[carried:]])
            after = list(map(or_, carry, inputs[first : first + carried]))
            if after == carry:
                return [*inputs[:first], *carry, *inputs[first + carried :]]
            carry = after
