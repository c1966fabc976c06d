"""The samples of operators cover what is awkward: nobody has to remember it for a new operator.

Where an operator cannot have such a sample, a table here names it and says why.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from operator_sample_table import SAMPLES
from operator_samples import Array, Dims, Sample

import relaxjax.ops  # noqa: F401  # fills the table of operators
from relaxjax.ir.op import OPS, get_op

OPERATORS = sorted(name for name in OPS if name.startswith("relax.") and name in SAMPLES)


def given(name: str, sample: Sample) -> dict[str, Any]:
    """What a sample says, by parameter, and what it leaves to the defaults."""
    params = get_op(name).params
    told = dict(zip([param.name for param in params], sample.args, strict=False))
    return {param.name: param.default for param in params} | told | dict(sample.attrs)


def arrays(value: Any) -> Iterator[Array]:
    """The tensors of a sample, those in tuples too."""
    if isinstance(value, Array):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from arrays(item)


def shapes(sample: Sample) -> list[tuple[int, ...]]:
    """The shapes of the tensors of a sample, and those that it asks for."""
    asked = [arg.values for arg in sample.args if isinstance(arg, Dims)]
    return [*(tuple(array.shape) for array in arrays(sample.args)), *asked]


def numbers(value: Any) -> list[int]:
    found = value if isinstance(value, list | tuple) else [value]
    return [number for number in found if isinstance(number, int)]


def has_params(*names: str) -> Callable[[str], bool]:
    return lambda name: set(names) <= {param.name for param in get_op(name).params}


def is_negative(name: str, sample: Sample) -> bool:
    told = given(name, sample)
    return any(n < 0 for axis in ("axis", "axes") for n in numbers(told.get(axis)))


def is_narrow(name: str, sample: Sample) -> bool:
    return any(array.dtype not in ("float32", "float64") for array in [*arrays(sample.args)][:1])


def is_empty(name: str, sample: Sample) -> bool:
    return any(0 in shape for shape in shapes(sample))


def is_scalar(name: str, sample: Sample) -> bool:
    return () in shapes(sample)


def broadcasts(name: str, sample: Sample) -> bool:
    return len(set(shapes(sample))) > 1


def is_spread(name: str, sample: Sample) -> bool:
    """Whether strides, padding and dilation come together."""
    told = given(name, sample)
    steps, pads, gaps = (numbers(told.get(key)) for key in ("strides", "padding", "dilation"))
    return max(steps, default=1) > 1 and max(pads, default=0) > 0 and max(gaps, default=1) > 1


def is_grouped(name: str, sample: Sample) -> bool:
    return max(numbers(given(name, sample).get("groups")), default=1) > 1


def is_binary(name: str) -> bool:
    return is_elementwise(name) and has_params("x1", "x2")(name)


def is_elementwise(name: str) -> bool:
    return bool(get_op(name).facts.get("elementwise"))


def takes_tensors(name: str) -> bool:
    return any(list(arrays(sample.args)) for sample in SAMPLES[name])


Kind = tuple[Callable[[str], bool], Callable[[str, Sample], bool], dict[str, str]]
KINDS: dict[str, Kind] = {
    "a negative axis": (
        lambda name: has_params("axis")(name) or has_params("axes")(name),
        is_negative,
        {
            "relax.inspect.tensor_shape_i": "counts axes from the front, as TVM's does",
            "relax.inspect.tensor_stride_i": "counts axes from the front, as TVM's does",
        },
    ),
    "a dtype that is neither float32 nor float64": (takes_tensors, is_narrow, {}),
    "a tensor without elements": (
        takes_tensors,
        is_empty,
        {"relax.random.key": "takes one integer", "relax.random.fold_in": "takes one integer"},
    ),
    "a scalar": (is_elementwise, is_scalar, {}),
    "operands of several shapes": (
        is_binary,
        broadcasts,
        {"relax.ewise_fma": "takes operands of one shape, as TVM's does"},
    ),
    "strides, padding and dilation together": (
        has_params("strides", "padding", "dilation"),
        is_spread,
        {},
    ),
    "several groups": (has_params("groups"), is_grouped, {}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_operator_has_a_sample_of(kind: str) -> None:
    concerns, matches, without = KINDS[kind]
    lacking = {
        name
        for name in filter(concerns, OPERATORS)
        if not any(matches(name, sample) for sample in SAMPLES[name])
    }
    assert lacking == set(without), f"{kind}: {lacking ^ set(without)}"
