"""Mapped axes over which arrays vary: inside of `jax.shard_map`, JAX has them in types.

There a primitive takes only operands that vary over the same axes. A program of the IR knows of no
axes, so all of its values vary over those over which any of its arguments does.
"""

from typing import Any

import jax
import numpy as np
from jax import lax


def varying_axes(arrays: Any) -> frozenset[str]:
    """The axes over which any of some arrays varies."""
    return frozenset().union(*map(_axes, jax.tree.leaves(arrays)))


def vary_over(axes: frozenset[str], values: Any) -> Any:
    """Values, nested in any way, of which the arrays vary over some axes."""

    def varied(leaf: Any) -> Any:
        missing = tuple(sorted(axes - _axes(leaf)))
        is_array = isinstance(leaf, jax.Array | np.ndarray)
        return lax.pcast(leaf, missing, to="varying") if is_array and missing else leaf

    return jax.tree.map(varied, values) if axes else values


def _axes(leaf: Any) -> frozenset[str]:
    if not isinstance(leaf, jax.Array):
        return frozenset()
    axes: frozenset[str] = jax.typeof(leaf).manual_axis_type.varying
    return axes
