"""Functions of JAX with derivatives of their own, and these derivatives, as programs of JAX."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jax.extend import core

from relaxjax.ops.lax import UnsupportedPrimitiveError, has_own_tangent, needed, standing_for
from relaxjax.ops.lax.inlining import alone, x64_of

from .moving import Flags, can_vary
from .rule_halves import Halves, in_halves

# How the parameters of equations count the first operands, which the rule knows nothing of.
_NOT_DIFFERENTIATED = ("num_consts", "num_callee_consts", "num_res")


@dataclass(frozen=True)
class RulePrograms:
    """What an equation computes, and by its rule the adjoints and the tangents.

    All take as first inputs the arrays `around`, which the rule uses without having been given
    them. These and the first of the operands, in all as many as are `fixed`, the function has from
    around it: its rule says nothing about derivatives by them. The adjoints of operands that do
    not move are zeros.

    By a rule of `jax.custom_vjp`, `forward` gives what the equation computes where it is
    differentiated, and behind that so many arrays as are `saved` for the pullback, which takes them
    before the cotangents.
    """

    around: tuple[Any, ...]
    fixed: int
    value: core.ClosedJaxpr
    forward: core.ClosedJaxpr | None
    saved: int
    pullback: core.ClosedJaxpr
    tangent: core.ClosedJaxpr | None


def rule_programs(eqn: Any, moving: Flags, wanted: Flags, forward: bool) -> RulePrograms:
    """The programs of an equation, some operands of which move, and some results are wanted.

    Nothing goes back from a result that is not: JAX tells a rule so, and where `jax.vmap` maps a
    function, JAX needs to know it of what the examples have alike.

    The program of its tangents is there only if they are asked for, and the equation has one.
    """
    with x64_of(eqn):
        return _rule_programs(eqn, moving, wanted, forward)


def _rule_programs(eqn: Any, moving: Flags, wanted: Flags, forward: bool) -> RulePrograms:
    around: list[Any] = []
    program = standing_for(eqn)  # first of all, for it says what cannot be traced
    closed_over, pullback = _traced_pullback(eqn, moving, wanted, around)
    tangent, known = None, len(around)
    if forward and has_own_tangent(eqn):
        tangent = _traced_tangent(eqn, closed_over, around)
    if len(around) > known:
        _, pullback = _traced_pullback(eqn, moving, wanted, around)
    value = _ignoring(program, around)
    fixed = len(around) + closed_over
    if not _has_forward(eqn):
        return RulePrograms(tuple(around), fixed, value, None, 0, pullback, tangent)
    halves = _in_halves(eqn, around, pullback)
    parts = halves.forward, halves.saved, halves.backward
    return RulePrograms(tuple(around), fixed, value, *parts, tangent)


def still_results(eqn: Any, moving: Flags, programs: RulePrograms) -> Flags:
    """Which results have no derivative by a rule in forward mode: adjoints make nothing of theirs.

    A rule in backward mode may give adjoints that no cotangent goes into, and what a function has
    from around it is to be refused, where it moves.
    """
    count = len(eqn.outvars)
    fixed = programs.fixed - len(programs.around)
    if eqn.primitive.name != "custom_jvp_call" or programs.around or any(moving[:fixed]):
        return [False] * count
    jaxpr = programs.pullback.jaxpr
    _, live = needed(jaxpr, [True] * len(jaxpr.outvars))
    cotangents = jaxpr.invars[len(jaxpr.invars) - count :]
    pairs = zip(eqn.outvars, cotangents, strict=True)
    return [can_vary(var.aval) and cotangent not in live for var, cotangent in pairs]


def _traced_pullback(
    eqn: Any, moving: Flags, wanted: Flags, around: list[Any]
) -> tuple[int, core.ClosedJaxpr]:
    """The program of the adjoints, and how many of the first operands its rule does not know.

    Where JAX traces a function anew, it takes what that has from around it for operands, and what
    is left of their number is only that the rule refuses them.
    """
    operands, results = ([var.aval for var in vars] for vars in (eqn.invars, eqn.outvars))
    closed_over = sum(eqn.params.get(name, 0) for name in _NOT_DIFFERENTIATED)
    while True:
        rule = partial(_pullback, eqn, closed_over, moving, wanted)
        try:
            return closed_over, _traced(rule, lambda ins: [*ins, *results], operands, around)
        except Exception as error:
            # JAX has no public name for it.
            if type(error).__name__ != "CustomVJPException" or closed_over == len(operands):
                raise
        closed_over += 1


def _traced_tangent(eqn: Any, closed_over: int, around: list[Any]) -> core.ClosedJaxpr:
    operands = [var.aval for var in eqn.invars]
    rule = partial(_tangent, eqn, closed_over)
    return _traced(rule, lambda ins: [*ins, *filter(can_vary, ins)], operands, around)


def _traced(
    rule: Callable[..., Any],
    inputs: Callable[[Sequence[Any]], Sequence[Any]],
    operands: Sequence[Any],
    around: list[Any],
) -> core.ClosedJaxpr:
    """The program of a rule; arrays that it uses from around it are added to those known."""
    while True:
        avals = inputs([*(value.aval for value in around), *operands])
        program = jax.make_jaxpr(partial(rule, len(around)))(*avals)
        used = [value for value in program.consts if isinstance(value, Tracer)]
        new = [value for value in used if not any(value is known for known in around)]
        if not new:
            return _with_inputs_for(program, around)
        around += new


def _with_inputs_for(program: core.ClosedJaxpr, around: Sequence[Any]) -> core.ClosedJaxpr:
    """A program that is given, as its first inputs, what it uses from around it."""
    jaxpr = program.jaxpr
    pairs = list(zip(jaxpr.constvars, program.consts, strict=True))
    used = {id(value): var for var, value in pairs if isinstance(value, Tracer)}
    kept = [(var, value) for var, value in pairs if id(value) not in used]
    first = [used.get(id(value), var) for var, value in zip(jaxpr.invars, around, strict=False)]
    inputs = [*first, *jaxpr.invars[len(around) :]]
    changed = jaxpr.replace(constvars=[var for var, _ in kept], invars=inputs)
    return core.ClosedJaxpr(changed, [value for _, value in kept])


def _ignoring(program: core.ClosedJaxpr, around: Sequence[Any]) -> core.ClosedJaxpr:
    """A program that takes further inputs before its own, and makes nothing of them."""
    if not around:
        return program
    blank = jax.make_jaxpr(lambda *values: values)(*(value.aval for value in around)).jaxpr
    jaxpr = program.jaxpr.replace(invars=[*blank.invars, *program.jaxpr.invars])
    return core.ClosedJaxpr(jaxpr, program.consts)


def _pullback(
    eqn: Any, closed_over: int, moving: Flags, wanted: Flags, ignored: int, *values: Any
) -> tuple[Any, ...]:
    """From operands and cotangents of an equation to the adjoints of those that can have one.

    Before them stand the results by a rule of `jax.custom_vjp`, and what that keeps for the way
    back.
    """
    count = ignored + len(eqn.invars)
    operands, cotangents = values[ignored:count], values[count:]
    places = [place for place in range(closed_over, len(operands)) if moving[place]]
    function, varied = _of_smooth(eqn, operands, places)
    asked = [want and can_vary(var.aval) for var, want in zip(eqn.outvars, wanted, strict=True)]
    _, pull, results = jax.vjp(partial(_asked, function, asked), *varied, has_aux=True)
    _check_mapped(eqn, results)
    try:
        adjoints = iter(pull(list(compress(cotangents, asked))))
    except NotImplementedError as error:
        if "'stop_gradient'" not in str(error):
            raise
        raise UnsupportedPrimitiveError(
            f"the tangents of `{name_of(standing_for(eqn))}` go through a lax.cond whose condition "
            "jax.vmap maps, and JAX cannot go back through that: write jnp.where in the place of "
            "lax.cond, or lax.map in that of jax.vmap"
        ) from None
    kept = [leaf for leaf in jax.tree.leaves(pull) if isinstance(leaf, jax.Array)]
    first = [*results, *kept] if _has_forward(eqn) else []
    fixed = map(jnp.zeros_like, filter(can_vary, values[:ignored]))
    return (
        *first,
        *fixed,
        *(
            next(adjoints) if place in places else jnp.zeros_like(operand)
            for place, operand in enumerate(operands)
            if can_vary(operand)
        ),
    )


def _asked(
    function: Callable[..., Sequence[Any]], asked: Flags, *varied: Any
) -> tuple[list[Any], Sequence[Any]]:
    """Those results of a function that are asked for, and beside them all, as mere values."""
    results = function(*varied)
    return list(compress(results, asked)), results


def _in_halves(eqn: Any, around: Sequence[Any], pullback: core.ClosedJaxpr) -> Halves:
    """A pullback that gives results first, and behind the rest the adjoints of what can vary."""
    inputs = [*(value.aval for value in around), *(var.aval for var in eqn.invars)]
    first = len(pullback.jaxpr.outvars) - sum(map(can_vary, inputs))
    return in_halves(pullback, len(eqn.outvars), first, len(inputs))


def _has_forward(eqn: Any) -> bool:
    """Whether a rule says what the equation computes where it is differentiated."""
    return bool(eqn.primitive.name == "custom_vjp_call")


def _tangent(eqn: Any, closed_over: int, ignored: int, *values: Any) -> tuple[Any, ...]:
    """From operands of an equation, and tangents of those that can have one, to both results."""
    count = ignored + len(eqn.invars)
    operands, tangents = values[ignored:count], values[count:]
    function, varied = _of_smooth(eqn, operands, range(closed_over, len(operands)))
    results, moved = jax.jvp(function, varied, tangents[len(tangents) - len(varied) :])
    _check_mapped(eqn, results)
    return *results, *map(_plain, moved, results)


def name_of(program: Any) -> str:
    """What a function was called in JAX, as far as a script can write it."""
    name: str = program.jaxpr.debug_info.func_name
    return name if name.isidentifier() else "function"


def _check_mapped(eqn: Any, results: Sequence[Any]) -> None:
    """Refuse a rule that gives other results than its function: `jax.vmap` has mapped it alone."""
    for var, result in zip(eqn.outvars, results, strict=True):
        if var.aval.shape != jnp.shape(result):  # which may be a number of Python
            raise UnsupportedPrimitiveError(
                f"the rule of `{name_of(standing_for(eqn))}` uses an argument that jax.vmap maps, "
                f"and the function itself does not: it gives {var.aval.str_short()}, by the rule "
                f"{jax.typeof(result).str_short()}; let the function use that argument too, as in "
                "`result + 0 * argument`"
            )


def _of_smooth(
    eqn: Any, operands: Sequence[Any], places: Sequence[int]
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """An equation as a function of the operands at some places that can vary, and their values."""
    call = core.jaxpr_as_fun(alone(eqn))
    smooth = [index for index in places if can_vary(operands[index])]

    def function(*varied: Any) -> Any:
        given = dict(enumerate(operands)) | dict(zip(smooth, varied, strict=True))
        return call(*given.values())

    return function, tuple(operands[index] for index in smooth)


def _plain(tangent: Any, result: Any) -> Any:
    """The tangent of a result: zeros of its own dtype where it cannot vary."""
    return tangent if can_vary(result) else jnp.zeros_like(result)
