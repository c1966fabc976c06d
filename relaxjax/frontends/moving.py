"""Which operands of functions with rules of their own move with some inputs of a JAX program."""

from collections.abc import Callable, Sequence
from operator import or_
from typing import Any

import jax.numpy as jnp
from jax.core import Tracer
from jax.extend import core

from relaxjax.ops.lax import FLAT, Program, has_own_rule, inlined, open_program, scan_counts

Flags = Sequence[bool]


class MovingOperands:
    """What the operands do of each equation with a derivative of its own: move, or stay.

    JAX tells a rule of the operands that stay, and some rules take no others. An equation that
    several calls share moves as it does in any of them.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, Flags]] = {}  # with the equation, lest its id be another
        self._scopes: list[set[Any]] = []  # what moves in the programs around

    def of(self, eqn: Any) -> Flags:
        """Which operands of an equation move: none where nothing around it does."""
        return self._known.get(id(eqn), (eqn, [False] * len(eqn.invars)))[1]

    def read(self, program: Program, moving: Flags) -> Flags:
        """Follow a program some inputs of which move; which of its results do."""
        jaxpr, consts = program
        around = map(self._is_around, consts)
        inputs = zip((*jaxpr.invars, *jaxpr.constvars), (*moving, *around), strict=True)
        known = {var for var, moves in inputs if moves}

        def moves(atoms: Sequence[Any]) -> list[bool]:
            return [not isinstance(atom, core.Literal) and atom in known for atom in atoms]

        self._scopes.append(known)
        for eqn in jaxpr.eqns:
            results = zip(eqn.outvars, self._results(eqn, moves), strict=True)
            known.update(var for var, moved in results if moved and can_vary(var.aval))
        self._scopes.pop()
        return moves(jaxpr.outvars)

    def _is_around(self, const: Any) -> bool:
        """Whether a constant is what a program around computes, and moves there."""
        var = getattr(const, "val", None) if isinstance(const, Tracer) else None
        return isinstance(var, core.Var) and any(var in scope for scope in self._scopes)

    def _results(self, eqn: Any, moves: Callable[[Sequence[Any]], list[bool]]) -> Flags:
        name, operands = eqn.primitive.name, moves(eqn.invars)
        if has_own_rule(eqn):
            self._known[id(eqn)] = eqn, list(map(or_, self.of(eqn), operands))
            if any(operands):
                return [True] * len(eqn.outvars)
        if name in _CONTROL:
            return _CONTROL[name](self, eqn.params, operands)
        if (wrapped := inlined(eqn)) is not None:
            program, given = wrapped
            return self.read(program, moves(given))
        return [any(operands) and name not in FLAT] * len(eqn.outvars)

    def _scan(self, params: Any, operands: Flags) -> Flags:
        count, carried = scan_counts(params)
        return self._loop(params["jaxpr"], operands[:count], operands[count:], carried)

    def _while(self, params: Any, operands: Flags) -> Flags:
        test, step = params["cond_nconsts"], params["body_nconsts"]
        consts, carry = operands[test : test + step], operands[test + step :]
        carry = self._loop(params["body_jaxpr"], consts, carry, len(carry))
        self.read(open_program(params["cond_jaxpr"]), [*operands[:test], *carry])
        return carry

    def _loop(self, body: Any, consts: Flags, inputs: Flags, carried: int) -> Flags:
        """What moves of a loop's carry, at one step or another, and of its other results."""
        program = open_program(body)
        carry, rows = list(inputs[:carried]), inputs[carried:]
        while True:
            results = self.read(program, [*consts, *carry, *rows])
            after = list(map(or_, carry, results))
            if after == carry:
                return [*carry, *results[carried:]]
            carry = after

    def _cond(self, params: Any, operands: Flags) -> Flags:
        results = [self.read(open_program(b), operands[1:]) for b in params["branches"]]
        return [any(some) for some in zip(*results, strict=True)]


def can_vary(aval: Any) -> bool:
    """Whether an array can have a derivative."""
    return bool(jnp.issubdtype(getattr(aval, "dtype", bool), jnp.inexact))


_CONTROL: dict[str, Callable[[MovingOperands, Any, Flags], Flags]] = {
    "scan": MovingOperands._scan,
    "while": MovingOperands._while,
    "cond": MovingOperands._cond,
}
