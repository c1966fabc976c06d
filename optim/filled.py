"""Programs that only fill arrays with numbers, run without XLA.

An optimizer's first state is one: hundreds of arrays of zeros, of which XLA would make a program
that runs once and takes longer to compile than all the passes over a small model.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from jax.extend.core import Literal

from relaxjax.ops.lax import Program, inlined


def filled(program: Program, args: Iterable[Any]) -> list[Any] | None:
    """The results of a program for its arguments; None if it does more than fill arrays."""
    jaxpr, consts = program
    known = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *args), strict=True))

    def value(atom: Any) -> Any:
        return atom.val if isinstance(atom, Literal) else known[atom]

    for eqn in jaxpr.eqns:
        wrapped = inlined(eqn)
        if wrapped is not None:
            results = filled(wrapped[0], map(value, wrapped[1]))
        elif eqn.primitive.name in _FILLS:
            results = _FILLS[eqn.primitive.name](value(eqn.invars[0]), eqn.outvars[0].aval)
        else:
            results = None
        if results is None:
            return None
        known.update(zip(eqn.outvars, results, strict=True))
    return [value(atom) for atom in jaxpr.outvars]


def _broadcast(operand: Any, aval: Any) -> list[Any] | None:
    if np.ndim(operand):
        return None
    number = np.asarray(operand, aval.dtype)
    if any(number.tobytes()):
        return [np.full(aval.shape, number)]
    return [np.zeros(aval.shape, aval.dtype)]  # which take no memory before they are written to


def _converted(operand: Any, aval: Any) -> list[Any]:
    return [np.asarray(operand).astype(aval.dtype, copy=False)]


def _copied(operand: Any, _: Any) -> list[Any]:
    return [operand]


_FILLS: dict[str, Callable[[Any, Any], list[Any] | None]] = {
    "broadcast_in_dim": _broadcast,
    "convert_element_type": _converted,
    "copy": _copied,
    "copy_p": _copied,
}
