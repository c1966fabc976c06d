"""The numbers that operators give, against references that know nothing of their lowerings."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import chex
import jax
import numpy as np
import pytest
from numpy_references import REFERENCES
from operator_evaluation import call_of, evaluate
from operator_sample_table import SAMPLES
from operator_samples import Array, Dims

import relaxjax.ops  # noqa: F401  # fills the table of operators
from relaxjax.ir.expr import Call
from relaxjax.ir.registry import get_op

# Little work to compile, because each program runs once.
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
CASES = [(name, index) for name in sorted(REFERENCES) for index in range(len(SAMPLES[name]))]
# Relative and absolute error, by the number of bytes of the narrowest float.
TOLERANCES = {1: (3e-2, 3e-2), 2: (3e-2, 3e-2), 4: (1e-5, 1e-6), 8: (1e-9, 1e-9)}
# Slopes by central differences are less exact, and sums of many of float32.
BACKWARD = (1e-5, 1e-6)


@pytest.fixture(autouse=True)
def _wide() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@lru_cache(1)
def _results(name: str) -> list[tuple[list[Any], Any]]:
    """Of each sample of an operator the arrays and the result: of all of them in one program."""
    op, given = get_op(name), []
    calls = [call_of(op, sample) for sample in SAMPLES[name]]
    for sample, (_, arrays) in zip(SAMPLES[name], calls, strict=True):
        given.append([array.value(sample.seed(i)) for i, array in enumerate(arrays.values())])

    def run(given: Any) -> Any:
        return [
            evaluate(call, dict(zip(arrays, values, strict=True)))
            for (call, arrays), values in zip(calls, given, strict=True)
        ]

    return list(zip(given, jax.jit(run, compiler_options=QUICK)(given), strict=True))


@pytest.mark.parametrize(("name", "index"), CASES)
def test_the_reference_agrees(name: str, index: int) -> None:
    sample = SAMPLES[name][index]
    values, found = _results(name)[index]
    with np.errstate(all="ignore"):
        given = iter(values) if name.startswith("relax.random.") else map(_widened, values)
        expected = REFERENCES[name](*_plain(sample.args, given), **sample.attrs)
    sizes = [_size(leaf) for leaf in (*values, *jax.tree.leaves(found))]
    rtol, atol = TOLERANCES[min(sizes, default=8)]
    if name.startswith("relax.grad."):
        rtol, atol = max(rtol, BACKWARD[0]), max(atol, BACKWARD[1])
    assert jax.tree.map(np.shape, found) == jax.tree.map(np.shape, expected)
    chex.assert_trees_all_close(_as_floats(found), _as_floats(expected), rtol=rtol, atol=atol)


def _size(value: Any) -> int:
    """How many bytes a float has; of what is none, as many as count for exact."""
    dtype = np.result_type(value) if isinstance(value, int) else value.dtype
    return dtype.itemsize if jax.numpy.issubdtype(dtype, np.floating) else 8


def _as_floats(values: Any) -> Any:
    return jax.tree.map(_as_float, values)


def _as_float(value: Any) -> Any:
    if isinstance(value, jax.Array) and jax.numpy.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    return np.asarray(value).astype("float64")


def _widened(value: Any) -> Any:
    """Floats of 16 bits as numpy computes with them."""
    return value.astype("float64") if _size(value) < 4 else value


def _plain(args: Any, values: Iterator[Any]) -> list[Any]:
    """The arguments of a sample as numpy takes them."""
    return [_plain_argument(arg, values) for arg in args]


def _plain_argument(arg: Any, values: Iterator[Any]) -> Any:
    match arg:
        case Array():
            return next(values)
        case Dims(dims):
            return dims
        case Call():
            return evaluate(arg, {})  # a random key
        case list() if any(isinstance(item, Array) for item in arg):
            return _plain(arg, values)
    return getattr(arg, "data", getattr(arg, "value", arg))
