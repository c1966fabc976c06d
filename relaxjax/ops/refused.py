"""Values by which nothing can be differentiated: asked for that, JAX raises an error that says why.

What reads programs of JAX knows these functions by their names, and makes the operators of the same
names of them.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from .declare import OpError

_TO_DO = "hand it to the function as an argument, so that its rule says what to do"
_TOO_DEEP = (
    "a rule calls another function with a rule, that one's rule another, and so on, and a module "
    "holds no further ones: take `relaxjax.value_and_grad` of the function in JAX"
)
# By the name of an operator `relax.grad.`: what such a value is, and why it has no derivative.
_REASONS = {
    "closed_over": (
        "an array that a function with a rule of its own has from around it",
        f"the rule of a function leaves out what that has from around it: {_TO_DO}",
    ),
    "deepest_rule": ("an argument of a function whose rule is written nowhere", _TOO_DEEP),
}
REFUSED = frozenset(_REASONS)


def why_refused(name: str) -> str:
    """Why a value that is marked so has no derivative."""
    return _REASONS[name][1]


def refusing(name: str) -> Callable[[Any], Any]:
    """What hands on its input, by whose numbers JAX refuses to differentiate."""
    what, why = _REASONS[name]

    def handed_on(array: Any) -> Any:
        return array

    def refuse(primals: Any, tangents: Any) -> Any:
        raise OpError(f"nothing can be differentiated by {what}: {why}")

    handed_on.__name__ = name
    marked = jax.custom_jvp(handed_on)
    marked.defjvp(refuse)
    return lambda input: jax.tree.map(lambda leaf: marked(leaf) if _varies(leaf) else leaf, input)


def _varies(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") and bool(jnp.issubdtype(leaf.dtype, jnp.inexact))
