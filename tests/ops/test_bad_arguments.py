"""Every operator, by its mere existence, given calls that are spoilt in one place.

What inference takes, the lowering takes, with a result of the inferred type. What it refuses, it
refuses in an error that names the operator and what is wrong with which argument.
"""

from collections.abc import Iterator

import jax
import pytest
from bad_arguments import spoilt
from operator_evaluation import call_of, lowered_shapes, of_type
from operator_sample_table import SAMPLES

import relaxjax.ops  # noqa: F401  # fills the table of operators
from relaxjax.ir.registry import OPS, get_op

# Shapes that depend on values cannot be traced, and effects are not to happen here.
UNTRACED = {name for name, op in OPS.items() if "data_dependent" in op.facts or not op.pure}


@pytest.fixture(autouse=True)
def _wide() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_spoilt_calls(name: str) -> None:
    op = get_op(name)
    names = tuple(f"`{param.name}" for param in op.params)
    for title, sample in spoilt(op, SAMPLES[name][0]):
        told = ""
        try:
            call, arrays = call_of(op, sample)
        except (TypeError, ValueError) as error:
            told = str(error)
        if told:
            assert told.startswith(f"{name}: "), f"{title}: {told}"
            assert any(part in told for part in names), f"{title}: {told}"
        elif name not in UNTRACED:
            result = lowered_shapes(call, arrays)
            assert of_type(call.ty, result), f"{title}: {call.ty} inferred, {result} returned"
