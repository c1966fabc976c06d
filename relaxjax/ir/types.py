"""The types of Relax values."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from .device_mesh import Placement
from .dims import Dim, as_dim
from .dtypes import checked_dtype, numpy_dtype_name
from .node import Node, also_called
from .span import Span
from .wording import counted


class Type(Node):
    """The type of a value. Types are compared by value; symbolic variables by identity."""

    __slots__ = ()


class Sizes(tuple[Dim, ...]):
    """The sizes of a tensor: a tuple, of which TVM says `values`."""

    __slots__ = ()

    @property
    def values(self) -> tuple[Dim, ...]:
        return self


class Typed(Protocol):
    """A variable, as types know it: it has a type itself."""

    @property
    def ty(self) -> Type | None: ...


@dataclass(frozen=True, slots=True, repr=False)
class ObjectType(Type):
    """Any value at all: the top of the lattice."""


@dataclass(frozen=True, slots=True, repr=False)
class PrimType(Type):
    """A Python-side scalar: an integer dimension, a bool, a string handle."""

    dtype: str

    def __post_init__(self) -> None:
        if self.dtype != "handle":
            object.__setattr__(self, "dtype", dtype_name(self.dtype))


@dataclass(frozen=True, slots=True, repr=False)
class ShapeType(Type):
    """A shape value. `values` is None where only the rank, or with `ndim=-1` nothing, is known."""

    values: tuple[Dim, ...] | None = None
    ndim: int = -1

    def __post_init__(self) -> None:
        if self.values is not None:
            object.__setattr__(self, "values", tuple(map(as_dim, self.values)))
        object.__setattr__(self, "ndim", _rank(self.ndim, self.values, "values"))


@dataclass(frozen=True, slots=True, repr=False)
class TensorType(Type):
    """A tensor. `shape` is a tuple of dimensions, a variable that holds a shape, or None.

    An unknown dtype is None, an unknown rank is `ndim=-1`. A placement says where the parts of the
    value lie, and counts in no comparison: XLA brings them where another one is asked for.
    """

    shape: tuple[Dim, ...] | Typed | None = None
    dtype: str | None = None
    ndim: int = -1
    vdevice: str | None = None
    placement: Placement | None = field(default=None, compare=False)

    def __init__(
        self,
        shape: Sequence[Dim] | Typed | None = None,
        dtype: Any = None,
        ndim: Any = -1,
        vdevice: Any = None,
        *,
        placement: Placement | None = None,
        span: Span | None = None,
    ) -> None:
        if not isinstance(ndim, int) or isinstance(vdevice, int):
            # With TVM, a device is the third argument, and the rank the fourth.
            ndim, vdevice = -1 if vdevice is None else vdevice, ndim
        shape = _tensor_shape(shape)
        if shape is not None and not isinstance(shape, tuple):
            ndim = shape.ty.ndim if isinstance(shape.ty, ShapeType) else ndim
        known = shape if isinstance(shape, tuple) else None
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "dtype", None if dtype in (None, "") else dtype_name(dtype))
        object.__setattr__(self, "ndim", _rank(ndim, known, "shape"))
        object.__setattr__(self, "vdevice", None if vdevice is None else _device(vdevice))
        object.__setattr__(self, "placement", placement)
        if placement is not None:
            placement.check(self.dims, self.ndim)
        object.__setattr__(self, "span", span)

    @property
    def dims(self) -> tuple[Dim, ...] | None:
        """The dimensions, also of a shape that a variable of known value holds; else None."""
        if self.shape is None or isinstance(self.shape, tuple):
            return self.shape
        return self.shape.ty.values if isinstance(self.shape.ty, ShapeType) else None


@dataclass(frozen=True, slots=True, repr=False)
class TupleType(Type):
    """A tuple of values."""

    fields: tuple[Type, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", tuple(self.fields))


@also_called(purity="pure", derive_func="derive")
@dataclass(frozen=True, slots=True, repr=False)
class FuncType(Type):
    """A function. An opaque one has no `params`; `derive` gives the result type of a call."""

    params: tuple[Type, ...] | None = None
    ret: Type = field(default_factory=ObjectType)
    pure: bool = True
    derive: Callable[[Any], Type] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.params is not None:
            object.__setattr__(self, "params", tuple(self.params))

    @staticmethod
    def opaque_func(
        *,
        ret: Type | None = None,
        derive_func: Callable[[Any], Type] | None = None,
        purity: bool = False,
    ) -> "FuncType":
        """A function of which only the result is known, as TVM makes it."""
        return FuncType(None, ObjectType() if ret is None else ret, purity, derive_func)


def placements(ty: Type | None) -> tuple[Any, ...]:
    """The placements in a type, which comparing types leaves out."""
    match ty:
        case TensorType(placement=placement):
            return (placement,)
        case TupleType(fields=fields):
            return tuple(map(placements, fields))
        case FuncType(params=params, ret=ret):
            return (*map(placements, params or ()), placements(ret))
        case _:
            return ()


def same_type(lhs: Type | None, rhs: Type | None) -> bool:
    """Whether two types are equal, and say the same of where values lie."""
    return lhs == rhs and placements(lhs) == placements(rhs)


def _tensor_shape(shape: Any) -> tuple[Dim, ...] | Typed | None:
    """Dimensions as a tuple, those of a `ShapeExpr` too; a variable, or None, as it is."""
    values = getattr(shape, "values", shape)
    if isinstance(values, Sequence) and not isinstance(values, str):
        dims = Sizes(map(as_dim, values))
        if any(isinstance(dim, int) and dim < 0 for dim in dims):
            raise ValueError(f"a dimension must not be negative, found the shape {shape}")
        return dims
    if shape is None or hasattr(shape, "ty"):
        return shape  # type: ignore[no-any-return]  # a variable, whose class stands above this file
    raise TypeError(
        f"`shape` must be a tuple of dimensions or a variable that holds a shape, found `{shape!r}`"
    )


def _rank(ndim: Any, dims: tuple[Dim, ...] | None, name: str) -> int:
    """How many dimensions there are, -1 where that is unknown."""
    if not isinstance(ndim, int) or ndim < -1:
        raise ValueError(f"`ndim` is the number of dimensions, or -1 if unknown, found {ndim!r}")
    if dims is not None and ndim not in (-1, len(dims)):
        raise ValueError(f"`ndim` is {ndim}, but `{name}` has {counted(len(dims), 'dimension')}")
    return ndim if dims is None else len(dims)


def _device(device: Any) -> str:
    """The full name of a device, which is given by its name or as `I.vdevice(...)`."""
    name = getattr(device, "name", device)
    if not isinstance(name, str):
        raise TypeError(
            f'`vdevice` is a device such as "cuda:0" or I.vdevice("cuda"), not {name!r}'
        )
    return device_name(name)


def dtype_name(dtype: Any) -> str:
    """The name of a dtype: `float32`, `bfloat16`, `bool`, `int4`, `float8_e4m3fn`, `key<fry>`."""
    if isinstance(dtype, PrimType):
        return dtype.dtype
    if isinstance(dtype, str):
        return checked_dtype(dtype)
    if dtype is None:  # which numpy takes for float64
        raise TypeError('a dtype such as "float32" is needed, found None')
    try:
        return numpy_dtype_name(np.dtype(dtype))
    except TypeError:
        raise TypeError(f"there is no dtype `{dtype!r}` for tensors") from None


LISTED = "vdevice"  # "vdevice:1" is the second device in the list of a module


def device_name(vdevice: str) -> str:
    """A device in its full form, `kind:index:memory`: `cuda` is `cuda:0:global`."""
    kind, *rest = vdevice.split(":")
    index = rest[0] if rest else "0"
    memory = rest[1] if len(rest) > 1 else "global"
    if not kind or len(rest) > 2 or not index.isdecimal():
        raise ValueError(
            f'a device is written "cuda", "cuda:1" or "cuda:1:global", not "{vdevice}"'
        )
    if kind == LISTED:
        raise ValueError(
            f'"{vdevice}" is a place in the list of a module, which is known in the script of the '
            'module only: name the device, such as "cuda:1"'
        )
    return f"{kind}:{index}:{memory}"


def is_float(dtype: str | None) -> bool:
    return dtype is not None and dtype.startswith(("float", "bfloat"))


def is_integer(dtype: str | None) -> bool:
    return dtype is not None and dtype.startswith(("int", "uint"))


def is_key(dtype: str | None) -> bool:
    """Whether it is that of random keys."""
    return dtype is not None and dtype.startswith("key<")


def is_smooth(dtype: str | None) -> bool:
    """Whether numbers of a dtype can depend smoothly on others: the real and the complex ones."""
    return dtype is not None and dtype.startswith(("float", "bfloat", "complex"))
