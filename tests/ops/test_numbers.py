"""The numbers that operators give, against references that know nothing of their lowerings."""

import warnings
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import chex
import jax
import numpy as np
import programs_on_devices  # noqa: F401  # which adds programs
import pytest
from numpy_references import REFERENCES
from numpy_references_functions import PROGRAMS, Program
from operator_evaluation import call_of, evaluate
from operator_sample_table import SAMPLES
from operator_samples import Array, Dims
from parsing import parse_functions
from quickly_compiled_programs import QUICK

import relaxjax.ops  # noqa: F401  # fills the table of operators
from relaxjax import Call, to_jax
from relaxjax.ir.op import OPS, get_op
from relaxjax.ir.walk import post_order

pytestmark = pytest.mark.usefixtures("in_64_bits")

CASES = [(name, index) for name in sorted(REFERENCES) for index in range(len(SAMPLES[name]))]
# Relative and absolute error, by the number of bytes of the narrowest float.
TOLERANCES = {1: (3e-2, 3e-2), 2: (3e-2, 3e-2), 4: (1e-5, 1e-6), 8: (1e-9, 1e-9)}
# Slopes by central differences are less exact, and sums of many of float32.
BACKWARD = (1e-5, 1e-6)


ENOUGH = 3
# What they do when they run is no number: the named file tests it.
EFFECTS = {"relax.print": "test_core.py", "relax.assert_op": "test_core.py"}


@pytest.mark.parametrize("name", [name for name in OPS if name.startswith("relax.")])
def test_every_operator_has_a_reference_and_enough_samples(name: str) -> None:
    """One without parameters has no more than one call."""
    wanted = ENOUGH if get_op(name).params else 1
    if name in PROGRAMS:
        assert len(PROGRAMS[name]) >= wanted
    else:
        assert name in REFERENCES, f"numpy_references has no reference of {name}"
        assert len(SAMPLES.get(name, [])) >= wanted, f"{name} needs {wanted} samples"


@pytest.mark.parametrize("name", EFFECTS)
def test_effects_are_tested_where_it_is_said(name: str) -> None:
    text = (Path(__file__).parent / EFFECTS[name]).read_text()
    assert f'run("{name.removeprefix("relax.")}"' in text


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
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # numpy's, of means of nothing
        given = iter(values) if name.startswith("relax.random.") else map(_widened, values)
        expected = REFERENCES[name](*_plain(sample.args, given), **sample.attrs)
    tolerance = _tolerance((values, found))
    if name.startswith("relax.grad."):
        tolerance = tuple(map(max, tolerance, BACKWARD))
    _assert_close(found, expected, tolerance)


FUNCTIONS = [
    pytest.param(name, program, id=f"{name}-{index}")
    for name, programs in PROGRAMS.items()
    for index, program in enumerate(programs)
]


@pytest.mark.parametrize(("name", "program"), FUNCTIONS)
def test_programs_of_functions_agree(name: str, program: Program) -> None:
    module = parse_functions(program.text)
    assert get_op(name) in {
        part for f in module.relax_functions().values() for part in post_order(f)
    }
    values = [array.value(index) for index, array in enumerate(program.args)]
    found = jax.jit(to_jax(module, "main"), compiler_options=QUICK)(*values)
    _assert_close(found, program.reference(*values), _tolerance((values, found)))


def _assert_close(found: Any, expected: Any, tolerance: tuple[float, ...]) -> None:
    assert jax.tree.map(np.shape, found) == jax.tree.map(np.shape, expected)
    rtol, atol = tolerance
    chex.assert_trees_all_close(_as_floats(found), _as_floats(expected), rtol=rtol, atol=atol)


def _tolerance(values: Any) -> tuple[float, ...]:
    return TOLERANCES[min(map(_size, jax.tree.leaves(values)), default=8)]


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
