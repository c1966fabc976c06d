"""What a derivative need not compute, because the program that it is of has the value.

The factors of a matrix JAX asks for otherwise in its derivatives: by its rule for `eigh` those of
the symmetric part of what is symmetric, by that for `svd` as few as suffice of a square matrix.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from relaxjax.ir.expr import Call, Expr, Tuple, TupleGetItem, Var
from relaxjax.ir.op import Op
from relaxjax.ir.types import TupleType, Type

# Values by the calls that give them, or by a primitive and a type where no other call gives such.
Known: TypeAlias = Mapping[Call | tuple[str, Type | None], Expr]

# By operator: the primitive that its derivatives call, and where in the value its results are.
_PRIMITIVES: Mapping[str, tuple[str, Sequence[int]]] = {
    "lax.eigh": ("eigh", (0, 1)),
    "relax.linalg.eigh": ("eigh", (1, 0)),
    "lax.svd": ("svd", (0, 1, 2)),
    "relax.linalg.svd": ("svd", (1, 0, 2)),
}


def known_of(call: Call, value: Var) -> Known:
    """What the value of a call has of all that the derivatives of the call compute."""
    known: dict[Call | tuple[str, Type | None], Expr] = {call: value}
    name = call.op.name if isinstance(call.op, Op) else ""
    primitive, places = _PRIMITIVES.get(name, ("", ()))
    has_all = isinstance(value.ty, TupleType) and len(value.ty.fields) == len(places)
    if has_all:  # not singular values alone
        factors = Tuple(tuple(TupleGetItem(value, place) for place in places))
        known[primitive, factors.ty] = factors
    return known
