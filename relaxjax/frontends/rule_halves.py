"""A rule in backward mode as JAX runs it: first what needs no cotangent, then the rest."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from jax.extend import core


@dataclass(frozen=True)
class Halves:
    """The program of a rule in two.

    `forward` takes the inputs without the cotangents, and gives the results and behind them what is
    `saved`, so many arrays. `backward` takes the inputs, these arrays and the cotangents.
    """

    forward: core.ClosedJaxpr
    backward: core.ClosedJaxpr
    saved: int


def in_halves(program: core.ClosedJaxpr, results: int, first: int, inputs: int) -> Halves:
    """A program of `inputs` and of cotangents in two.

    It gives so many `results` of a function, what its rule keeps for the way back, which are the
    `first` outputs together, and then the adjoints. What depends on no input is computed by both.
    """
    jaxpr = program.jaxpr
    given, cotangents = jaxpr.invars[:inputs], jaxpr.invars[inputs:]
    values, adjoints = jaxpr.outvars[:results], jaxpr.outvars[first:]
    early = _needed_for(jaxpr.eqns, jaxpr.outvars[:first])
    known = {id(eqn) for eqn in early}
    late = _needed_for([eqn for eqn in jaxpr.eqns if id(eqn) not in known], adjoints, effects=True)
    moving = _reached(early, given)
    open_ = [*_vars(adjoints), *(var for eqn in late for var in _vars(eqn.invars))]
    saved = list(dict.fromkeys(var for var in open_ if var in moving and var not in given))
    still = [eqn for eqn in early if moving.isdisjoint(eqn.outvars)]
    again = _needed_for(still, open_)
    return Halves(
        _part(program, given, early, [*values, *saved]),
        _part(program, [*given, *saved, *cotangents], [*again, *late], adjoints),
        len(saved),
    )


def _needed_for(eqns: Sequence[Any], atoms: Sequence[Any], effects: bool = False) -> list[Any]:
    """Those of the equations that some atoms depend on, in order; or that have `effects`."""
    live, kept = set(_vars(atoms)), []
    for eqn in reversed(eqns):
        if not live.isdisjoint(eqn.outvars) or (effects and eqn.effects):
            kept.append(eqn)
            live.update(_vars(eqn.invars))
    return kept[::-1]


def _reached(eqns: Sequence[Any], inputs: Sequence[Any]) -> set[Any]:
    """The inputs, and what equations make of them."""
    reached = set(inputs)
    for eqn in eqns:
        if not reached.isdisjoint(_vars(eqn.invars)):
            reached.update(eqn.outvars)
    return reached


def _vars(atoms: Sequence[Any]) -> Iterator[Any]:
    return (atom for atom in atoms if not isinstance(atom, core.Literal))


def _part(
    program: core.ClosedJaxpr, inputs: Sequence[Any], eqns: Sequence[Any], outputs: Sequence[Any]
) -> core.ClosedJaxpr:
    changed = program.jaxpr.replace(invars=[*inputs], eqns=[*eqns], outvars=[*outputs])
    return core.ClosedJaxpr(changed, program.consts)
