"""What operators compute, written in NumPy alone: independent of what they lower to."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from relaxjax.ir.expr import np_dtype

Array = Any


def _unary(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of floats: of integers, by way of float64."""
    return lambda x: function(x if np.issubdtype(x.dtype, np.inexact) else _wide(x))


def _wide(x: Array) -> Array:
    return np.asarray(x, np.float64)


def _by_element(function: Callable[[float], float]) -> Callable[[Array], Array]:
    return lambda x: np.vectorize(function, otypes=[np.float64])(_wide(x))


_erf = _by_element(math.erf)


def _lgamma(x: float) -> float:
    """The logarithm of |gamma|, where `math` gives up: at the poles, and past the largest float."""
    try:
        return math.lgamma(x)
    except (ValueError, OverflowError):
        return math.inf


def _sigmoid(x: Array) -> Array:
    return np.exp(-np.logaddexp(0, -_wide(x)))


def _softplus(data: Array, beta: float, threshold: float) -> Array:
    scaled = _wide(data) * beta
    return np.where(scaled > threshold, data, np.logaddexp(0, scaled) / beta)


def _gelu_tanh(data: Array) -> Array:
    inner = math.sqrt(2 / math.pi) * (data + 0.044715 * data**3)
    return 0.5 * data * (1 + np.tanh(inner))


def _selu(data: Array) -> Array:
    scale, alpha = 1.0507009873554805, 1.6732632423543772
    return scale * np.where(data > 0, data, alpha * np.expm1(np.minimum(data, 0)))


def _by_kind(of_integers: Callable[..., Any], of_others: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x1, x2: (of_integers if x1.dtype.kind in "iu" else of_others)(x1, x2)


def _through_floats(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of floats: of integers, by way of float32."""
    return lambda x1, x2: function(*(x if x.dtype.kind == "f" else _single(x) for x in (x1, x2)))


def _single(x: Array) -> Array:
    return np.asarray(x, np.float32)


def _quotient_rounded_down(x1: Array, x2: Array) -> Array:
    """Of integers: -1 where there is no quotient."""
    return np.where(x2 == 0, np.invert(np.zeros_like(x1)), np.floor_divide(x1, x2))


def _quotient(x1: Array, x2: Array) -> Array:
    """Of integers, cut off towards zero."""
    is_cut = (np.fmod(x1, x2) != 0) & ((x1 < 0) != (x2 < 0))
    return _quotient_rounded_down(x1, x2) + is_cut.astype(x1.dtype)


def _remainder(x1: Array, x2: Array) -> Array:
    """Of integers."""
    return np.where(x2 == 0, x1, np.fmod(x1, x2))


def _power(x1: Array, x2: Array) -> Array:
    """Of integers: those with negative exponents are cut off towards zero."""
    powers = np.power(x1, np.where(x2 < 0, x2 & x2.dtype.type(1), x2))
    fraction = np.where(x1 == 0, np.invert(np.zeros_like(x1)), np.zeros_like(x1))
    is_unit = (x1 == 1) | ((x1 < 0) & (x1 + x1.dtype.type(1) == 0))
    return np.where((x2 < 0) & ~is_unit, fraction, powers)


def _but_of_bools(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of numbers, which leaves bools as they are."""
    return lambda x: x if x.dtype == bool else function(x)


def _reduction(function: Callable[..., Any]) -> Callable[..., Any]:
    def reduce(x: Array, axis: Any, keepdims: bool) -> Array:
        return function(x, axis=axis, keepdims=keepdims)

    return reduce


def _log_sum_exp(x: Array, axis: Any, keepdims: bool) -> Array:
    most = np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(most), most, 0)
    total = np.log(np.sum(np.exp(x - top), axis=axis, keepdims=True)) + top
    return total if keepdims else np.squeeze(total, axis=axis)


def _log_softmax(data: Array, axis: int) -> Array:
    shifted = data - np.max(data, axis=axis, keepdims=True, initial=-np.inf)
    return shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))


def _softmax(data: Array, axis: int) -> Array:
    return np.exp(_log_softmax(data, axis))


def _layer_norm(
    data: Array, gamma: Array, beta: Array, axes: Any, epsilon: float, center: bool, scale: bool
) -> Array:
    places = [axis % data.ndim for axis in axes]

    def spread(parameter: Array) -> Array:
        in_order = np.transpose(parameter, np.argsort(places))
        missing = [axis for axis in range(data.ndim) if axis not in places]
        return np.expand_dims(in_order, missing)

    mean = data.mean(axis=axes, keepdims=True)
    normal = (data - mean) / np.sqrt(data.var(axis=axes, keepdims=True) + epsilon)
    scaled = normal * spread(gamma) if scale else normal
    return scaled + spread(beta) if center else scaled


def _cross_entropy(predictions: Array, labels: Array) -> Array:
    rows = predictions.shape[0] if predictions.ndim > 1 else 1
    return -np.sum(predictions * labels) / rows


def _collapse(data: Array, shape: Any) -> Array:
    """The sum over what broadcasting `shape` to the shape of `data` would repeat."""
    lead = data.ndim - len(shape)
    padded = (1,) * lead + tuple(shape)
    pairs = enumerate(zip(padded, data.shape, strict=True))
    axes = tuple(i for i, (small, big) in pairs if small == 1 != big)
    return data.sum(axis=axes, keepdims=True).reshape(shape)


def _matmul(x1: Array, x2: Array, out_dtype: Any) -> Array:
    dtype = np.result_type(x1, x2, *([np_dtype(out_dtype)] if out_dtype else []))
    return np.matmul(x1.astype(dtype), x2.astype(dtype))


def _einsum(operands: Any, subscripts: str) -> Array:
    return np.einsum(subscripts, *operands)


_FLOAT_FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: _unary(getattr(np, numpy_name))
    for name, numpy_name in {
        **{name: name for name in ("exp", "expm1", "exp2", "log", "log2", "log10", "log1p")},
        **{name: name for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "sqrt", "cbrt")},
        "asin": "arcsin",
        "acos": "arccos",
        "atan": "arctan",
        "asinh": "arcsinh",
        "acosh": "arccosh",
        "atanh": "arctanh",
    }.items()
}
_ELEMENTWISE: dict[str, Callable[..., Any]] = {
    **_FLOAT_FUNCTIONS,
    **{name: getattr(np, name) for name in ("abs", "square", "floor", "ceil", "round", "trunc")},
    **{name: getattr(np, name) for name in ("isnan", "isinf", "isfinite", "logical_not")},
    **{name: _but_of_bools(getattr(np, name)) for name in ("negative", "sign")},
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": _sigmoid,
    "erf": _erf,
    "erfc": _by_element(math.erfc),
    "lgamma": _by_element(_lgamma),
    "bitwise_not": np.invert,
    "astype": lambda x, dtype: x,
    "clip": lambda x, min, max: np.clip(x, min, max),
    "ewise_fma": lambda x1, x2, x3: x1 * x2 + x3,
    "nn.relu": lambda data: np.maximum(data, 0),
    "nn.leakyrelu": lambda data, alpha: np.where(data > 0, data, data * alpha),
    "nn.silu": lambda data: data * _sigmoid(data),
    "nn.gelu": lambda data: data * 0.5 * (1 + _erf(data / math.sqrt(2))),
    "nn.gelu_tanh": _gelu_tanh,
    "nn.selu": _selu,
    "nn.softplus": _softplus,
}
_BROADCASTING: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in ("add", "subtract", "multiply", "maximum", "minimum")},
    **{name: getattr(np, name) for name in ("equal", "not_equal", "less", "less_equal")},
    **{name: getattr(np, name) for name in ("greater", "greater_equal", "where", "outer")},
    **{name: getattr(np, name) for name in ("logical_and", "logical_or", "logical_xor")},
    **{name: getattr(np, name) for name in ("bitwise_and", "bitwise_or", "bitwise_xor")},
    "divide": _by_kind(_quotient, np.divide),
    "floor_divide": _by_kind(_quotient_rounded_down, np.floor_divide),
    "floor_mod": np.mod,
    "mod": _by_kind(_remainder, np.fmod),
    "power": _by_kind(_power, np.power),
    "atan2": _through_floats(np.arctan2),
    "log_add_exp": _through_floats(np.logaddexp),
    "broadcast_to": np.broadcast_to,
}
_REDUCTIONS: dict[str, Callable[..., Any]] = {
    **{name: _reduction(getattr(np, name)) for name in ("sum", "mean", "max", "min", "prod")},
    **{name: _reduction(getattr(np, name)) for name in ("std", "argmax", "argmin")},
    "variance": _reduction(np.var),
    "logsumexp": _log_sum_exp,
    "collapse_sum_to": _collapse,
    "collapse_sum_like": lambda data, target: _collapse(data, target.shape),
    "nn.softmax": _softmax,
    "nn.log_softmax": _log_softmax,
    "nn.layer_norm": _layer_norm,
    "nn.cross_entropy_with_logits": _cross_entropy,
    "matmul": _matmul,
    "einsum": _einsum,
}
_ARRANGING: dict[str, Callable[..., Any]] = {
    "reshape": np.reshape,
    "flatten": np.ravel,
    "permute_dims": lambda x, axes: np.transpose(x, axes),
    "expand_dims": lambda x, axis: np.expand_dims(x, axis),
    "squeeze": lambda x, axis: np.squeeze(x, axis),
    "concat": lambda tensors, axis: np.concatenate(tensors, axis),
    "stack": lambda tensors, axis: np.stack(tensors, axis),
    "flip": lambda data, axis: np.flip(data, axis),
    "repeat": lambda data, repeats, axis: np.repeat(data, repeats, axis),
    "tile": lambda data, repeats: np.tile(data, repeats),
    "tril": lambda x, k: np.tril(x, int(k)),
    "triu": lambda x, k: np.triu(x, int(k)),
    "zeros": lambda shape, dtype: np.zeros(shape),
    "ones": lambda shape, dtype: np.ones(shape),
    "full": lambda shape, fill_value, dtype: np.full(shape, fill_value),
    "zeros_like": lambda x, dtype: np.zeros(x.shape),
    "ones_like": lambda x, dtype: np.ones(x.shape),
    "full_like": lambda x, fill_value, dtype: np.full(x.shape, fill_value),
}

NUMPY: Mapping[str, Callable[..., Any]] = {
    f"relax.{name}": function
    for table in (_ELEMENTWISE, _BROADCASTING, _REDUCTIONS, _ARRANGING)
    for name, function in table.items()
}
