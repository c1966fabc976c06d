"""Trying functions out: random arguments for them, and the numbers that come out compared."""

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from relaxjax.ir.dims import Dim, SymbolicVar
from relaxjax.ir.expr import Var, np_dtype
from relaxjax.ir.types import ShapeType, TensorType, TupleType, Type, is_float
from relaxjax.ops.lax import evaluate_dim, x64_enabled

# How far two ways of computing the same in a dtype may lie apart, relative to the largest number.
TOLERANCE = {"float64": 1e-9, "float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1}
# Rounding on the way counts for more than that of the arguments; but a wrong number is no rounding.
_NOISES, _MOST_NOISE = 32, 0.05
# What JAX says where it has no derivative, beside what it raises for that.
_HAS_NONE = ("Reverse-mode differentiation does not work", "is not supported")


def random_arguments(params: Sequence[Var], seed: int) -> tuple[Any, ...]:
    """An argument for each parameter: floats near 1, integers and bools of 0 and 1.

    Symbolic dimensions are 2, 3 and so on, in order of appearance.
    """
    random = np.random.default_rng(seed)
    sizes: dict[SymbolicVar, int] = {}

    def size(dim: Dim) -> int:
        return int(evaluate_dim(dim, lambda var: sizes.setdefault(var, len(sizes) + 2)))

    def argument(name: str, ty: Type | None) -> Any:
        match ty:
            case TupleType(fields=fields):
                return tuple(argument(name, item) for item in fields)
            case ShapeType(values=tuple() as dims):
                return tuple(map(size, dims))
            case TensorType(dtype=str() as dtype) if ty.dims is not None:
                shape = tuple(map(size, ty.dims))
                floats = is_float(dtype)
                drawn = random.uniform(0.5, 1.5, shape) if floats else random.integers(0, 2, shape)
                return np.asarray(drawn, np_dtype(dtype))
        raise TypeError(
            f"no argument can be made up for the parameter `{name}` of type {ty}: give `args`"
        )

    return tuple(argument(param.name, param.ty) for param in params)


def spread_like(tree: Any, start: int = 0) -> Any:
    """Numbers of both signs, no two alike, in the place of each float; zeros for all else."""

    def spread(leaf: Any) -> Any:
        wave = np.cos(np.arange(start, start + np.size(leaf))).reshape(np.shape(leaf))
        floats = is_float(str(leaf.dtype))
        return np.asarray(wave if floats else np.zeros_like(wave), leaf.dtype)

    return jax.tree.map(spread, tree)


def difference(
    found: Any, expected: Any, least: float = 0.0, dtypes: Collection[str] = ()
) -> str | None:
    """What tells two trees of arrays apart; None where it is no more than rounding.

    The largest number is taken to be `least` at least: what was rounded may have been as large.
    `dtypes` are those of floats that were rounded on the way, beside those of the arrays.
    """
    pairs = _float_pairs(found, expected)
    scale = max((_largest(e, least) for _, e in pairs), default=0.0)
    for one, other in pairs:
        limit = max(_limit(dtype, scale) for dtype in {str(other.dtype), *dtypes})
        if (apart := _apart(one, other, limit)) is not None:
            return apart
    return None


def derivative_difference(
    found: Any,
    expected: Any,
    derivative: Callable[..., Any],
    at: Sequence[Any],
    dtypes: Collection[str] = (),
) -> str | None:
    """What tells derivatives apart from those expected, which are `derivative(*at)`.

    Each array is compared on its own scale. Where that says too much, numbers may lie as far apart
    as they move with the arguments `at`, directions included, where those move by their rounding;
    but no large part of either.
    """
    pairs = _float_pairs(found, expected)
    if not any(_apart(a, b, _own_limit(b, dtypes)) for a, b in pairs):
        return None
    whole = max((_largest(other, 0.0) for _, other in pairs), default=0.0)
    for (one, other), noise in zip(pairs, _noises(derivative, at, expected, dtypes), strict=True):
        most = max(_MOST_NOISE * _largest(other, 0.0), _tolerance(other, dtypes) * whole)
        limit = _own_limit(other, dtypes) + min(_NOISES * noise, most)
        if (apart := _apart(one, other, limit)) is not None:
            return apart
    return None


def _float_pairs(found: Any, expected: Any) -> list[tuple[Any, Any]]:
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    return [pair for pair in pairs if is_float(str(pair[1].dtype))]


def _apart(one: Any, other: Any, limit: float) -> str | None:
    """Where two arrays lie farthest apart, if that is beyond a limit."""
    if np.shape(one) != np.shape(other):
        return f"found the shape {np.shape(one)}, expected {np.shape(other)}"
    far = _distances(_wide(one), _wide(other))
    if np.all(far <= limit):
        return None
    worst = np.unravel_index(np.argmax(np.where(np.isnan(far), np.inf, far)), far.shape)
    place = f" at {tuple(map(int, worst))}" if worst else ""
    return f"found {_wide(one)[worst]:.8g}, expected {_wide(other)[worst]:.8g}{place}"


def _own_limit(array: Any, dtypes: Collection[str]) -> float:
    """How far from an array's numbers others may lie that were rounded as they were."""
    scale = _largest(array, 0.0)
    return max(_limit(dtype, scale) for dtype in {str(array.dtype), *dtypes})


def _tolerance(array: Any, dtypes: Collection[str]) -> float:
    return max(TOLERANCE.get(dtype, 1e-1) for dtype in {str(array.dtype), *dtypes})


def _noises(
    derivative: Callable[..., Any], at: Sequence[Any], expected: Any, dtypes: Collection[str]
) -> list[float]:
    """How far each array of floats moves where the arguments move by their rounding."""
    found = {str(leaf.dtype) for leaf in jax.tree.leaves(at)} | set(dtypes)
    epsilon = max((epsilon_of(dtype) for dtype in found if is_float(dtype)), default=0.0)
    random, noises = np.random.default_rng(0), [0.0] * len(_float_pairs(expected, expected))

    def moved(leaf: Any) -> Any:
        signs = random.choice([-1.0, 1.0], np.shape(leaf))
        return np.asarray(_wide(leaf) * (1 + epsilon * signs), leaf.dtype)

    for _ in range(2):
        pairs = _float_pairs(derivative(*jax.tree.map(moved, list(at))), expected)
        distances = [_distances(_wide(one), _wide(other)) for one, other in pairs]
        noises = [
            max(noise, _largest(far, 0.0)) for noise, far in zip(noises, distances, strict=True)
        ]
    return noises


def apart_from_jax(
    found: Any, derivative: Callable[..., Any], at: Sequence[Any], dtypes: Collection[str] = ()
) -> str | None:
    """What tells derivatives apart from those that JAX has; None where that has none."""
    expected = as_far_as_jax_can(lambda: derivative(*at))
    if expected is None:
        return None
    return derivative_difference(found, expected, derivative, at, dtypes)


def as_far_as_jax_can(derivative: Callable[[], Any]) -> Any:
    """A derivative by JAX; None where it has none of some primitive."""
    try:
        return derivative()
    except NotImplementedError:
        return None
    except ValueError as error:  # of a loop without end, or by an order, as that of polygamma
        if not any(said in str(error) for said in _HAS_NONE):
            raise
        return None


def _largest(array: Any, least: float) -> float:
    wide = np.abs(_wide(array))
    return float(np.max(wide, initial=least, where=np.isfinite(wide)))


def _distances(one: Any, other: Any) -> Any:
    """How far numbers lie apart: not at all where both are NaN, or the same infinity."""
    with np.errstate(invalid="ignore"):
        is_same = (one == other) | (np.isnan(one) & np.isnan(other))
        return np.where(is_same, 0.0, np.abs(one - other))


def _limit(dtype: str, scale: float) -> float:
    """How far numbers that were rounded to a dtype may lie apart.

    What should be 0 may lie some way from it where numbers near 1 are summed up.
    """
    tolerance = TOLERANCE.get(dtype, 1e-1)
    return tolerance * scale + min(tolerance, 64 * epsilon_of(dtype))


def epsilon_of(dtype: str) -> float:
    """The distance from 1 to the next number of a dtype."""
    return float(jnp.finfo(dtype).eps)  # type: ignore[no-untyped-call]  # jax gives it no types


def inner(lhs: Any, rhs: Any) -> float:
    """The inner product of two trees of arrays, over their floats."""
    pairs = zip(jax.tree.leaves(lhs), jax.tree.leaves(rhs), strict=True)
    with np.errstate(invalid="ignore"):  # where the numbers are infinite, it is NaN
        return float(sum(np.sum(_wide(a) * _wide(b)) for a, b in pairs if is_float(str(a.dtype))))


def inner_size(lhs: Any, rhs: Any) -> float:
    """How large the numbers are that an inner product adds up: the sum of the finite ones."""

    def size(leaf: Any) -> Any:
        wide = np.abs(_wide(leaf))
        return np.where(np.isfinite(wide), wide, 0.0) if is_float(str(leaf.dtype)) else leaf

    return inner(jax.tree.map(size, lhs), jax.tree.map(size, rhs))


def all_float(ty: Type | None) -> bool:
    """Whether values of a type are tensors of floats, or tuples of such."""
    if isinstance(ty, TupleType):
        return bool(ty.fields) and all(map(all_float, ty.fields))
    return isinstance(ty, TensorType) and is_float(ty.dtype)


def wide_enough_for(args: Any) -> AbstractContextManager[Any]:
    """The context in which JAX keeps the dtypes of all arrays among `args`."""
    dtypes = {str(leaf.dtype) for leaf in jax.tree.leaves(args)}
    wide = not dtypes.isdisjoint(("float64", "int64", "uint64", "complex128"))
    context: AbstractContextManager[Any] = jax.enable_x64(x64_enabled() or wide)
    return context


def _wide(array: Any) -> Any:
    return np.asarray(array, "float64")
