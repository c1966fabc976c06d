"""What has a derivative, and the functions that are the derivatives of others."""

from collections.abc import Iterator

from .function import Function
from .types import PrimType, ShapeType, TensorType, TupleType, Type, is_smooth
from .walk import global_vars

# The attributes of a function that name the functions of the module that are its derivatives.
CUSTOM_GRADIENT, CUSTOM_JVP = "custom_gradient", "custom_jvp"
# That which names what runs in the place of a function that is differentiated: it gives the result
# and a tuple of what its gradient needs, which that takes before the cotangent.
CUSTOM_FORWARD = "custom_forward"
# The attribute of such a gradient that is one by tangents: what of it needs no adjoint is computed
# on the way forth.
LINEARIZED = "linearized"

# What the derivatives of a whole function are called, behind its own name: its adjoint, its
# tangents, the products with its Hessian.
ADJOINT, TANGENTS, PRODUCTS = "_adjoint", "_jvp", "_hvp"


def derived_names(name: str) -> list[str]:
    """The names that the derivatives of a function get, which no other is to bear."""
    return [name + ending for ending in (ADJOINT, TANGENTS, PRODUCTS)]


def smooth_places(function: Function) -> list[int]:
    """The places of the parameters that can vary, for which rules of its own have derivatives."""
    return [n for n, param in enumerate(function.params) if carries_gradient(param.ty)]


def own_derivatives(function: Function) -> list[str]:
    """The functions of the module that are a function's derivatives, in the place of its body's."""
    attrs = (CUSTOM_GRADIENT, CUSTOM_FORWARD, CUSTOM_JVP)
    return [function.attrs[attr] for attr in attrs if attr in function.attrs]


def named_functions(function: Function) -> Iterator[str]:
    """The functions of the module that a function calls, or has for derivatives."""
    yield from (var.name for var in global_vars(function))
    yield from own_derivatives(function)


def carries_gradient(ty: Type | None) -> bool:
    """Whether a value of this type can depend smoothly on anything; unknown types may."""
    match ty:
        case TupleType(fields=fields):
            return any(map(carries_gradient, fields))
        case TensorType(dtype=dtype):
            return dtype is None or is_smooth(dtype)
        case ShapeType() | PrimType():
            return False
        case _:
            return True
