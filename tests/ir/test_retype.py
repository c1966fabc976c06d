"""Result types: a changed function has that of its body, where that says more."""

import pytest
from parsing import parse_functions

from relaxjax.ir import TensorType, well_formed
from relaxjax.passes import (
    ConvertLayout,
    LambdaLift,
    Normalize,
    Pass,
    RemoveUnusedOutputs,
    ToMixedPrecision,
)

PRODUCT = """
@R.function
def main(x: R.Tensor(("n", 3), "float32"), w: R.Tensor((3, 2), "float32")) -> R.Tensor(ndim=2):
    with R.dataflow():
        y = R.matmul(x, w)
        R.output(y)
    return y
"""
IMAGE = """
@R.function
def main(
    x: R.Tensor((1, 2, 4, 4), "float32"), w: R.Tensor((2, 2, 1, 1), "float32")
) -> R.Object:
    with R.dataflow():
        y = R.nn.conv2d(x, w)
        R.output(y)
    return y
"""
CLOSURE = """
@R.function
def main(x: R.Tensor((2,), "float32")) -> R.Tensor(dtype="float32"):
    @R.function
    def inner(y: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        return R.add(x, y)

    y = inner(x)
    return y
"""
OUTPUTS = """
@R.function
def main(x: R.Tensor((2,), "float32")) -> R.Tensor(dtype="float32"):
    t = Module.pair(x)
    y = t[0]
    return y

@R.function(private=True)
def pair(x: R.Tensor((2,), "float32")) -> R.Tuple(R.Tensor((2,), "float32"), R.Tensor):
    return (x, x)
"""


@pytest.mark.parametrize(
    ("given", "text", "expected"),
    [
        (Normalize(), PRODUCT, '("n", 2), dtype="float32"'),
        (ToMixedPrecision(), PRODUCT, '("n", 2), dtype="float32"'),
        (
            ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]}),
            IMAGE,
            '(1, 2, 4, 4), dtype="float32"',
        ),
        (LambdaLift(), CLOSURE, '(2,), dtype="float32"'),
        (RemoveUnusedOutputs(), OUTPUTS, '(2,), dtype="float32"'),
    ],
    ids=lambda value: value.info.name if isinstance(value, Pass) else "",
)
def test_a_changed_function_returns_what_is_known_of_its_body(
    given: Pass, text: str, expected: str
) -> None:
    changed = given(parse_functions(text))
    well_formed(changed)
    assert f") -> R.Tensor({expected}):" in changed["main"].script()


def test_a_function_that_others_call_keeps_its_declared_type() -> None:
    mod = parse_functions(
        PRODUCT
        + """
@R.function
def other(x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 2), "float32")):
    y = Module.main(x, w)
    return y
"""
    )
    for given in (ToMixedPrecision(), Normalize()):
        changed = given(mod)
        well_formed(changed)
        assert changed["main"].ret_ty == TensorType(ndim=2)


def test_what_a_pass_does_not_change_stays_the_very_same() -> None:
    mod = parse_functions(CLOSURE)
    assert ToMixedPrecision()(mod) is mod
