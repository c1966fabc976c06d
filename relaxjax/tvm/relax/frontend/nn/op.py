"""Operators on the tensors of a program that is being built; `name` is that of the result."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from relaxjax.ir.expr import Expr
from relaxjax.script import relax as R

from .layer_op import conv1d as conv1d
from .layer_op import conv1d_transpose as conv1d_transpose
from .layer_op import conv2d as conv2d
from .layer_op import conv3d as conv3d
from .layer_op import get_timestep_embedding as get_timestep_embedding
from .layer_op import group_norm as group_norm
from .layer_op import interpolate as interpolate
from .layer_op import layer_norm as layer_norm
from .layer_op import rms_norm as rms_norm
from .layer_op import scaled_dot_product_attention as scaled_dot_product_attention
from .tensors import Tensor, emitted, wrap_nested


def _of_one(operator: Callable[..., Expr], hint: str) -> Callable[..., Tensor]:
    def apply(x: Tensor, name: str = hint) -> Tensor:
        return emitted(operator(x._expr), name)

    return _named(apply, hint, f"`R.{hint}` of each number.")


def _of_two(operator: Callable[..., Expr], hint: str) -> Callable[..., Tensor]:
    def apply(a: Tensor, b: Tensor, name: str = hint) -> Tensor:
        return emitted(operator(a._expr, b._expr), name)

    return _named(apply, hint, f"`R.{hint}` of each two numbers.")


def _of_axes(operator: Callable[..., Expr], hint: str) -> Callable[..., Tensor]:
    def apply(
        x: Tensor, axis: int | list[int] | None = None, keepdims: bool = False, name: str = hint
    ) -> Tensor:
        return emitted(operator(x._expr, axis, keepdims), name)

    return _named(apply, hint, f"`R.{hint}` over some axes, or all.")


def _named(function: Callable[..., Tensor], name: str, told: str) -> Callable[..., Tensor]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = told
    return function


exp = _of_one(R.exp, "exp")
floor = _of_one(R.floor, "floor")
log = _of_one(R.log, "log")
negative = _of_one(R.negative, "neg")
relu = _of_one(R.nn.relu, "relu")
sigmoid = _of_one(R.sigmoid, "sigmoid")
silu = _of_one(R.nn.silu, "silu")
sqrt = _of_one(R.sqrt, "sqrt")
square = _of_one(R.square, "square")
tanh = _of_one(R.tanh, "tanh")

add = _of_two(R.add, "add")
divide = _of_two(R.divide, "divide")
equal = _of_two(R.equal, "equal")
greater = _of_two(R.greater, "greater")
greater_equal = _of_two(R.greater_equal, "greater_equal")
less = _of_two(R.less, "less")
less_equal = _of_two(R.less_equal, "less_equal")
maximum = _of_two(R.maximum, "maximum")
minimum = _of_two(R.minimum, "minimum")
multiply = _of_two(R.multiply, "mul")
not_equal = _of_two(R.not_equal, "not_equal")
subtract = _of_two(R.subtract, "subtract")

max = _of_axes(R.max, "max")
min = _of_axes(R.min, "min")
sum = _of_axes(R.sum, "sum")


def relu6(x: Tensor, name: str = "relu6") -> Tensor:
    """x between 0 and 6."""
    return emitted(R.clip(x._expr, 0, 6), name)


def gelu(x: Tensor, approximate: str | None = None, name: str = "gelu") -> Tensor:
    """GELU, by its tanh where `approximate` is "tanh"."""
    operator = R.nn.gelu_tanh if approximate == "tanh" else R.nn.gelu
    return emitted(operator(x._expr), name)


def softmax(x: Tensor, axis: int = -1, name: str = "softmax") -> Tensor:
    return emitted(R.nn.softmax(x._expr, axis), name)


def softplus(
    x: Tensor, beta: float = 1.0, threshold: float = 20.0, name: str = "softplus"
) -> Tensor:
    return emitted(R.nn.softplus(x._expr, beta, threshold), name)


def prelu(x: Tensor, alpha: Tensor, name: str = "prelu") -> Tensor:
    """x, times the slope of its channel where it is below 0."""
    return emitted(R.nn.prelu(x._expr, alpha._expr), name)


def matmul(a: Tensor, b: Tensor, out_dtype: str | None = None, name: str = "matmul") -> Tensor:
    return emitted(R.matmul(a._expr, b._expr, out_dtype=out_dtype), name)


def where(condition: Tensor, x1: Tensor, x2: Tensor, name: str = "where") -> Tensor:
    """`x1` where the condition holds, else `x2`; numbers count as holding if they are not 0."""
    holds = condition.astype("bool")._expr
    return emitted(R.where(holds, x1._expr, x2._expr), name)


def astype(x: Tensor, dtype: str, name: str = "astype") -> Tensor:
    """The tensor in a dtype: itself where it has it."""
    return x if x.dtype == dtype else emitted(R.astype(x._expr, dtype), name)


# Shapes and places.


def reshape(x: Tensor, shape: Sequence[Any], name: str = "reshape") -> Tensor:
    return emitted(R.reshape(x._expr, list(shape)), name)


def broadcast_to(x: Tensor, shape: Sequence[Any], name: str = "broadcast_to") -> Tensor:
    return emitted(R.broadcast_to(x._expr, list(shape)), name)


def permute_dims(x: Tensor, axes: list[int] | None = None, name: str | None = None) -> Tensor:
    """The axes in an order, reversed where none is given."""
    return emitted(R.permute_dims(x._expr, axes), name or "permute_dims")


def permute(x: Tensor, axes: list[int] | None, name: str = "permute") -> Tensor:
    return permute_dims(x, axes, name)


def squeeze(x: Tensor, axis: int = -1, name: str = "squeeze") -> Tensor:
    return emitted(R.squeeze(x._expr, axis), name)


def unsqueeze(x: Tensor, dim: int, name: str = "unsqueeze") -> Tensor:
    return emitted(R.expand_dims(x._expr, dim), name)


def concat(x: list[Tensor], dim: int, name: str = "concat") -> Tensor:
    return emitted(R.concat([part._expr for part in x], dim), name)


def split(
    ary: Tensor, indices_or_sections: int | Sequence[int], axis: int = 0, name: str = "split"
) -> tuple[Tensor, ...]:
    """Parts along an axis: so many, or those between the places given."""
    sections = indices_or_sections
    given = sections if isinstance(sections, int) else list(sections)
    return _parts(R.split(ary._expr, given, axis), name)


def chunk(x: Tensor, chunks: int, dim: int = 0, name: str = "chunk") -> tuple[Tensor, ...]:
    return split(x, chunks, dim, name)


def _parts(expr: Expr, name: str) -> tuple[Tensor, ...]:
    found = wrap_nested(expr, name)
    assert isinstance(found, tuple)
    return found


def repeat(x: Tensor, repeats: int, axis: int | None = None, name: str = "repeat") -> Tensor:
    return emitted(R.repeat(x._expr, repeats, axis), name)


def pad(
    x: Tensor, pad: list[int], mode: str = "constant", value: float = 0.0, name: str = "pad"
) -> Tensor:
    """`pad` is how much goes before and behind each axis, the first axis first."""
    return emitted(R.nn.pad(x._expr, pad, pad_value=value, pad_mode=mode), name)


def take(x: Tensor, indices: Tensor, axis: int | None = None, name: str = "take") -> Tensor:
    """Slices by their numbers, along an axis."""
    return emitted(R.take(x._expr, indices._expr, axis), name)


def triu(x: Tensor, diagonal: int = 0, name: str = "triu") -> Tensor:
    return emitted(R.triu(x._expr, diagonal), name)


def cumsum(
    data: Tensor,
    axis: int | None = None,
    dtype: str | None = None,
    exclusive: bool | None = None,
    name: str = "cumsum",
) -> Tensor:
    return emitted(R.cumsum(data._expr, axis, dtype, bool(exclusive)), name)


def sort(x: Tensor, axis: int = -1, descending: bool = False, name: str = "sort") -> Tensor:
    return emitted(R.sort(x._expr, axis, descending), name)


def argsort(
    data: Tensor,
    axis: int = -1,
    descending: bool = False,
    dtype: str = "int32",
    name: str = "argsort",
) -> Tensor:
    return emitted(R.argsort(data._expr, axis, descending, dtype), name)


def topk(
    data: Tensor,
    k: int = 1,
    axis: int = -1,
    ret_type: str = "both",
    largest: bool = True,
    dtype: str = "int32",
    name: str = "topk",
) -> Any:
    """The `k` largest, or smallest, numbers and their places, or one of the two."""
    return wrap_nested(R.topk(data._expr, k, axis, ret_type, largest, dtype), name)


def multinomial_from_uniform(
    prob: Tensor,
    uniform_sample: Tensor,
    sample_indices: Tensor | None = None,
    dtype: str = "int64",
    name: str = "multinomial_from_uniform",
) -> Tensor:
    """A class for each number in [0, 1), by a row of chances: the row of its own place if none is
    given.
    """
    rows = np.arange(uniform_sample.shape[0], dtype="int64")[:, None]
    chosen = Tensor.from_const(rows) if sample_indices is None else sample_indices
    operands = prob._expr, uniform_sample._expr, chosen._expr
    return emitted(R.multinomial_from_uniform(*operands, dtype), name)


# Tensors of given numbers.


def arange(
    start: Any, end: Any = None, step: Any = 1, dtype: str | None = "float32", name: str = "arange"
) -> Tensor:
    """The numbers from `start`, or 0, to before `end`."""
    first, last = (0, start) if end is None else (start, end)
    return emitted(R.arange(first, last, step, dtype=dtype), name)


def full(
    shape: Sequence[Any], fill_value: Any, dtype: str = "float32", name: str = "full"
) -> Tensor:
    value = fill_value._expr if isinstance(fill_value, Tensor) else R.const(fill_value, dtype)
    return emitted(R.full(list(shape), value, dtype=dtype), name)


def zeros(shape: Sequence[Any], dtype: str = "float32", name: str = "zeros") -> Tensor:
    return emitted(R.zeros(list(shape), dtype=dtype), name)


def ones(shape: Sequence[Any], dtype: str = "float32", name: str = "ones") -> Tensor:
    return emitted(R.ones(list(shape), dtype=dtype), name)


def empty(shape: Sequence[Any], dtype: str = "float32", name: str = "empty") -> Tensor:
    """A tensor whose numbers do not matter: zeros."""
    return zeros(shape, dtype, name)


# Between devices.


def ccl_allreduce(
    x: Tensor, op_type: str = "sum", in_group: bool = True, name: str = "ccl_allreduce"
) -> Tensor:
    return emitted(R.ccl.allreduce(x._expr, op_type, in_group), name)


def ccl_allgather(x: Tensor, num_workers: int, name: str = "ccl_allgather") -> Tensor:
    return emitted(R.ccl.allgather(x._expr, num_workers), name)


def ccl_broadcast_from_worker0(x: Tensor, name: str = "broadcast_from_worker") -> Tensor:
    return emitted(R.ccl.broadcast_from_worker0(x._expr), name)
