"""Every operator, by its mere existence, given calls that are spoilt in one place.

What inference takes, the lowering takes, with a result of the inferred type. What it refuses, it
refuses in an error that names the operator and what is wrong with which argument.
"""

from collections.abc import Sequence
from typing import Any

import pytest
from bad_arguments import spoilt
from operator_evaluation import call_of, lowered_shapes, of_type
from operator_sample_table import SAMPLES
from operator_samples import Array, Sample

import relaxjax.ops  # noqa: F401  # fills the table of operators
from relaxjax.ir import Call, TensorType, Var
from relaxjax.ir.op import OPS, Op, get_op
from relaxjax.script import ScriptError, from_source

pytestmark = pytest.mark.usefixtures("in_64_bits")

# Shapes that depend on values cannot be traced, and effects are not to happen here.
UNTRACED = {name for name, op in OPS.items() if "data_dependent" in op.facts or not op.pure}


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_spoilt_calls(name: str) -> None:
    op = get_op(name)
    names = tuple(f"`{param.name}" for param in op.params)
    for title, sample in spoilt(op, SAMPLES[name][0]):
        told, made = _made(op, sample)
        if made is None:
            assert told.startswith(f"{name}: "), f"{title}: {told}"
            assert any(part in told for part in names), f"{title}: {told}"
        elif name not in UNTRACED:
            result = lowered_shapes(*made)
            assert of_type(made[0].ty, result), f"{title}: {made[0].ty}, but {result} returned"


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_a_script_names_the_line_of_a_spoilt_call(name: str) -> None:
    """With the first spoilt tensor that the operator refuses, if there is one."""
    op, right = get_op(name), SAMPLES[name][0]
    call = _made(op, right)[1]
    assert call is not None
    for title, sample in spoilt(op, right):
        arrays = _arrays(sample.args)
        told, made = _made(op, sample)
        if made is not None or len(arrays) != len(call[1]) or arrays == _arrays(right.args):
            continue
        types = (str(TensorType(array.shape, array.dtype)) for array in arrays)
        params = ", ".join(f"x{index}: {ty}" for index, ty in enumerate(types))
        text = (
            f"@R.function(pure={op.pure})\ndef main({params}):\n    y = {call[0]}\n    return y\n"
        )
        with pytest.raises(ScriptError) as caught:
            from_source(text)
        assert caught.value.msg.startswith(told), title
        assert (caught.value.lineno, caught.value.text) == (3, f"    y = {call[0]}"), title
        return


def _arrays(args: Sequence[Any]) -> list[Array]:
    """The arrays among some arguments, those in lists too."""
    found: list[Array] = []
    for arg in args:
        if isinstance(arg, list):
            found += _arrays(arg)
        elif isinstance(arg, Array):
            found.append(arg)
    return found


def _made(op: Op, sample: Sample) -> tuple[str, tuple[Call, dict[Var, Array]] | None]:
    """The call of a sample, or what the operator says against it."""
    try:
        return "", call_of(op, sample)
    except (TypeError, ValueError) as error:
        return str(error), None
