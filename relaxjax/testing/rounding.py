"""A module's programs in other dtypes of floats, and with the rounding of other machines."""

import re
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from relaxjax.ir.expr import Call, np_dtype
from relaxjax.ir.module import IRModule
from relaxjax.ir.tensor_types import known_dtype
from relaxjax.ir.types import is_float, is_key
from relaxjax.ir.walk import post_order
from relaxjax.script import ScriptError, from_source

_FLOATS = re.compile('"(?:bfloat16|float16|float32|float64)"')
# What is exact whatever a machine rounds to.
_EXACT = np.asarray([0.0, 1.0, -1.0])


def dtypes_of(mod: IRModule) -> set[str]:
    """The dtypes of floats that a module names."""
    return {found.strip('"') for found in _FLOATS.findall(str(mod.script()))}


def widest_of(mod: IRModule) -> str:
    """The widest dtype of floats that a module names."""
    return max(dtypes_of(mod), key=lambda dtype: np_dtype(dtype).itemsize)


def in_dtype(mod: IRModule, dtype: str) -> IRModule | None:
    """A module that computes in another dtype of floats; None where it looks at their bits.

    A module's text says all its dtypes. Random numbers are made of bits, others in each dtype. What
    has no other dtype is taken to be in the widest that it has.
    """
    if dtypes_of(mod) <= {dtype}:
        return mod
    as_it_is = mod if dtype == widest_of(mod) else None
    if _draws_floats(mod):
        return as_it_is
    try:
        found = from_source(_FLOATS.sub(f'"{dtype}"', str(mod.script())))
    except ScriptError:
        return as_it_is
    assert isinstance(found, IRModule)
    return found


def _draws_floats(mod: IRModule) -> bool:
    """Whether a call takes a random key and has to do with floats."""
    calls = (
        part
        for function in mod.relax_functions().values()
        for part in post_order(function)
        if isinstance(part, Call)
    )
    return any(
        any(is_key(dtype) for dtype in dtypes) and any(map(is_float, dtypes))
        for dtypes in ([known_dtype(one) or "" for one in (*call.args, call)] for call in calls)
    )


def in_floats(tree: Any, dtype: str) -> Any:
    """A tree with its floats in another dtype."""

    def cast(leaf: Any) -> Any:
        return np.asarray(leaf).astype(np_dtype(dtype)) if _has_floats(leaf) else leaf

    return jax.tree.map(cast, tree)


def moved(tree: Any, share: float, seed: int) -> Any:
    """A tree with its floats a little off, each by its own `share`; small ones by one of 1."""
    random = np.random.default_rng(seed)

    def other(leaf: Any) -> Any:
        if not _has_floats(leaf):
            return leaf
        off = share * random.uniform(-1, 1, np.shape(leaf))
        return np.asarray(leaf + off * np.maximum(np.abs(leaf), 1), leaf.dtype)

    return jax.tree.map(other, tree)


class Rounded:
    """Rounds as a machine might that keeps numbers to within `epsilon` of them.

    It rounds what equations compute, and leaves what they only choose among their operands.
    """

    def __init__(self, epsilon: float, seed: int) -> None:
        self.epsilon = epsilon
        self.random = np.random.default_rng(seed)

    def __call__(self, results: Sequence[Any], operands: Sequence[Any] = ()) -> list[Any]:
        floats = [np.ravel(array) for array in operands if _has_floats(array)]
        exact = np.concatenate([_EXACT, *floats])
        return [self._rounded(x, exact) if _has_floats(x) else x for x in results]

    def all(self, tree: Any) -> Any:
        """The numbers of a tree, as if each had been computed."""
        return jax.tree.map(lambda leaf: self([leaf])[0], tree)

    def _rounded(self, array: Any, exact: Any) -> Any:
        off = self.epsilon * self.random.uniform(-1, 1, np.shape(array))
        is_kept = np.isin(array, exact) | ~np.isfinite(array)
        with np.errstate(invalid="ignore"):
            rounded = np.where(is_kept, array, array + array * off)
        return np.asarray(rounded, array.dtype)


def _has_floats(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") and is_float(str(leaf.dtype))
