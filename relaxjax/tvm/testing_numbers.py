"""Gradients by differences, and arrays of random bits, as tests written for TVM ask for them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from relaxjax.ir.expr import np_dtype

from .nd import unwrapped

Array: TypeAlias = np.ndarray[Any, Any]
Arrays: TypeAlias = Mapping[str, Any] | Sequence[Any]


def check_numerical_grads(
    function: Callable[..., Any],
    input_values: Arrays,
    grad_values: Arrays,
    function_value: float | None = None,
    delta: float = 1e-3,
    atol: float = 1e-2,
    rtol: float = 0.1,
) -> None:
    """Raise an AssertionError unless gradients agree with differences of a function.

    Args:
        function: gives a number for the inputs, by their names if they are in a dict.
        input_values: the inputs where the gradients were computed.
        grad_values: the gradients, in the order of the inputs or by their names.
        function_value: what the function gives for the inputs, if that is known.
        delta: how far one element is moved, if that is enough.
        atol: how far a gradient may be off, times the square root of its size.
        rtol: how far it may be off, relative to its norm.
    """
    inputs = _by_name(input_values)

    def value(arrays: Mapping[str, Array]) -> float:
        named = isinstance(input_values, Mapping)
        return float(unwrapped(function(**arrays) if named else function(*arrays.values())))

    def difference(name: str, index: tuple[int, ...], step: float) -> float:
        moved = inputs[name].copy()
        moved[index] += step
        return (value({**inputs, name: moved}) - start) / step

    start = value(inputs) if function_value is None else float(function_value)
    for name, gradient in _by_name(grad_values).items():
        point = inputs[name]
        if gradient.shape != point.shape:
            raise AssertionError(
                f"the gradient of `{name}` is of shape {gradient.shape}, but the input of "
                f"{point.shape}"
            )
        numerical = np.zeros(gradient.shape)
        for index in np.ndindex(gradient.shape):
            for estimate in _estimates(partial(difference, name, index), delta):
                numerical[index] = estimate
                if abs(estimate - gradient[index]) < atol + rtol * abs(estimate):
                    break
        _compare(name, gradient, numerical, atol, rtol)


def _estimates(difference: Callable[[float], float], delta: float) -> Iterator[float]:
    """A derivative from two, three and five points, each time nearer to the true one."""
    ahead = difference(delta)
    yield ahead
    central = (ahead + difference(-delta)) / 2
    yield central
    closer = (difference(delta / 2) + difference(-delta / 2)) / 2
    yield (4 * closer - central) / 3


def _compare(name: str, gradient: Array, numerical: Array, atol: float, rtol: float) -> None:
    exact = np.asarray(gradient, "float64")
    distance, norm = np.linalg.norm(numerical - exact), np.linalg.norm(numerical)
    both = f"the gradient is\n{gradient}\nand by differences it is\n{numerical}"
    if not np.isfinite(distance):
        raise ValueError(f"a gradient of `{name}` is not finite: {both}")
    allowed = atol * np.sqrt(exact.size) + rtol * norm
    if distance > allowed:
        wrong = np.argwhere(np.abs(numerical - exact) >= atol + rtol * np.abs(numerical))
        raise AssertionError(
            f"the gradient of `{name}` is {distance:g} away from its differences, and {allowed:g} "
            f"is allowed; first wrong elements: {wrong[:10].tolist()}. Here {both}"
        )


def _by_name(arrays: Arrays) -> dict[str, Array]:
    pairs = arrays.items() if isinstance(arrays, Mapping) else enumerate(arrays)
    return {str(name): np.asarray(unwrapped(array)) for name, array in pairs}


def np_dtype_from_str(dtype: str) -> np.dtype[Any]:
    """The numpy dtype of that name, those of few bits among them."""
    return np.dtype(np_dtype(dtype))


def generate_random_array(dtype: str, shape: Sequence[int]) -> Array:
    """An array of random bits without infinities and NaN."""
    try:
        kind = np_dtype_from_str(dtype)
    except TypeError as error:
        raise ValueError(str(error)) from None
    random = np.random.default_rng(np.random.randint(2**31))  # so that np.random.seed counts

    def drawn(sizes: Any) -> Array:
        if kind == np.dtype(bool):
            return np.asarray(random.integers(0, 2, sizes), bool)
        raw = random.bytes(int(np.prod(sizes)) * kind.itemsize)
        bits: Array = np.frombuffer(raw, kind).reshape(sizes)
        return bits.copy()

    result = drawn(tuple(shape))
    while np.any(bad := ~np.isfinite(result.astype(np.promote_types(kind, "float32"), copy=False))):
        result[bad] = drawn((int(bad.sum()),))
    return result
