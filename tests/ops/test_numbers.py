"""The numbers that operators give, against numpy, which knows nothing of JAX."""

from collections.abc import Iterator
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
from relaxjax.ir.registry import get_op

# Little work to compile, because each program runs once.
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
CASES = [(name, index) for name in REFERENCES for index in range(len(SAMPLES[name]))]


@pytest.fixture(autouse=True)
def _wide() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize(("name", "index"), CASES)
def test_numpy_agrees(name: str, index: int) -> None:
    sample = SAMPLES[name][index]
    call, arrays = call_of(get_op(name), sample)
    values = [array.value(sample.seed(i)) for i, array in enumerate(arrays.values())]

    def run(*arguments: Any) -> Any:
        return evaluate(call, dict(zip(arrays, arguments, strict=True)))

    found = jax.jit(run, compiler_options=QUICK)(*values)
    with np.errstate(all="ignore"):
        expected = REFERENCES[name](*_plain(sample.args, iter(values)), **sample.attrs)
    loose = any(map(_is_narrow, values))
    tolerance = {"rtol": 3e-2, "atol": 3e-2} if loose else {"rtol": 1e-5, "atol": 1e-6}
    chex.assert_trees_all_close(_as_floats(found), _as_floats(expected), **tolerance)


def _is_narrow(value: Any) -> bool:
    return bool(value.dtype.itemsize < 4 and value.dtype.kind in "fV")


def _as_floats(values: Any) -> Any:
    return jax.tree.map(lambda x: np.asarray(x).astype("float64"), values)


def _plain(args: Any, values: Iterator[Any]) -> list[Any]:
    """The arguments of a sample as numpy takes them, floats of 16 bits widened."""
    return [_plain_argument(arg, values) for arg in args]


def _plain_argument(arg: Any, values: Iterator[Any]) -> Any:
    match arg:
        case Array():
            value = next(values)
            return value.astype("float64") if _is_narrow(value) else value
        case Dims(dims):
            return dims
        case list() if any(isinstance(item, Array) for item in arg):
            return _plain(arg, values)
    return getattr(arg, "data", getattr(arg, "value", arg))
