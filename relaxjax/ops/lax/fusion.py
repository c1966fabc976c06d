"""How the primitives of JAX can be computed together with their neighbours."""

from .costs import ELEMENTWISE_NAMES

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
