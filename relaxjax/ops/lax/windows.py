"""Reductions of windows by any function, read as what the IR has operators for.

    lax.reduce_window(x, 0.0, lambda a, b: jnp.hypot(a, b), (2, 2), (1, 1), "VALID")

There are operators for sums, maxima and minima of windows. JAX itself misses these where the start
is an array that is made in a traced function, `jnp.float32(0)`: it is a number of the program.
Other functions reduce an array of all windows side by side, as `lax.reduce` does. That has a
gradient through any function, where JAX itself has none of windows.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core

_FUNCTIONS = {"add": lax.add, "max": lax.max, "min": lax.min}
_WINDOWS = ("window_dimensions", "window_strides", "padding", "base_dilation", "window_dilation")


def windows_reduced(eqn: Any) -> core.ClosedJaxpr:
    """What a general reduction of windows computes, as a program of its arrays and starts."""
    program = _by_an_operator(eqn)
    if program is not None:
        return program
    return jax.make_jaxpr(partial(_side_by_side, eqn))(*(var.aval for var in eqn.invars))


def _by_an_operator(eqn: Any) -> core.ClosedJaxpr | None:
    """The reduction with its start as a number, if JAX finds by this what it is."""
    function, (start, *_) = _function_of_jax(eqn), _known_starts(eqn)
    if function is None or start is None:
        return None

    def reduced(operand: Any, _: Any) -> Any:
        return lax.reduce_window(operand, start, function, **{k: eqn.params[k] for k in _WINDOWS})

    program = jax.make_jaxpr(reduced)(*(var.aval for var in eqn.invars))
    is_found = all(one.primitive is not eqn.primitive for one in program.jaxpr.eqns)
    return program if is_found else None


def _function_of_jax(eqn: Any) -> Callable[..., Any] | None:
    """The function of JAX by which one array is reduced: JAX knows that one and no other."""
    body = eqn.params["jaxpr"]
    if len(body.eqns) != 1 or len(body.outvars) != 1:
        return None
    (one,), sides = body.eqns, list(body.invars)
    is_all = list(one.invars) in (sides, sides[::-1]) and one.outvars == body.outvars
    return _FUNCTIONS.get(one.primitive.name) if is_all else None


def _side_by_side(eqn: Any, *values: Any) -> Any:
    """The windows as one array for each operand, their axes reduced."""
    if any(0 in var.aval.shape for var in eqn.outvars):
        return [lax.full(var.aval.shape, 0, var.aval.dtype) for var in eqn.outvars]
    count, rank = len(values) // 2, len(eqn.params["window_dimensions"])
    starts = [
        value if number is None else number
        for value, number in zip(values[count:], _known_starts(eqn), strict=True)
    ]
    windows = [_windows(*pair, eqn.params) for pair in zip(values[:count], starts, strict=True)]
    return lax.reduce(windows, starts, _combine(eqn), tuple(range(rank, 2 * rank)))


def _combine(eqn: Any) -> Callable[..., Sequence[Any]]:
    """The function that combines two sides, as JAX calls it with lists."""
    run = core.jaxpr_as_fun(core.ClosedJaxpr(eqn.params["jaxpr"], eqn.params["consts"]))
    return lambda left, right: run(*left, *right)


def _known_starts(eqn: Any) -> list[Any]:
    """The starts that are numbers of the program, None for others."""
    starts = eqn.invars[len(eqn.invars) // 2 :]
    dtypes = [start.aval.dtype for start in starts]
    return [
        np.asarray(start.val, dtype) if isinstance(start, core.Literal) else None
        for start, dtype in zip(starts, dtypes, strict=True)
    ]


def _windows(operand: Any, start: Any, params: Mapping[str, Any]) -> Any:
    """All windows of an array: its axes count the windows, the axes behind them are a window's."""
    dilations = params["base_dilation"]
    widths = [(*pad, step - 1) for pad, step in zip(params["padding"], dilations, strict=True)]
    found = lax.pad(operand, start, widths)
    each = (params[name] for name in ("window_dimensions", "window_strides", "window_dilation"))
    for axis, (size, stride, step) in enumerate(zip(*each, strict=True)):
        reach = found.shape[axis] - (size - 1) * step
        parts = [
            lax.slice_in_dim(found, first, first + reach, stride, axis)
            for first in range(0, size * step, step)
        ]
        found = jnp.stack(parts, axis=-1)
    return found
