"""The backend "numpy": a region computed on the host, operator by operator, to be looked into."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from relaxjax.ir.expr import Call, np_dtype
from relaxjax.ir.function import Function
from relaxjax.ir.op import Op
from relaxjax.ir.types import TensorType, TupleType, Type, is_float

from .evaluation import Evaluation, Observer, operator_calls
from .numpy_operators import NUMPY


def numpy_supports(call: Call) -> bool:
    """Whether NumPy knows an operator, and its result is one tensor whose type is known."""
    ty = call.ty
    typed = isinstance(ty, TensorType) and ty.dtype is not None and ty.dims is not None
    return typed and isinstance(call.op, Op) and call.op.name in NUMPY


def compile_numpy(region: Function, on_value: Observer | None = None) -> Callable[..., Any]:
    """A region as a callback to the host, where NumPy computes it.

    `on_value(variable, array)` is called with each value: print it, stop a debugger there, or
    raise where it is not finite. NumPy keeps numbers too small to be normal, which XLA takes for 0
    on CPUs.
    """
    if on_value is not None and not callable(on_value):
        raise TypeError(
            f"`on_value` must be a function of a variable and an array, but it is {on_value!r}"
        )
    for call in operator_calls(region):
        if not numpy_supports(call):
            raise NotImplementedError(f"the backend `numpy` cannot compute {call.op}")

    def run(*args: Any) -> Any:
        leaves, structure = jax.tree.flatten(args)
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, jax.Array)]

        def host(*arrays: Any) -> Any:
            values = list(leaves)
            for place, array in zip(places, arrays, strict=True):
                values[place] = np.asarray(array)
            given = jax.tree.unflatten(structure, values)
            result = evaluate_numpy(region, given, on_value)
            return jax.tree.map(lambda shape, item: np.asarray(item, shape.dtype), shapes, result)

        shapes = _result_shapes(region, args)
        arrays = [leaves[place] for place in places]
        return jax.pure_callback(host, shapes, *arrays, vmap_method="sequential")

    return run


def evaluate_numpy(region: Function, args: Sequence[Any], on_value: Observer | None = None) -> Any:
    """The value of a region at some arrays, by NumPy alone."""
    return Evaluation(_operator, on_value).run(region, args)


def _operator(call: Call, args: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    assert isinstance(call.op, Op)
    given = [_widened(arg) for arg in args if arg is not None]
    assert isinstance(call.ty, TensorType)
    with np.errstate(all="ignore"):
        value = NUMPY[call.op.name](*given, **attrs)
        return _converted(np.asarray(value), np_dtype(call.ty.dtype))


def _converted(value: Any, dtype: Any) -> Any:
    """An array in another dtype, as XLA converts: of a float, the nearest integer towards zero."""
    if value.dtype.kind == "c" and dtype.kind != "c":
        value = value.real
    is_rounded = dtype.kind in "iu" and value.dtype.kind not in "iub"
    return _rounded_towards_zero(value, dtype) if is_rounded else value.astype(dtype)


def _rounded_towards_zero(value: Any, dtype: Any) -> Any:
    """Floats as integers: the largest or the smallest one where they are beyond it, 0 for NaN."""
    wide, limits = np.asarray(value, np.float64), np.iinfo(dtype)
    above, below = wide >= float(limits.max), wide <= float(limits.min)
    inside = np.where(above | below | np.isnan(wide), 0, wide).astype(dtype)
    return np.where(above, dtype.type(limits.max), np.where(below, dtype.type(limits.min), inside))


def _widened(value: Any) -> Any:
    """An argument of half precision as float32: NumPy sums up in the dtype that it is given."""
    if isinstance(value, tuple):
        return tuple(map(_widened, value))
    dtype = getattr(value, "dtype", None)
    is_half = dtype is not None and is_float(str(dtype)) and dtype.itemsize < 4
    return np.asarray(value, np.float32) if is_half else value


def _result_shapes(region: Function, args: Sequence[Any]) -> Any:
    """The shapes and dtypes of the results of a region for some arguments."""
    sizes = Evaluation(_operator)
    sizes.bind(region, args)

    def shape(ty: Type | None) -> Any:
        if isinstance(ty, TupleType):
            return tuple(map(shape, ty.fields))
        assert isinstance(ty, TensorType)
        assert ty.dims is not None
        dtype = jax.dtypes.canonicalize_dtype(np_dtype(ty.dtype))
        return jax.ShapeDtypeStruct(tuple(map(sizes.dim, ty.dims)), dtype)

    return shape(region.ret_ty)
