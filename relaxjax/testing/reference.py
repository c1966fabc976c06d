"""What a gradient must come out as, and how far rounding may move it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np

from relaxjax.lowering import to_jax
from relaxjax.lowering.trial import as_far_as_jax_can, epsilon_of, inner, inner_size

from .differences import Slope, slope_at_zero, turn_at_zero
from .equations import traced
from .rounding import Rounded, in_dtype, in_floats, moved
from .subject import Subject

# How often results are computed with a rounding of its own, how often before something is said to
# be wrong, because a rare rounding turns a decision; and how much farther than the farthest of them
# others may lie.
_SAMPLES, _MANY, _ROOM = 4, 48, 4
# Beside that, so many units in the last place of the largest number of an array.
_UNITS = 8
# Where rounding moves numbers by more than this share of the largest, it may turn a decision.
_LOOSE = 0.02
# By this share arguments are moved from where two of them tie.
_OFF_TIES = 1e-3
# How far a gradient may be off a slope by differences, as a share of what the slope adds up; what
# is estimated of the slope's own error may be too little, and one that has more is no slope.
_SLOPE, _ERRORS, _ROUGH = 1e-6, 10, 1e-3


class Reference:
    """The results and gradients of a subject by JAX, equation by equation in float64.

    What looks at the bits of its floats has them in its own dtype.
    """

    def __init__(self, subject: Subject, dtype: str, seed: int = 0) -> None:
        mod = in_dtype(subject.mod, "float64")
        self.epsilon, self.seed, self.is_wide = epsilon_of(dtype), seed, mod is not None
        self.samples, self.moves = _SAMPLES, list[list[float]]()
        self.twin = subject
        if mod is not None and mod is not subject.mod:
            args = in_floats(subject.args, "float64")
            self.twin = Subject(mod, subject.name, mod[subject.name], args)
            self.twin.u = in_floats(subject.u, "float64")  # as it was rounded

    @cached_property
    def forward(self) -> Any:
        """The targets, for the floats."""
        return traced(self.twin.forward, *self.twin.floats)

    @cached_property
    def derived(self) -> Any:
        """The targets and their gradients by JAX; None where it has none."""

        def derived(*floats: Any) -> Any:
            value, pullback = jax.vjp(self.twin.forward, *floats)
            return value, pullback(self.twin.u)

        return as_far_as_jax_can(lambda: traced(derived, *self.twin.floats))

    @cached_property
    def written(self) -> Any:
        """The same as `Gradient` writes them."""
        twin = self.twin
        adjoint, rest = to_jax(twin.adjoint, twin.adjoint_name), twin.adjoint_args[len(twin.args) :]

        def written(*floats: Any) -> Any:
            result, gradients = adjoint(*twin.with_floats(floats), *rest)
            return twin.chosen(result), gradients

        return traced(written, *twin.floats)

    @cached_property
    def expected(self) -> list[Any]:
        """What must come out: as `Gradient` writes it where JAX agrees up to rounding, else JAX's.

        But where two numbers tie, JAX hands adjoints on otherwise. Some ties go where arguments
        move a little. Others stay: of a number that is clamped twice JAX hands the adjoint to
        neither operand, and a slope tells who is right, also where rounding would move the one to
        the other.
        """
        if self.derived is None or self._jax_is_off_the_slope():
            return self.exact
        is_written = self._difference is None or self._agree_beside()
        return self.exact if is_written else self._by_jax

    @cached_property
    def exact(self) -> list[Any]:
        return jax.tree.leaves(self.written(*self.twin.floats))

    @cached_property
    def _by_jax(self) -> list[Any]:
        return jax.tree.leaves(self.derived(*self.twin.floats))

    def fault(self) -> str | None:
        """What tells the gradient that `Gradient` writes from JAX's, or from a slope.

        Where one tie hangs on another, the halves that both hand on may lie outside of all slopes
        at that point. Then the slopes at points beside it count, where nothing ties.
        """
        if self.expected is not self.exact and self._difference is not None:
            return f"{self._difference} by JAX"
        fault = self._off_slope(self.expected)
        return None if fault is not None and self._is_on_slopes_beside() else fault

    @cached_property
    def _difference(self) -> str | None:
        return self._differ(self.exact, self._by_jax)

    def _differ(self, written: Sequence[Any], derived: Sequence[Any]) -> str | None:
        """What tells the gradients that `Gradient` and JAX write apart."""
        # To ask what rounding moves takes many runs, and mostly they agree without.
        least = [self._share * limit for limit in self._least_limits]
        if first_apart(written, derived, least) is None:
            return None
        pairs = zip(self.limits, self._noises_by_jax, strict=True)
        limits = [self._share * (limit + _ROOM * noise) for limit, noise in pairs]
        return first_apart(written, derived, limits)

    @property
    def _share(self) -> float:
        """How much of what rounding moves there is where it is compared, equation by equation."""
        return max(epsilon_of("float64" if self.is_wide else "float32") / self.epsilon, 1e-7)

    def _agree_beside(self) -> bool:
        """Whether they agree at arguments that are a little off."""
        both = (
            [jax.tree.leaves(way(*floats)) for way in (self.written, self.derived)]
            for floats in self._beside
        )
        return all(self._differ(*pair) is None for pair in both)

    @property
    def _beside(self) -> Iterator[Any]:
        """Floats that are a little off those of the arguments."""
        return (moved(self.twin.floats, _OFF_TIES, seed) for seed in (1, 2))

    def _is_on_slopes_beside(self) -> bool:
        """Whether JAX agrees here, and there are slopes at arguments a little off, as written."""
        if self.derived is None or self._difference is not None:
            return False
        twins = (replace(self.twin, args=tuple(self.twin.with_floats(x))) for x in self._beside)
        others = [Reference(twin, "float64") for twin in twins]
        return all(one._slope is not None and one._off_slope(one.exact) is None for one in others)

    def _jax_is_off_the_slope(self) -> bool:
        """Whether a slope by differences is that of `Gradient`, and not that of JAX."""
        return self._off_slope(self.exact) is None and self._off_slope(self._by_jax) is not None

    def _along(self, distance: float) -> float:
        """The targets at a distance from the arguments, each as much as its cotangent says."""
        at = self.twin.floats, self.twin.v
        there = jax.tree.map(lambda x, v: x + np.asarray(distance, x.dtype) * v, *at)
        return inner(self.forward(*there), self.twin.u)

    @cached_property
    def _slope(self) -> Slope | None:
        """Their slope by differences, where the function is smooth."""
        size = inner_size(self.forward(*self.twin.floats), self.twin.u)
        slope = slope_at_zero(self._along, epsilon_of("float64"), size, _SLOPE)
        is_known = self.is_wide and slope.error <= _ROUGH * abs(slope.value)
        return slope if is_known else None

    def _off_slope(self, results: Sequence[Any]) -> str | None:
        """What tells gradients from the slope, if it is known."""
        slope, flat = self._slope, jax.tree.leaves(self.twin.v)
        if slope is None:
            return None
        gradients = results[-len(flat) :]
        found, whole = inner(gradients, flat), inner_size(gradients, flat)
        far = abs(found - slope.value)
        if far <= _ERRORS * slope.error + _SLOPE * whole:
            return None
        if far <= turn_at_zero(self._along, epsilon_of("float64")):
            return None
        moves = map(np.full_like, flat, self.limits[-len(flat) :])
        if far <= self._share * inner_size([*moves], flat):
            return None
        return f"along a direction it is {found:.6g}, finite differences say {slope.value:.6g}"

    @property
    def noises(self) -> list[float]:
        """How far each array moves where each equation is rounded: without bound if to NaN."""
        while len(self.moves) < self.samples:
            self.moves.append(self._moves(self.written, self.exact, len(self.moves)))
        return list(map(max, zip(*self.moves, strict=True)))

    @cached_property
    def _noises_by_jax(self) -> list[float]:
        """The same of the gradients that JAX writes."""
        moves = (self._moves(self.derived, self._by_jax, number) for number in range(_SAMPLES))
        return list(map(max, zip(*moves, strict=True)))

    def _moves(self, way: Any, exact: Sequence[Any], number: int) -> list[float]:
        rounding = Rounded(self.epsilon, self.seed + number)
        found = jax.tree.leaves(way(*rounding.all(self.twin.floats), rounding=rounding))
        far = map(_distances, found, exact)
        return [float(np.max(array, initial=0.0)) for array in far]

    @property
    def limits(self) -> list[float]:
        """How far each array may lie from what is expected."""
        pairs = zip(self.noises, self._least_limits, strict=True)
        return [_ROOM * noise + least for noise, least in pairs]

    @cached_property
    def _least_limits(self) -> list[float]:
        """The same, were rounding to move nothing.

        Of an array of zeros, rounding may leave as much as of the others, or of the arguments: in
        `relu(x - max(x))` XLA may compute `x` twice.
        """
        tiny = float(jnp.finfo("float32").tiny)  # type: ignore[no-untyped-call]  # JAX has no types
        sizes = [*map(_largest, self.exact)]
        most = max(sizes) or max(map(_largest, jax.tree.leaves(self.twin.floats)), default=0.0)
        return [_UNITS * self.epsilon * (size or most) + tiny for size in sizes]

    @cached_property
    def is_loose(self) -> bool:
        """Whether rounding alone explains a large part of some array."""
        pairs = zip(self.noises, map(_largest, self.expected), strict=True)
        return any(not noise <= _LOOSE * size for noise, size in pairs)

    def apart(self, found: Any) -> str | None:
        """What tells results and gradients from those expected, beyond rounding."""
        leaves = jax.tree.leaves(found)
        if first_apart(leaves, self.expected, self.limits) is None:
            return None
        self.samples = _MANY
        return first_apart(leaves, self.expected, self.limits)

    def error(self, found: Any) -> float:
        """The largest distance, as a share of what is allowed."""
        triples = zip(jax.tree.leaves(found), self.expected, self.limits, strict=True)
        return max(_largest(_distances(one, other)) / limit for one, other, limit in triples)


def first_apart(
    found: Sequence[Any], expected: Sequence[Any], limits: Sequence[float]
) -> str | None:
    """Where the first two arrays that lie too far apart do so most, or are of other shapes."""
    try:
        chex.assert_trees_all_equal_shapes(list(found), list(expected))
    except AssertionError as error:
        _, _, told = str(error).partition("failed: ")
        return f"the results are of other shapes: {' '.join(told.split())}"
    for number, (one, other, limit) in enumerate(zip(found, expected, limits, strict=True)):
        far = _distances(one, other)
        if np.all(far <= limit):
            continue
        worst = np.unravel_index(np.argmax(far), far.shape)
        place = f"[{', '.join(map(str, worst))}]" if worst else ""
        here, there = (np.asarray(array, "float64")[worst] for array in (one, other))
        return f"result {number}{place} is {here:.6g}, not {there:.6g} (rounding: {limit:.1g})"
    return None


def _distances(one: Any, other: Any) -> Any:
    """How far numbers lie apart: not at all where both are NaN, or the same infinity."""
    one, other = np.asarray(one, "float64"), np.asarray(other, "float64")
    with np.errstate(invalid="ignore"):
        is_same = (one == other) | (np.isnan(one) & np.isnan(other))
        far = np.where(is_same, 0.0, np.abs(one - other))
        return np.where(np.isnan(far), np.inf, far)


def _largest(array: Any) -> float:
    wide = np.abs(np.asarray(array, "float64"))
    return float(np.max(wide, initial=0.0, where=np.isfinite(wide)))
