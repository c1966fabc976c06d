"""Scalars of the host beside tensors, as TVM's programs have them: `R.add(x, T.float32(2))`."""

import numpy as np

from relaxjax.ir.dims import SymbolicExpr
from relaxjax.ir.expr import Constant, Expr, PrimExpr, np_dtype
from relaxjax.ir.types import PrimType

from .declare import OpError
from .emit import call, number


def beside_tensors(**operands: Expr) -> dict[str, Expr]:
    """Those operands that are scalars of the host, as tensors without axes.

    What is computed of such scalars alone would be one again, which no operator gives.
    """
    hosts = {name: one for name, one in operands.items() if isinstance(one.ty, PrimType)}
    if hosts and len(hosts) == len(operands):
        listed = " and ".join(f"`{one}`" for one in hosts.values())
        raise OpError(
            f"one operand must be a tensor, but {listed} are scalars of the host: write the number "
            f"that comes out, or give one as a tensor, {_as_parameter(next(iter(hosts.values())))}"
        )
    return {name: _tensor(one) for name, one in hosts.items()}


def _tensor(scalar: Expr) -> Expr:
    """A tensor without axes: a constant where the number is written out."""
    zero = Constant(np.zeros((), np_dtype(_dtype(scalar))))
    value = scalar.value if isinstance(scalar, PrimExpr) else None
    if isinstance(value, int | float):
        return Constant(np.asarray(value, zero.data.dtype))
    if _dtype(scalar) == "bool":
        raise OpError(
            f"`{scalar}` is a flag of the host that is not known yet, and no operand beside a "
            f"tensor: give it as a tensor, {_as_parameter(scalar)}"
        )
    if isinstance(value, SymbolicExpr):
        return number(value, zero)
    return call("clip", zero, scalar, scalar)  # the one operator that takes any number of the host


def _as_parameter(scalar: Expr) -> str:
    return f'a parameter of type R.Tensor((), "{_dtype(scalar)}") for example'


def _dtype(scalar: Expr) -> str:
    assert isinstance(scalar.ty, PrimType)
    return scalar.ty.dtype
