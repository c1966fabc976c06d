"""What the primitives of JAX say of themselves, in the words that passes ask in.

Of facts, only what changes no number is said, so that imported programs compute what JAX computes:
at most a zero gets the other sign.
"""

from collections.abc import Mapping
from typing import Any

from .costs import ELEMENTWISE_NAMES

_CHOOSING = (
    "reduce_max reduce_min cummax cummin cumsum cumprod cumlogsumexp scatter_max scatter_min "
    "scatter_add scatter_mul pmax pmin sort top_k reduce_window_max reduce_window_min"
)
_FACTS_OF: Mapping[str, Mapping[str, Any]] = {
    "add add_any": {"unit": 0, "commutative": True},
    "sub": {"right_unit": 0},
    "mul": {"unit": 1, "commutative": True},
    "div": {"right_unit": 1},
    "and_ or_ xor eq ne": {"commutative": True},
    "floor ceil round sign rem": {"jumps": True},
    "abs max min clamp relu6 select_n": {"turns": True},
    _CHOOSING: {"chooses": True},
    "svd": {"factors": {"compute_uv": True, "full_matrices": False}},
    "eig": {"factors": {"compute_right_eigenvectors": True}},
}
_FACTS = {name: facts for names, facts in _FACTS_OF.items() for name in names.split()}


def facts_of_primitive(name: str) -> Mapping[str, Any]:
    """The facts of the operator of a primitive."""
    return _FACTS.get(name, {})


_KINDS = {
    "injective": """
        bitcast_convert_type broadcast_in_dim concatenate copy dynamic_slice expand_dims gather
        iota name pad reshape rev slice split squeeze stop_gradient transpose
    """,
    "reduction": """
        argmax argmin reduce_and reduce_max reduce_min reduce_or reduce_prod reduce_sum reduce_xor
    """,
    "out_fusable": "conv_general_dilated dot_general",
}
_FUSION = {name: kind for kind, names in _KINDS.items() for name in names.split()}


def fusion_of_primitive(name: str) -> str:
    """The fusion class of the operator `lax.<name>`."""
    return "elementwise" if name in ELEMENTWISE_NAMES else _FUSION.get(name, "opaque")
