"""Derivatives of primitives that choose among numbers, for programs that compute numbers twice.

JAX finds what was chosen by comparing: the adjoint of a maximum goes to the elements that equal it.
Where XLA computes these elements anew for the comparison, and rounds otherwise, none equals it, and
the adjoint is lost. To choose is exact: what is chosen of numbers that are computed once is
found again among them. So the primitives that choose are differentiated at such numbers.

Of two numbers, where both are differentiated, the difference is computed once: the adjoint goes to
one of them, or to both in halves, and is never lost.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import starmap
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_derivatives import SymbolicZero
from jax.extend import core

from relaxjax.ir.expr import Constant, Expr, Var, const
from relaxjax.ir.op import GradientRule, get_op
from relaxjax.ir.types import TensorType
from relaxjax.ops.once import computed_once

from .inlining import has_own_rule, open_program
from .jaxprs import jaxpr_and_result

# Of these JAX's own derivative is right at numbers that are computed once. Sorts need none of this:
# no kernel computes what it sorts, so it is stored, and all that sort it read the same.
_AMONG_MANY = frozenset(
    {"reduce_max", "reduce_min", "cummax", "cummin", "scatter-max", "scatter-min"}
)


def gradient_of_chosen(ahead: str, behind: str) -> GradientRule:
    """The gradient rule of `lax.max` or `lax.min`, which choose the number that is `ahead`.

    Equal ones take half of the adjoint each, and so do NaN and whatever stands beside it.
    """

    def gradient(g: Expr, out: Var, x: Expr, y: Expr) -> tuple[Expr, Expr]:
        assert isinstance(g.ty, TensorType)
        zero, half = const(0, g.ty.dtype), get_op("lax.mul")(g, const(0.5, g.ty.dtype))
        if np.issubdtype(g.ty.dtype, np.complexfloating):
            x, y = _ranks(x, y, const(0, np.finfo(np.dtype(g.ty.dtype)).dtype.name))
        elif not isinstance(x, Constant) and not isinstance(y, Constant):
            x, y = get_op("relax.grad.once")(get_op("lax.sub")(x, y)), zero
        of_x, of_y = get_op(ahead)(x, y), get_op(behind)(x, y)
        where = get_op("relax.where")
        return where(of_x, g, where(of_y, zero, half)), where(of_y, g, where(of_x, zero, half))

    return gradient


def _ranks(x: Expr, y: Expr, zero: Expr) -> tuple[Expr, Expr]:
    """Two real numbers that are in the order of two complex ones, the second of them `zero`.

    JAX orders them by their real parts, and where these are equal by their imaginary parts.
    """
    difference = get_op("lax.sub")(x, y)
    real, imag = get_op("lax.real")(difference), get_op("lax.imag")(difference)
    is_equal = get_op("lax.eq")(real, zero)
    return get_op("relax.grad.once")(get_op("relax.where")(is_equal, imag, real)), zero


def choosing_safely(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` of arrays, whose choices are differentiated as the beginning of this file says."""

    def run(*args: Any) -> Any:
        program, result = jaxpr_and_result(function, *args)
        leaves = core.jaxpr_as_fun(with_safe_choices(program))(*jax.tree.leaves(args))
        return jax.tree.unflatten(jax.tree.structure(result), leaves)

    return run


def with_safe_choices(program: Any) -> Any:
    """A jaxpr, closed or open, whose choices have the derivatives of this file; itself without."""
    jaxpr, _ = open_program(program)
    eqns = list(map(_with_rule, jaxpr.eqns))
    if all(new is old for new, old in zip(eqns, jaxpr.eqns, strict=True)):
        return program
    changed = jaxpr.replace(eqns=eqns)
    return changed if program is jaxpr else core.ClosedJaxpr(changed, program.consts)


def _with_rule(eqn: Any) -> Any:
    """An equation that has a rule of this file where it chooses, or where what it runs does."""
    rule = _rule_of(eqn)
    if rule is not None:
        (own,) = jax.make_jaxpr(rule)(*(atom.aval for atom in eqn.invars)).jaxpr.eqns
        return own.replace(invars=eqn.invars, outvars=eqn.outvars)
    if has_own_rule(eqn):
        return eqn
    params = {name: _in_param(value) for name, value in eqn.params.items()}
    if all(params[name] is value for name, value in eqn.params.items()):
        return eqn
    return eqn.replace(params=params)


def _in_param(value: Any) -> Any:
    if isinstance(value, tuple):
        new = tuple(map(_in_param, value))
        return value if all(a is b for a, b in zip(new, value, strict=True)) else new
    return with_safe_choices(value) if hasattr(open_program(value)[0], "eqns") else value


def _rule_of(eqn: Any) -> Callable[..., Any] | None:
    """What computes an equation and has a derivative of this file; None for what needs none."""
    tangent = _TANGENTS.get(eqn.primitive.name)
    if tangent is None or not _is_float(eqn.outvars[0].aval):
        return None
    compute = partial(eqn.primitive.bind, **eqn.params)
    return _with_derivative(compute, partial(tangent, compute))


def _with_derivative(
    compute: Callable[..., Any], tangent: Callable[[Sequence[Any], Sequence[Any]], Any]
) -> Callable[..., Any]:
    function = jax.custom_jvp(lambda *args: compute(*args))
    function.defjvp(
        lambda primals, tangents: (compute(*primals), tangent(primals, tangents)),
        symbolic_zeros=True,
    )
    return function


def _tangent_at_once(
    compute: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]
) -> Any:
    """The tangent by JAX's rule, at floats that are computed once."""
    points = [computed_once(x) if _is_float(x) else x for x in primals]
    given = list(starmap(_spelt_out, zip(tangents, points, strict=True)))
    return jax.jvp(compute, points, given)[1]


def _tangent_of_chosen(
    compute: Callable[..., Any],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    choose: Callable[..., Any],
) -> Any:
    """The sum of the shares that `choose` gives each argument of its tangent."""
    moving = [not isinstance(tangent, SymbolicZero) for tangent in tangents]
    once = computed_once if sum(moving) > 1 else lambda which: which
    shares = choose(*jnp.broadcast_arrays(*primals), once)
    total = None
    for tangent, share in zip(tangents, shares, strict=True):
        if isinstance(tangent, SymbolicZero):
            continue
        part = share(jnp.broadcast_to(tangent, jnp.broadcast_shapes(*map(jnp.shape, primals))))
        total = part if total is None else total + part
    return total


def _tangent_of_remainder(
    compute: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]
) -> Any:
    """By how many times the result took the divisor away, not by a quotient that may be another."""
    (x, y), (of_x, of_y) = primals, map(_spelt_out, tangents, primals)
    return of_x - of_y * lax.round((x - compute(x, y)) / y, lax.RoundingMethod.TO_NEAREST_EVEN)


def _of_two(x: Any, y: Any, once: Callable[[Any], Any], ahead: Callable[..., Any]) -> Any:
    """The shares of `x`, which is chosen where it is `ahead`, and `y`: equal ones take half."""
    difference = once(x - y)
    zero = jnp.zeros_like(difference)
    of_x, of_y = ahead(difference, zero), ahead(zero, difference)
    return partial(_share, of_x, of_y), partial(_share, of_y, of_x)


def _share(mine: Any, others: Any, tangent: Any) -> Any:
    return lax.select(mine, tangent, lax.select(others, jnp.zeros_like(tangent), tangent / 2))


def _of_bounds(low: Any, x: Any, high: Any, once: Callable[[Any], Any]) -> Any:
    """The shares of `x` strictly inside the bounds, and else of the bound that it reached.

    Where the bounds cross, the result is the upper one. NaN has no share, as in JAX: by one, what
    a loss masks behind the clamp would be NaN on its way back.
    """
    over, under = once(low < x), once(x < high)

    def inside(tangent: Any) -> Any:
        return lax.select(over & under, tangent, jnp.zeros_like(tangent))

    def of_low(tangent: Any) -> Any:
        reached = ~over & (low <= high) & (x == x)
        return lax.select(reached, tangent, jnp.zeros_like(tangent))

    def of_high(tangent: Any) -> Any:
        reached = (over & ~under) | (low > high)
        return lax.select(reached, tangent, jnp.zeros_like(tangent))

    return of_low, inside, of_high


def _is_float(x: Any) -> bool:
    return bool(jnp.issubdtype(x.dtype, jnp.floating))


def _spelt_out(tangent: Any, primal: Any) -> Any:
    """A tangent; zeros for none, of the dtype that JAX gives tangents of such a primal."""
    if not isinstance(tangent, SymbolicZero):
        return tangent
    aval: Any = tangent.aval
    return jnp.zeros(primal.shape, aval.dtype)


_TANGENTS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(_AMONG_MANY, _tangent_at_once),
    "max": partial(_tangent_of_chosen, choose=partial(_of_two, ahead=lax.gt)),
    "min": partial(_tangent_of_chosen, choose=partial(_of_two, ahead=lax.lt)),
    "clamp": partial(_tangent_of_chosen, choose=_of_bounds),
    "rem": _tangent_of_remainder,
}
