"""One oracle for the whole table: every operator is tested by its mere existence.

What is inferred is the type of what the lowering returns, for static and for symbolic shapes. The
gradient rule agrees with JAX's own derivative of the lowering, that one with finite differences,
and what the rule emits can be differentiated in its turn, rightly: the latter is found out of each
operator's first samples, and of every one if `RELAXJAX_FULL` is set.
"""

import re
from collections.abc import Callable
from itertools import count, product
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from full import FULL
from operator_evaluation import (
    SYMBOLS,
    adjoint_vars,
    assign,
    bound,
    call_of,
    evaluate,
    fitted,
    has_slope,
    lowered,
    lowered_shapes,
    of_type,
    partials,
    reverse,
)
from operator_sample_table import SAMPLES
from operator_samples import Sample
from quickly_compiled_programs import QUICK

import relaxjax.ops  # noqa: F401  # fills the table of operators
from relaxjax.ir import Call, Expr, ObjectType, ShapeType, TensorType, Tuple, TupleType, Type, Var
from relaxjax.ir.op import OPS, ZERO_GRADIENT, arguments, get_op
from relaxjax.ir.walk import substitute_type
from relaxjax.ops.declare import OpError

pytestmark = pytest.mark.usefixtures("in_64_bits")

# What takes functions has tests of its own: `test_loops.py`, `test_gradient_loops.py` and
# `test_closures.py`.
OPERATORS = sorted(
    name
    for name, op in OPS.items()
    if name.startswith("relax.")
    and not {"loop", "higher_order", "communicates", "local_view"} & set(op.facts)
)
CASES = [
    pytest.param(name, sample, id=f"{name}-{index}")
    for name in OPERATORS
    for index, sample in enumerate(SAMPLES.get(name, []))
]
# Operators whose result has a shape that depends on values.
DYNAMIC = {"relax.dynamic_strided_slice", "relax.unique", "relax.nonzero", "relax.tensor_to_shape"}


@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_has_samples(name: str) -> None:
    assert SAMPLES.get(name), f"operator_sample_table has no sample of {name}"


def _is_known(ty: Type | None) -> bool:
    """Whether a type leaves no shape open."""
    match ty:
        case TupleType(fields=fields):
            return all(map(_is_known, fields))
        case TensorType():
            return ty.dims is not None and ty.dtype is not None
        case _:
            return True


@pytest.mark.parametrize(("name", "sample"), CASES)
def test_what_is_inferred_is_what_the_lowering_returns(name: str, sample: Sample) -> None:
    call, arrays = call_of(get_op(name), sample)
    result = lowered_shapes(call, arrays)
    assert of_type(call.ty, result), f"{call.ty} inferred, {result} returned"
    assert name in DYNAMIC or _is_known(call.ty)


@pytest.mark.parametrize(("name", "sample"), CASES)
def test_what_is_inferred_of_symbolic_shapes_holds_for_their_values(
    name: str, sample: Sample
) -> None:
    static, _ = call_of(get_op(name), sample)
    symbolic, _ = call_of(get_op(name), sample, symbolic=True)
    assert symbolic.ty is not None
    values = {symbol: length for length, symbol in SYMBOLS.items()}
    assert _as_good(substitute_type(symbolic.ty, values), static.ty)


def _as_good(found: Type | None, static: Type | None) -> bool:
    """Whether a type says of shapes as much as another, or nothing; and of the rest the same."""
    match found, static:
        case TupleType(fields=some), TupleType(fields=others):
            return len(some) == len(others) and all(map(_as_good, some, others))
        case TensorType(), TensorType() if found.dims is None:
            return found.dtype == static.dtype and found.ndim in (-1, static.ndim)
        case ShapeType(), ShapeType() if found.values is None:
            return True
        case _:
            return found == static


# What less may be said of a tensor.
LESS: dict[str, Callable[[TensorType], TensorType]] = {
    "sizes": lambda ty: TensorType(None, ty.dtype, ty.ndim),
    "rank": lambda ty: TensorType(None, ty.dtype),
    "dtype": lambda ty: TensorType(ty.dims, None),
}
# What is not known may be needed, and what is taken to be so is checked when a program runs.
NEEDED = r"must have a known dtype|has a dimension to infer \(-1 or 0\)"
TAKEN_TO_BE = {("relax.squeeze", "sizes"): "each of the axes to be of length 1"}


@pytest.mark.parametrize(("name", "sample"), CASES)
def test_what_is_inferred_where_less_is_known_of_an_argument_holds(
    name: str, sample: Sample
) -> None:
    call, arrays = call_of(get_op(name), sample)
    for (what, less), place in product(LESS.items(), range(len(arrays))):
        places = count()

        def typed(ty: TensorType) -> TensorType:
            return less(ty) if next(places) == place else ty  # noqa: B023  # called at once

        try:
            other, _ = call_of(get_op(name), sample, typed=typed)
        except OpError as error:
            if re.search(NEEDED, str(error)) is None:
                raise
            continue
        if (name, what) not in TAKEN_TO_BE:
            assert _says_no_more(other.ty, call.ty), f"{other.ty}, without the {what} of {place}"


def _says_no_more(found: Type | None, static: Type | None) -> bool:
    """Whether a type says nothing that another does not."""
    match found, static:
        case TupleType(fields=some), TupleType(fields=others):
            return len(some) == len(others) and all(map(_says_no_more, some, others))
        case TensorType(), TensorType():
            return (
                found.dtype in (None, static.dtype)
                and found.ndim in (-1, static.ndim)
                and found.dims in (None, static.dims)
            )
        case ShapeType(), ShapeType():
            return found.ndim in (-1, static.ndim) and found.values in (None, static.values)
        case _:
            return found == static or found == ObjectType()


DIFFERENTIABLE = [
    case
    for case in CASES
    if get_op(str(case.values[0])).gradient not in (None, ZERO_GRADIENT)
    and isinstance(case.values[1], Sample)
    and case.values[1].smooth
]


@pytest.mark.parametrize(("name", "sample"), DIFFERENTIABLE)
def test_gradients(name: str, sample: Sample) -> None:
    """First order against JAX and finite differences; second order against JAX."""
    call, arrays = call_of(get_op(name), sample)
    values = [jnp.asarray(a.value(sample.seed(i))) for i, a in enumerate(arrays.values())]
    active = [var for var in arrays if has_slope(var.ty)]

    def checks(values: list[Any]) -> dict[str, tuple[Any, Any]]:
        place = SAMPLES[name].index(sample)
        return _checks(call, dict(zip(arrays, values, strict=True)), active, sample, place)

    for title, (found, expected) in jax.jit(checks, compiler_options=QUICK)(values).items():
        chex.assert_trees_all_close(
            found, expected, rtol=1e-4, atol=1e-6, custom_message=f"{name}: {title}"
        )


def _checks(
    call: Call, inputs: dict[Var, Any], active: list[Var], sample: Sample, place: int
) -> dict[str, tuple[Any, Any]]:
    """Pairs that must agree. The samples after an operator's first ones are checked for less."""

    def function(*xs: Any) -> Any:
        return _floats_of(lowered(call, inputs | dict(zip(active, xs, strict=True))))

    xs = [inputs[var] for var in active]
    if not xs:
        return {}
    outs, pullback = jax.vjp(function, *xs)
    cotangents = [_spread(out.shape, out.dtype, 1 + i) for i, out in enumerate(outs)]
    expected = pullback(cotangents)
    memo: dict[int, Any] = {}
    seeds = _seeds(evaluate(call, inputs, memo), cotangents)
    adjoints = reverse(call, seeds, inputs, memo)
    found = [adjoints.get(var, jnp.zeros_like(inputs[var])) for var in active]
    checks: dict[str, tuple[Any, Any]] = {"first order": (found, list(expected))}
    directions = [_spread(x.shape, x.dtype, 11 + i) for i, x in enumerate(xs)]
    if place < 1 and all(x.dtype == jnp.float64 for x in (*xs, *outs)):
        checks["finite differences"] = (
            sum(jnp.sum(e * d) for e, d in zip(expected, directions, strict=True)),
            _difference(function, xs, directions, cotangents),
        )
    if FULL or (place < 2 and sample.second_order):
        checks["second order"] = _second_order(call, inputs, active, cotangents, directions, memo)
    return checks


def _floats_of(result: Any) -> list[Any]:
    return [leaf for leaf in jax.tree.leaves(result) if jnp.issubdtype(leaf.dtype, jnp.floating)]


def _spread(shape: Any, dtype: Any, seed: int) -> Any:
    return jnp.asarray(np.random.default_rng(seed).uniform(-1, 1, shape), dtype)


def _seeds(result: Any, cotangents: list[Any]) -> Any:
    """The cotangents in the structure of the result, zeros for what has no derivative."""
    given = iter(cotangents)
    return jax.tree.map(
        lambda leaf: (
            next(given) if jnp.issubdtype(leaf.dtype, jnp.floating) else jnp.zeros_like(leaf)
        ),
        result,
    )


def _emitted(call: Call) -> tuple[list[Expr | None], Var, Expr]:
    out, g = bound(call), adjoint_vars(call.ty)
    return partials(call, out, g), out, g


def _difference(function: Any, xs: list[Any], directions: list[Any], cotangents: list[Any]) -> Any:
    """The directional derivative of <cotangents, function>, by central differences."""
    step = 1e-6

    def along(t: float) -> Any:
        moved = [x + t * d for x, d in zip(xs, directions, strict=True)]
        return sum(jnp.sum(o * c) for o, c in zip(function(*moved), cotangents, strict=True))

    return (along(step) - along(-step)) / (2 * step)


def _second_order(
    call: Call,
    inputs: dict[Var, Any],
    active: list[Var],
    cotangents: list[Any],
    directions: list[Any],
    memo: dict[int, Any],
) -> tuple[Any, Any]:
    """The derivative of <directions, first derivative>: by the emitted calls' rules, and JAX's.

    `memo` has the values of the call and its parts.
    """
    emitted, out, g = _emitted(call)
    args = arguments(call)[0]
    weights = dict(zip(active, directions, strict=True))
    env = dict(inputs)
    result = memo[id(call)]
    assign(out, result, env)
    assign(g, _seeds(result, cotangents), env)
    emitted_memo: dict[int, Any] = {}
    totals: dict[Var, Any] = {}
    for arg, partial in zip(args, emitted, strict=True):
        if partial is None or arg is None or not has_slope(arg.ty):
            continue
        seed = _pulled_up(weights, arg, evaluate(partial, env, emitted_memo), env)
        for var, adjoint in reverse(partial, seed, env, emitted_memo).items():
            totals[var] = totals[var] + adjoint if var in totals else adjoint
    if out in totals:
        back = reverse(call, _seeds(result, _floats_of(totals.pop(out))), inputs, memo)
        for var, adjoint in back.items():
            totals[var] = totals[var] + adjoint if var in totals else adjoint

    def first(*xs: Any) -> Any:
        def function(*ys: Any) -> Any:
            return _floats_of(lowered(call, inputs | dict(zip(active, ys, strict=True))))

        _, pullback = jax.vjp(function, *xs)
        pulled = pullback(cotangents)
        return sum(
            jnp.sum(d * a).astype(jnp.float64) for d, a in zip(directions, pulled, strict=True)
        )

    expected = jax.grad(first, tuple(range(len(active))))(*(inputs[var] for var in active))
    return [totals.get(var, jnp.zeros_like(inputs[var])) for var in active], list(expected)


def _pulled_up(weights: dict[Var, Any], arg: Expr, partial: Any, env: dict[Var, Any]) -> Any:
    """The weights of an argument's elements, repeated to the shape that its partial has."""

    def function(value: Any) -> Any:
        return fitted(value, evaluate(arg, env))

    direction = _weights_of(weights, arg, env)
    _, pullback = jax.vjp(function, partial)
    return pullback(direction)[0]


def _weights_of(weights: dict[Var, Any], arg: Expr, env: dict[Var, Any]) -> Any:
    if isinstance(arg, Tuple):
        return tuple(_weights_of(weights, item, env) for item in arg.fields)
    assert isinstance(arg, Var)
    return weights[arg] if arg in weights else jnp.zeros_like(env[arg])
