"""What the primitives of JAX say of themselves, in the words that passes ask in.

Of facts, only what changes no number is said, so that imported programs compute what JAX computes:
at most a zero gets the other sign.
"""

from collections.abc import Mapping
from typing import Any

from .costs import ELEMENTWISE_NAMES

_SUM = {"unit": 0, "commutative": True}
_EITHER_WAY = {"commutative": True}
_JUMPS = {"jumps": True}
_TURNS = {"turns": True}
_CHOOSES = {"chooses": True}
_FACTS: Mapping[str, Mapping[str, Any]] = {
    "add": _SUM,
    "add_any": _SUM,
    "sub": {"right_unit": 0},
    "mul": {"unit": 1, "commutative": True},
    "div": {"right_unit": 1},
    "and_": _EITHER_WAY,
    "or_": _EITHER_WAY,
    "xor": _EITHER_WAY,
    "eq": _EITHER_WAY,
    "ne": _EITHER_WAY,
    "floor": _JUMPS,
    "ceil": _JUMPS,
    "round": _JUMPS,
    "sign": _JUMPS,
    "rem": _JUMPS,
    "abs": _TURNS,
    "max": _TURNS,
    "min": _TURNS,
    "clamp": _TURNS,
    "relu6": _TURNS,
    "select_n": _TURNS,
    "reduce_max": _CHOOSES,
    "reduce_min": _CHOOSES,
    "cummax": _CHOOSES,
    "cummin": _CHOOSES,
    "cumsum": _CHOOSES,
    "cumprod": _CHOOSES,
    "cumlogsumexp": _CHOOSES,
    "scatter_max": _CHOOSES,
    "scatter_min": _CHOOSES,
    "scatter_add": _CHOOSES,
    "scatter_mul": _CHOOSES,
    "pmax": _CHOOSES,
    "pmin": _CHOOSES,
    "sort": _CHOOSES,
    "top_k": _CHOOSES,
    "reduce_window_max": _CHOOSES,
    "reduce_window_min": _CHOOSES,
    "svd": {"factors": {"compute_uv": True, "full_matrices": False}},
    "eig": {"factors": {"compute_right_eigenvectors": True}},
}


def facts_of_primitive(name: str) -> Mapping[str, Any]:
    """The facts of the operator of a primitive."""
    return _FACTS.get(name, {})


_INJECTIVE = frozenset(
    [
        "bitcast_convert_type",
        "broadcast_in_dim",
        "concatenate",
        "copy",
        "dynamic_slice",
        "expand_dims",
        "gather",
        "iota",
        "name",
        "pad",
        "reshape",
        "rev",
        "slice",
        "split",
        "squeeze",
        "stop_gradient",
        "transpose",
    ]
)
_REDUCTIONS = frozenset(
    [
        "argmax",
        "argmin",
        "reduce_and",
        "reduce_max",
        "reduce_min",
        "reduce_or",
        "reduce_prod",
        "reduce_sum",
        "reduce_xor",
    ]
)
_PRODUCTS = frozenset({"conv_general_dilated", "dot_general"})


def fusion_of_primitive(name: str) -> str:
    """The fusion class of the operator `lax.<name>`."""
    if name in ELEMENTWISE_NAMES:
        return "elementwise"
    if name in _INJECTIVE:
        return "injective"
    if name in _REDUCTIONS:
        return "reduction"
    return "out_fusable" if name in _PRODUCTS else "opaque"
