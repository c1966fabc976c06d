"""What operators make of sums over the parts of a batch, computed of each part by itself."""

from collections.abc import Callable, Mapping, Sequence

import jax.numpy as jnp

from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.op import operator_name
from relaxjax.ir.tensor_types import known_dtype
from relaxjax.ir.types import is_float, is_integer

from .kinds import TOTAL, WHOLE, Kind, Taken, dims_of

IsZero = Callable[[Expr], bool]

# How many of the first arguments are sums; 0 for all.
_SUMS: Mapping[str, int] = {
    **dict.fromkeys(
        (
            *("lax.neg", "lax.reshape", "lax.transpose", "lax.squeeze", "lax.broadcast_in_dim"),
            *("lax.reduce_sum", "lax.rev", "lax.slice", "lax.pad", "lax.split", "lax.unstack"),
            *("lax.dynamic_slice", "lax.stop_gradient", "lax.copy", "lax.real", "lax.imag"),
            *("lax.conj", "lax.convert_element_type", "relax.grad.once"),
        ),
        1,
    ),
    **dict.fromkeys(("lax.add", "lax.add_any", "lax.sub", "lax.concatenate", "lax.stack"), 0),
    "lax.dynamic_update_slice": 2,
}


def linear(call: Call, kinds: Sequence[Kind], is_zero: IsZero) -> Taken | None:
    """An operator that makes of the parts of sums the parts of what it makes of the sums.

    Arguments that are the same for all parts are zeros there, but for factors and places.
    """
    name = operator_name(call) or ""
    match name:
        case "lax.mul" | "lax.dot_general":
            return _scaled(call, kinds)
        case "lax.div":
            return _scaled(call, kinds) if kinds[1] is WHOLE else None
        case "lax.select_n":
            are_sums = _are_sums(call.args[1:], kinds[1:], is_zero)
            taken = Taken((WHOLE, *(TOTAL for _ in kinds[1:])), TOTAL)
            return taken if kinds[0] is WHOLE and are_sums else None
    if name not in _SUMS:
        return None
    count = _SUMS[name] or len(kinds)
    others = kinds[count:]
    if not _are_sums(call.args[:count], kinds, is_zero) or any(one is not WHOLE for one in others):
        return None
    if name == "lax.pad" and not is_zero(call.args[1]):
        return None
    if name == "lax.convert_element_type" and not _keeps_bits(call):
        return None
    return Taken((TOTAL,) * count + tuple(others), _given(call, name))


def _are_sums(args: Sequence[Expr], kinds: Sequence[Kind], is_zero: IsZero) -> bool:
    found = zip(args, kinds, strict=False)
    return all(kind is TOTAL or (kind is WHOLE and is_zero(arg)) for arg, kind in found)


def _given(call: Call, name: str) -> Kind:
    """One sum, or as many as a tensor is taken apart into."""
    if name not in ("lax.split", "lax.unstack"):
        return TOTAL
    size = dims_of(call.args[0])[call.attrs["axis"]]
    return tuple(TOTAL for _ in (call.attrs["sizes"] if name == "lax.split" else range(size)))


def _scaled(call: Call, kinds: Sequence[Kind]) -> Taken | None:
    """A product or quotient of a sum and what is the same for all parts.

    Integers are none: their quotients are rounded, and the bits that a sum of few has lost are not
    those that its parts have lost.
    """
    has_integers = any(is_integer(known_dtype(arg)) for arg in call.args)
    is_one = list(kinds).count(TOTAL) == 1 and not has_integers
    return Taken(tuple(kinds), TOTAL) if is_one else None


def _keeps_bits(call: Call) -> bool:
    """Whether floats are converted to ones that tell them all apart.

    Not so integers: a sum of few bits may have lost some that its parts have.
    """
    old, new = known_dtype(call.args[0]), known_dtype(call)
    if old is None or new is None or not (is_float(old) and is_float(new)):
        return False
    return bool(jnp.promote_types(old, new) == jnp.dtype(new))
