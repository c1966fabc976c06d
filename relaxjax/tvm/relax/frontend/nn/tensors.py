"""Values and weights of models that are written as layers."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.dims import SymbolicVar
from relaxjax.ir.expr import Expr, TupleGetItem, Var
from relaxjax.ir.types import TensorType, TupleType
from relaxjax.script import relax as R
from relaxjax.tvm.nd import NDArray, array, unwrapped

_default_dtype = "float32"
_NARROWED = {"float64": "float32", "int64": "int32"}  # the dtypes of constants that say none


def get_default_dtype() -> str:
    """The dtype of parameters that say none."""
    return _default_dtype


def set_default_dtype(dtype: str) -> None:
    """Give the dtype of parameters that say none, from here on."""
    global _default_dtype
    _default_dtype = dtype


class Tensor:
    """A value of the program that is being built; operators on it emit bindings."""

    def __init__(self, *, _expr: Expr) -> None:
        if not isinstance(_expr.ty, TensorType):
            raise TypeError(f"a Tensor is of a tensor, but `{_expr}` is of type {_expr.ty}")
        self._expr = _expr

    @staticmethod
    def from_const(data: Any) -> "Tensor":
        """An array, or a number, as a constant; those of 64 bits have 32 then, as TVM has it."""
        found = np.asarray(unwrapped(data))
        return Tensor(_expr=R.const(found, _NARROWED.get(str(found.dtype), str(found.dtype))))

    @staticmethod
    def from_scalar(data: float, dtype: str) -> "Tensor":
        """A number as a constant of a dtype."""
        return Tensor(_expr=R.const(data, dtype))

    @staticmethod
    def from_ty(ty: TensorType, name: str = "tensor") -> "Tensor":
        """A new variable of a type."""
        return Tensor(_expr=Var(name, ty))

    @staticmethod
    def placeholder(shape: Sequence[Any], dtype: str, name: str = "tensor") -> "Tensor":
        """A new variable; a dimension is a number, or the name of a symbol."""
        return Tensor.from_ty(tensor_type(shape, dtype), name)

    @property
    def _ty(self) -> TensorType:
        assert isinstance(self._expr.ty, TensorType)
        return self._expr.ty

    @property
    def shape(self) -> list[Any]:
        """The dimensions, numbers or symbols."""
        if self._ty.dims is None:
            raise ValueError(f"the shape of `{self._expr}` is not known: its type is {self._ty}")
        return list(self._ty.dims)

    @property
    def ndim(self) -> int:
        return self._ty.ndim

    @property
    def dtype(self) -> str:
        return self._ty.dtype or ""

    def __repr__(self) -> str:
        return f'Tensor({self.shape}, "{self.dtype}")'

    def __add__(self, other: Any) -> "Tensor":
        return self._with(R.add, other, "add")

    def __radd__(self, other: Any) -> "Tensor":
        return self._with(R.add, other, "add")

    def __sub__(self, other: Any) -> "Tensor":
        return self._with(R.subtract, other, "subtract")

    def __rsub__(self, other: Any) -> "Tensor":
        return emitted(R.subtract(self._operand(other), self._expr), "subtract")

    def __mul__(self, other: Any) -> "Tensor":
        return self._with(R.multiply, other, "mul")

    def __rmul__(self, other: Any) -> "Tensor":
        return self._with(R.multiply, other, "mul")

    def __truediv__(self, other: Any) -> "Tensor":
        return self._with(R.divide, other, "divide")

    def maximum(self, other: Any) -> "Tensor":
        return self._with(R.maximum, other, "maximum")

    def minimum(self, other: Any) -> "Tensor":
        return self._with(R.minimum, other, "minimum")

    def astype(self, dtype: str) -> "Tensor":
        """The tensor in a dtype: itself where it has it."""
        return self if dtype == self.dtype else emitted(R.astype(self._expr, dtype), "astype")

    def reshape(self, *shape: Any) -> "Tensor":
        """The same numbers in a shape, given as numbers or as one sequence."""
        return emitted(R.reshape(self._expr, one_sequence(shape)), "reshape")

    def permute_dims(self, *axes: Any) -> "Tensor":
        """The axes in an order, given as numbers or as one sequence; reversed where none is."""
        return emitted(R.permute_dims(self._expr, one_sequence(axes) or None), "permute_dims")

    def repeat(self, repeats: int, axis: int | None = None) -> "Tensor":
        return emitted(R.repeat(self._expr, repeats, axis), "repeat")

    def _with(self, operator: Any, other: Any, name: str) -> "Tensor":
        return emitted(operator(self._expr, self._operand(other)), name)

    def _operand(self, other: Any) -> Expr:
        """Another tensor, or a number in this one's dtype."""
        if isinstance(other, Tensor):
            return other._expr
        if isinstance(other, int | float):
            return R.const(other, self.dtype)
        raise TypeError(f"a tensor goes with tensors and numbers, found {other!r}")


def one_sequence(given: tuple[Any, ...]) -> list[Any]:
    """Arguments that are given one by one, or as one sequence."""
    if len(given) == 1 and isinstance(given[0], Sequence):
        return list(given[0])
    return list(given)


def tensor_type(shape: Sequence[Any], dtype: str) -> TensorType:
    """The type of tensors of a shape; each name of a dimension is a new symbol."""
    symbols: dict[Any, Any] = {dim: SymbolicVar(dim) for dim in shape if isinstance(dim, str)}
    return TensorType(tuple(symbols.get(dim, dim) for dim in shape), dtype)


def emitted(expr: Expr, name: str) -> Tensor:
    """Bind an expression of one tensor in the program that is being built."""
    found = wrap_nested(expr, name)
    assert isinstance(found, Tensor)
    return found


def wrap_nested(expr: Expr, name: str) -> Any:
    """Bind an expression in the program that is being built: a Tensor, or a tuple of them."""
    builder = BlockBuilder.current()
    if not isinstance(expr, Var):
        expr = builder.emit(expr, name)
    return _wrapped(builder, expr, name)


def _wrapped(builder: BlockBuilder, var: Expr, name: str) -> Any:
    if isinstance(var.ty, TensorType):
        return Tensor(_expr=var)
    if not isinstance(var.ty, TupleType):
        raise TypeError(f"`{name}` gives {var.ty}, which is no tensor and no tuple of them")
    fields = range(len(var.ty.fields))
    names = [f"{name}_{place}" for place in fields]
    bound = [builder.emit(TupleGetItem(var, place), names[place]) for place in fields]
    return tuple(map(_wrapped, [builder] * len(bound), bound, names))


def unwrap_nested(value: Any) -> Any:
    """What a method returns as an expression: Tensors, and tuples or lists of what is such."""
    if isinstance(value, Tensor):
        return value._expr
    if isinstance(value, tuple | list):
        return R.tuple(*map(unwrap_nested, value))
    if isinstance(value, Expr):
        return value
    raise TypeError(
        f"an exported method returns Tensors, or tuples and lists of them, but found {value!r}"
    )


class Parameter(Tensor):
    """A weight: a tensor of a shape, which may hold an array in `data`."""

    def __init__(self, shape: Sequence[Any], dtype: str | None = None) -> None:
        super().__init__(_expr=Var("param", tensor_type(shape, dtype or get_default_dtype())))
        self._data: NDArray | None = None

    @property
    def data(self) -> NDArray | None:
        """The array that it holds, None where it has none."""
        return self._data

    @data.setter
    def data(self, data: Any) -> None:
        if data is None:
            self._data = None
            return
        found = data if isinstance(data, NDArray) else array(data)
        known = [dim for dim in self.shape if isinstance(dim, int)]
        if found.dtype != self.dtype or (known == self.shape and list(found.shape) != known):
            raise ValueError(
                f"a parameter of shape {self.shape} and dtype {self.dtype} was given an array of "
                f"shape {list(found.shape)} and dtype {found.dtype}"
            )
        self._data = found

    def stand_for(self, value: Expr) -> Expr:
        """Be a value of a program that is being built; what it was before."""
        before, self._expr = self._expr, value
        return before

    def to(self, dtype: str | None = None) -> None:
        """Let the parameter be of another dtype, before it holds an array."""
        if dtype is None or dtype == self.dtype:
            return
        if self._data is not None:
            raise ValueError(
                f"a parameter that holds an array of dtype {self.dtype} cannot become {dtype}: "
                "call `to` before, or give the array in that dtype"
            )
        self._expr = Var("param", tensor_type(self.shape, dtype))
