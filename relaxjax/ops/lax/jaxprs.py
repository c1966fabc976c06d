"""Functions of arrays as programs of JAX, of which relaxjax traces many, each a few operations.

`jax.make_jaxpr` makes a jitted function of each, and reads its signature for errors that nobody
sees here: that takes about a millisecond, and to trace the operations a tenth of one.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
from jax.api_util import debug_info
from jax.extend import core
from jax.extend.linear_util import wrap_init
from jax.interpreters.partial_eval import trace_to_jaxpr_dynamic


def jaxpr_of(function: Callable[..., Any], *args: Any) -> core.ClosedJaxpr:
    """What `jax.make_jaxpr` gives for a function of arrays, or of trees of them."""
    return jaxpr_and_result(function, *args)[0]


def jaxpr_and_result(function: Callable[..., Any], *args: Any) -> tuple[core.ClosedJaxpr, Any]:
    """The program of a function, and the abstract values of what it returns, as it nests them."""
    leaves, tree = jax.tree.flatten(args)
    nested: list[Any] = []

    def flat(*arrays: Any) -> list[Any]:
        results, structure = jax.tree.flatten(function(*jax.tree.unflatten(tree, arrays)))
        nested.append(structure)
        return results

    traced = wrap_init(flat, debug_info=_nameless(len(leaves)))
    jaxpr, avals, consts = trace_to_jaxpr_dynamic(traced, list(map(jax.typeof, leaves)))
    return core.ClosedJaxpr(jaxpr, consts), jax.tree.unflatten(nested[0], avals)


@cache
def _nameless(count: int) -> Any:
    """What JAX is told of a function of so many arrays."""
    return debug_info("relaxjax", lambda *arrays: arrays, [None] * count, {})
