"""Expressions: everything that has a value."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .attrs import Attrs, as_attrs
from .constant_data import constant_data, frozen_array
from .dims import Dim, SymbolicExpr, as_dim
from .dtypes import check_kind, named_dtype, number_of
from .node import Node, also_called, check_part
from .registry import named_operator
from .span import Span
from .types import (
    FuncType,
    ObjectType,
    PrimType,
    ShapeType,
    TensorType,
    TupleType,
    Type,
    dtype_name,
)

_set = object.__setattr__  # of what is frozen, while it is made


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Expr(Node):
    """A value. `ty` is its type, None until it is inferred.

    Variables and functions compare by identity, all other expressions by content.
    """

    ty: Type | None = field(default=None, kw_only=True, compare=False, repr=False)

    @property
    def struct_info(self) -> Type | None:
        """The type, under the name it had up to TVM 0.25."""
        return self.ty

    checked_type = struct_info

    def __add__(self, other: Any) -> "Expr":
        return _call("add", self, _operand(other, self))

    def __radd__(self, other: Any) -> "Expr":
        return _call("add", _operand(other, self), self)

    def __sub__(self, other: Any) -> "Expr":
        return _call("subtract", self, _operand(other, self))

    def __rsub__(self, other: Any) -> "Expr":
        return _call("subtract", _operand(other, self), self)

    def __mul__(self, other: Any) -> "Expr":
        return _call("multiply", self, _operand(other, self))

    def __rmul__(self, other: Any) -> "Expr":
        return _call("multiply", _operand(other, self), self)

    def __truediv__(self, other: Any) -> "Expr":
        return _call("divide", self, _operand(other, self))

    def __rtruediv__(self, other: Any) -> "Expr":
        return _call("divide", _operand(other, self), self)

    def __floordiv__(self, other: Any) -> "Expr":
        return _call("floor_divide", self, _operand(other, self))

    def __rfloordiv__(self, other: Any) -> "Expr":
        return _call("floor_divide", _operand(other, self), self)

    def __mod__(self, other: Any) -> "Expr":
        """The remainder with the sign of the left side, as TVM reads `%`; not Python's."""
        return _call("mod", self, _operand(other, self))

    def __rmod__(self, other: Any) -> "Expr":
        return _call("mod", _operand(other, self), self)

    def __pow__(self, other: Any) -> "Expr":
        return _call("power", self, _operand(other, self))

    def __rpow__(self, other: Any) -> "Expr":
        return _call("power", _operand(other, self), self)

    def __neg__(self) -> "Expr":
        return _call("negative", self)

    def __lt__(self, other: Any) -> "Expr":
        return _call("less", self, _operand(other, self))

    def __le__(self, other: Any) -> "Expr":
        return _call("less_equal", self, _operand(other, self))

    def __gt__(self, other: Any) -> "Expr":
        return _call("greater", self, _operand(other, self))

    def __ge__(self, other: Any) -> "Expr":
        return _call("greater_equal", self, _operand(other, self))

    def __getitem__(self, index: int) -> "Expr":
        return TupleGetItem(self, index)

    def __iter__(self) -> Iterator["Expr"]:
        """The fields of a tuple-typed expression. Anything else would count up for ever."""
        if not isinstance(self.ty, TupleType):
            raise TypeError(f"only a tuple can be unpacked, and `{self}` is of type {self.ty}")
        return (TupleGetItem(self, index) for index in range(len(self.ty.fields)))

    def __bool__(self) -> bool:
        """Python cannot branch on a value that is known only when the program runs."""
        raise TypeError(
            f"`{self}` is true or false only when the program runs, so Python cannot branch on "
            "it: write `if` inside a script, R.where for tensors, or `is None` to ask for presence"
        )

    def astype(self, dtype: Any) -> "Expr":
        return _call("astype", self, dtype)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Var(Expr):
    """A variable. Its identity counts; its name is a hint."""

    name: str

    def __init__(self, name: str, ty: Type | None = None, *, span: Span | None = None) -> None:
        check_part("the name of a variable", name, str, "a string")
        if ty is not None:
            check_part("the type of a variable", ty, Type, "a type such as R.Tensor((2, 3))")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "ty", ty)
        object.__setattr__(self, "span", span)

    @property
    def name_hint(self) -> str:
        """The name, under its spelling up to TVM 0.25."""
        return self.name

    def __call__(self, *args: Expr) -> "Call":
        return Call(self, args)


class DataflowVar(Var):
    """A variable that only its own dataflow block can see."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, repr=False)
class GlobalVar(Expr):
    """A function of the module, by its name."""

    name: str

    def __post_init__(self) -> None:
        check_part("the name of a function", self.name, str, "a string")

    def __bool__(self) -> bool:
        """A name is there: it is no value that only a run would tell."""
        return True

    @property
    def name_hint(self) -> str:
        return self.name

    def __call__(self, *args: Expr) -> "Call":
        return Call(self, args)


@also_called(global_symbol="symbol")
@dataclass(frozen=True, slots=True, repr=False)
class ExternFunc(Expr):
    """A Python function registered under a name, or a function that another backend supplies.

    Unless its type says more it is taken to be impure.
    """

    symbol: str
    attrs: Attrs = field(default_factory=Attrs)
    ty: Type | None = field(
        default_factory=lambda: FuncType(pure=False), kw_only=True, compare=False
    )


@dataclass(frozen=True, slots=True, repr=False)
class Call(Expr):
    """`op(*args)`: the callee is an `Op`, a `GlobalVar`, a `Var` or an `ExternFunc`."""

    op: Expr
    args: tuple[Expr, ...] = ()
    attrs: Attrs = field(default_factory=Attrs)
    ty_args: tuple[Type, ...] = ()

    def __init__(
        self,
        op: Expr,
        args: Iterable[Expr] = (),
        attrs: Mapping[str, Any] | None = None,
        ty_args: Iterable[Type] = (),
        *,
        span: Span | None = None,
        ty: Type | None = None,
    ) -> None:
        # Passes make more of these than of all else: each field is set once.
        _set(self, "op", op)
        _set(self, "args", tuple(args))
        _set(self, "attrs", as_attrs(attrs))
        _set(self, "ty_args", tuple(ty_args))
        _set(self, "ty", ty)
        _set(self, "span", span)

    @property
    def sinfo_args(self) -> tuple[Type, ...]:
        """The type arguments, under their name up to TVM 0.25."""
        return self.ty_args


@dataclass(frozen=True, slots=True, repr=False)
class Tuple(Expr):
    """A tuple of values."""

    fields: tuple[Expr, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", tuple(self.fields))
        for item in self.fields:
            check_part("a field of a tuple", item, Expr, "an expression")
        types = tuple(item.ty for item in self.fields if item.ty is not None)
        if len(types) == len(self.fields):
            object.__setattr__(self, "ty", TupleType(types))

    def __iter__(self) -> Iterator[Expr]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)


@dataclass(frozen=True, slots=True, repr=False)
class TupleGetItem(Expr):
    """One field of a tuple."""

    tuple_value: Expr
    index: int

    def __post_init__(self) -> None:
        match self.tuple_value.ty:
            case TupleType(fields=types):
                object.__setattr__(self, "ty", types[self._checked_index(len(types))])
            case ObjectType():
                object.__setattr__(self, "ty", self.ty or ObjectType())
            case Type() as other:
                raise TypeError(f"`{self.tuple_value}` is no tuple: its type is {other}")

    def _checked_index(self, count: int) -> int:
        if not isinstance(self.index, int):
            raise TypeError(f"a tuple is indexed by an integer, found `{self.index!r}`")
        if not 0 <= self.index < count:
            raise IndexError(
                f"`{self.tuple_value}` has {count} fields: there is no field {self.index}"
            )
        return self.index


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Constant(Expr):
    """A tensor known at compile time."""

    data: np.ndarray[Any, Any]

    def __post_init__(self) -> None:
        data = frozen_array(self.data)
        object.__setattr__(self, "data", data)
        object.__setattr__(self, "ty", TensorType(data.shape, dtype_name(data.dtype)))

    @property
    def dtype(self) -> str:
        return dtype_name(self.data.dtype)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Constant):
            return False
        return self.data is other.data or self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())

    def _content(self) -> tuple[str, tuple[int, ...], bytes]:
        return (self.dtype, self.data.shape, self.data.tobytes())


@dataclass(frozen=True, slots=True, repr=False)
class ShapeExpr(Expr):
    """A shape as a value: a tuple of dimensions."""

    values: tuple[Dim, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(map(as_dim, self.values)))
        object.__setattr__(self, "ty", ShapeType(self.values))

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: int) -> Any:
        return self.values[index]


@dataclass(frozen=True, slots=True, repr=False)
class PrimExpr(Expr):
    """A scalar of the host: a dimension, a bool or a float."""

    value: Dim | float
    dtype: str = ""

    def __post_init__(self) -> None:
        dtype = self.dtype or prim_dtype(self.value)
        object.__setattr__(self, "dtype", dtype)
        if not isinstance(self.value, SymbolicExpr):
            object.__setattr__(self, "value", number_of(self.value, dtype))
        elif (self.value.dtype == "bool") != (dtype == "bool"):
            found = self.value.dtype
            raise TypeError(f"`{self.value}` is of dtype {found}, and no scalar of dtype {dtype}")
        object.__setattr__(self, "ty", PrimType(dtype))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PrimExpr) and self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())

    def _content(self) -> tuple[str, Dim | str]:
        """The text tells 0.0 and -0.0 apart, and a nan is equal to a nan."""
        value = repr(self.value) if isinstance(self.value, float) else self.value
        return self.dtype, value


@dataclass(frozen=True, slots=True, repr=False)
class StringImm(Expr):
    """A string argument."""

    value: str
    ty: Type | None = field(default_factory=ObjectType, kw_only=True, compare=False)


@dataclass(frozen=True, slots=True, repr=False)
class DataTypeImm(Expr):
    """A dtype argument."""

    value: str
    ty: Type | None = field(default_factory=ObjectType, kw_only=True, compare=False)


def const(value: Any, dtype: Any = None) -> Constant:
    """A constant tensor. Without `dtype`, Python floats are float32 and Python ints are int32."""
    return Constant(constant_data(value, None if dtype is None else np_dtype(dtype)))


def np_dtype(dtype: Any) -> np.dtype[Any]:
    """The numpy dtype of a dtype, in whatever form it is given."""
    return named_dtype(dtype_name(dtype))


def _call(name: str, *args: Any) -> Expr:
    """What the operator of a sign gives."""
    called: Expr = named_operator(f"relax.{name}")(*args)
    return called


def _operand(value: Any, beside: Expr) -> Expr:
    """`value` as an expression: a Python scalar takes the dtype of the tensor beside it."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, bool | int | float) and isinstance(beside.ty, TensorType):
        dtype = beside.ty.dtype or "float32"
        check_kind(value, dtype)
        return const(value, dtype)
    raise TypeError(f"`{value!r}` is no operand for a tensor: write R.const(value, dtype)")


def prim_dtype(value: Dim | float) -> str:
    if isinstance(value, SymbolicExpr):
        return value.dtype
    if isinstance(value, bool):
        return "bool"
    return "float64" if isinstance(value, float) else "int64"
