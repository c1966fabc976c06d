"""Programs that JAX traces for tensors of one shape, and that hold for tensors of any.

To trace a primitive's pullback takes JAX milliseconds, and a model adds in many shapes.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Any

import numpy as np
from jax.core import ShapedArray
from jax.extend import core

from relaxjax.ir.op import Op
from relaxjax.ir.types import TensorType, Type

from .tracing import Hole, Template

_SOME_LENGTH = 7
# What pullbacks of elementwise primitives are made of, where they name no shape.
_ELEMENTWISE = frozenset(
    {"abs", "acos", "add", "add_any", "and", "asin", "atan", "atan2", "ceil", "cos", "cosh", "div"}
    | {"convert_element_type", "copy", "eq", "erf", "exp", "exp2", "expm1", "floor", "ge", "gt"}
    | {"integer_pow", "is_finite", "le", "log", "log1p", "logistic", "lt", "max", "min", "mul"}
    | {"ne", "neg", "not", "or", "pow", "real", "imag", "complex", "conj", "rem", "round", "rsqrt"}
    | {"select_n", "sign", "sin", "sinh", "sqrt", "square", "sub", "tan", "tanh"}
)
# Parameters of an equation that cannot hold a shape.
_PLAIN = (type(None), bool, int, float, str, Enum, np.dtype)


def vectors_instead(
    op: Op, template: Sequence[Template], types: Sequence[Type | None]
) -> tuple[Type, ...] | None:
    """Types for an elementwise operator on tensors of one known shape, and scalars beside them.

    The tensors are vectors of some length there.
    """
    if op.fusion != "elementwise" or not all(isinstance(item, Hole) for item in template):
        return None
    known = [ty for ty in types if isinstance(ty, TensorType) and ty.dims is not None]
    shapes = {ty.dims for ty in known if ty.dims}
    if len(known) < len(types) or len(shapes) != 1:
        return None
    if not all(isinstance(dim, int) and dim > 0 for dim in next(iter(shapes)) or ()):
        return None
    return tuple(TensorType((_SOME_LENGTH,) if ty.dims else (), ty.dtype) for ty in known)


def for_shape(program: core.ClosedJaxpr, ty: Type | None) -> core.ClosedJaxpr | None:
    """A program of such vectors for tensors of a type's shape; None where it names the length."""
    jaxpr = program.jaxpr
    if program.consts or not all(map(_is_elementwise, jaxpr.eqns)):
        return None
    assert isinstance(ty, TensorType), "they were vectors instead of tensors of it"
    dims = tuple(map(int, ty.dims or ()))
    known: dict[Any, Any] = {}

    def of_shape(atom: Any) -> Any:
        if isinstance(atom, core.Literal) or atom.aval.shape == ():
            return atom
        if atom not in known:
            aval = atom.aval
            known[atom] = core.Var(ShapedArray(dims, aval.dtype, aval.weak_type))
        return known[atom]

    if any(atom.aval.shape != (_SOME_LENGTH,) for atom in jaxpr.outvars):
        return None
    eqns = [
        eqn.replace(invars=[*map(of_shape, eqn.invars)], outvars=[*map(of_shape, eqn.outvars)])
        for eqn in jaxpr.eqns
    ]
    inputs, results = [*map(of_shape, jaxpr.invars)], [*map(of_shape, jaxpr.outvars)]
    return core.ClosedJaxpr(jaxpr.replace(invars=inputs, outvars=results, eqns=eqns), [])


def _is_elementwise(eqn: Any) -> bool:
    """Whether an equation computes numbers of those in their places, and names no shape."""
    shapes = {atom.aval.shape for atom in (*eqn.invars, *eqn.outvars)}
    is_plain = all(isinstance(value, _PLAIN) for value in eqn.params.values())
    return shapes <= {(), (_SOME_LENGTH,)} and is_plain and eqn.primitive.name in _ELEMENTWISE
