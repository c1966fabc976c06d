"""What the elementwise operators compute, in numpy and in SciPy's special functions."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from relaxjax.ir.expr import np_dtype


def _kept(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of floats, in the dtype of its first argument."""
    return lambda x, *rest: function(x, *rest).astype(x.dtype)


def _but_of_bools(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function that leaves booleans as they are."""
    return lambda x: x if x.dtype == bool else function(x)


def _divide(x: Any, y: Any) -> Any:
    """Division, which of integers cuts off towards zero."""
    return np.trunc(np.true_divide(x, y)) if x.dtype.kind in "iu" else x / y


def _along(parameter: Any, axis: int, ndim: int) -> Any:
    """A scale or an offset, one for all or one for each place along `axis`, as it broadcasts."""
    if parameter.size == 1:
        return parameter.reshape((1,) * ndim)
    return np.moveaxis(parameter.reshape((1,) * (ndim - 1) + (-1,)), -1, axis)


def quantize(x: Any, scale: Any, offset: Any, axis: int = -1, out_dtype: str = "int8") -> Any:
    y = x / _along(scale.astype("float64"), axis, x.ndim)
    y = np.rint(y) if "int" in out_dtype else y
    y = y + _along(offset, axis, x.ndim)
    info: Any = np.iinfo(out_dtype) if "int" in out_dtype else _FLOAT8[out_dtype]
    return np.clip(y, info.min, info.max).astype(np_dtype(out_dtype))


class _Range:
    def __init__(self, end: float) -> None:
        self.min, self.max = -end, end


_FLOAT8 = {"float8_e4m3fn": _Range(448), "float8_e5m2": _Range(57344)}


def dequantize(x: Any, scale: Any, offset: Any, axis: int = -1, out_dtype: str = "float32") -> Any:
    wide = x.astype("float64") - _along(offset, axis, x.ndim)
    return wide * _along(scale, axis, x.ndim)


ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "relax.add": np.add,
    "relax.subtract": np.subtract,
    "relax.multiply": np.multiply,
    "relax.divide": _divide,
    "relax.power": np.power,
    "relax.floor_divide": np.floor_divide,
    "relax.mod": np.fmod,
    "relax.floor_mod": np.mod,
    "relax.maximum": np.maximum,
    "relax.minimum": np.minimum,
    "relax.atan2": _kept(np.arctan2),
    "relax.log_add_exp": _kept(np.logaddexp),
    "relax.equal": np.equal,
    "relax.not_equal": np.not_equal,
    "relax.less": np.less,
    "relax.less_equal": np.less_equal,
    "relax.greater": np.greater,
    "relax.greater_equal": np.greater_equal,
    "relax.logical_and": np.logical_and,
    "relax.logical_or": np.logical_or,
    "relax.logical_xor": np.logical_xor,
    "relax.logical_not": np.logical_not,
    "relax.bitwise_and": np.bitwise_and,
    "relax.bitwise_or": np.bitwise_or,
    "relax.bitwise_xor": np.bitwise_xor,
    "relax.bitwise_not": np.bitwise_not,
    "relax.left_shift": np.left_shift,
    "relax.right_shift": np.right_shift,
    "relax.ewise_fma": lambda x, y, z: x * y + z,
    "relax.abs": np.abs,
    "relax.acos": np.arccos,
    "relax.acosh": np.arccosh,
    "relax.asin": np.arcsin,
    "relax.asinh": np.arcsinh,
    "relax.atan": np.arctan,
    "relax.atanh": np.arctanh,
    "relax.cbrt": np.cbrt,
    "relax.ceil": np.ceil,
    "relax.cos": np.cos,
    "relax.cosh": np.cosh,
    "relax.digamma": special.digamma,
    "relax.erf": special.erf,
    "relax.erf_inv": special.erfinv,
    "relax.erfc": special.erfc,
    "relax.exp": np.exp,
    "relax.exp2": np.exp2,
    "relax.expm1": np.expm1,
    "relax.floor": np.floor,
    "relax.lgamma": special.gammaln,
    "relax.log": np.log,
    "relax.log10": np.log10,
    "relax.log1p": np.log1p,
    "relax.log2": np.log2,
    "relax.logit": special.logit,
    "relax.negative": _but_of_bools(np.negative),
    "relax.polygamma": lambda x, n: special.polygamma(n, x),
    "relax.round": _but_of_bools(np.rint),
    "relax.rsqrt": lambda x: 1 / np.sqrt(x),
    "relax.sigmoid": special.expit,
    "relax.sign": _but_of_bools(np.sign),
    "relax.sin": np.sin,
    "relax.sinc": np.sinc,
    "relax.sinh": np.sinh,
    "relax.sqrt": np.sqrt,
    "relax.square": lambda x: x * x,
    "relax.tan": np.tan,
    "relax.tanh": np.tanh,
    "relax.trunc": np.trunc,
    "relax.isfinite": np.isfinite,
    "relax.isinf": np.isinf,
    "relax.isnan": np.isnan,
    "relax.clip": lambda x, low, high: np.clip(x, low, high).astype(x.dtype),
    "relax.astype": lambda x, dtype: x.astype(np_dtype(dtype)),
    "relax.wrap_param": lambda x, dtype="float32": x.astype(np_dtype(dtype)),
    "relax.quantize": quantize,
    "relax.dequantize": dequantize,
    "relax.nn.gelu": lambda x: x * special.ndtr(x),
    "relax.nn.gelu_tanh": lambda x: (
        x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    ),
    "relax.nn.leakyrelu": lambda x, alpha=0.01: np.where(x > 0, x, alpha * x),
    "relax.nn.relu": lambda x: np.maximum(x, 0),
    "relax.nn.selu": lambda x: (
        1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x))
    ),
    "relax.nn.silu": lambda x: x * special.expit(x),
    "relax.nn.softplus": lambda x, beta=1.0, threshold=20.0: np.where(
        beta * x > threshold, x, np.log1p(np.exp(beta * x)) / beta
    ),
}
