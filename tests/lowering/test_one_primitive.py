"""Elementwise operators that are one primitive are traced once for all shapes."""

import pytest
from parsing import parse_flow

from relaxjax.ir.module import IRModule
from relaxjax.lowering.tracing import _traced
from relaxjax.passes import LegalizeOps

SHAPES = [(2,), (3,), (2, 5), (4, 1, 2), (0, 3)]


def computing(text: str, shape: tuple[int, ...], dtype: str = "float32") -> IRModule:
    """A function of `x` and `y`, of a shape, and of a scalar `s`."""
    tensor = f'R.Tensor({shape}, "{dtype}")'
    return parse_flow(f"z = {text}", x=tensor, y=tensor, s=f'R.Tensor((), "{dtype}")')


@pytest.mark.parametrize(
    ("text", "primitive"),
    [
        ("R.add(x, y)", "L.add(x, y)"),
        ("R.subtract(s, x)", "L.sub(s, x)"),
        ("R.divide(x, s)", "L.div(x, s)"),
        ("R.multiply(R.const(2.0), x)", 'L.mul(R.const(2.0, "float32"), x)'),
        ("R.sqrt(x)", "L.sqrt(x)"),
        ('R.astype(x, "float16")', 'L.convert_element_type(x, new_dtype="float16"'),
    ],
)
def test_one_shape_tells_of_all(text: str, primitive: str) -> None:
    traces = set()
    for shape in SHAPES:
        script = str(LegalizeOps("cpu")(computing(text, shape)).script())
        assert script.count(primitive) == 1
        assert script.count("L.") == 1
        traces.add(_traced.cache_info().misses)
    assert len(traces) == 1


@pytest.mark.parametrize(
    ("text", "shape"), [("R.add(x, R.reshape(s, (1, 1, 1)))", "1, 3, 4"), ("R.nn.relu(x)", "3, 4")]
)
def test_what_is_more_than_a_primitive_is_traced_as_it_is(text: str, shape: str) -> None:
    """Such as the zeros that a maximum is taken with, and what broadcasts."""
    script = str(LegalizeOps("cpu")(computing(text, (3, 4))).script())
    assert script.count("L.broadcast_in_dim") >= 1
    assert f"R.Tensor(({shape})" in script


def test_dtypes_are_told_apart() -> None:
    for dtype in ("float32", "int32"):
        mod = LegalizeOps("cpu")(computing("R.divide(x, y)", (3,), dtype))
        assert mod["main"].ret_ty.dtype == dtype


def test_lowerings_of_the_user_are_asked_for_each_shape() -> None:
    shapes = []

    def lower(x: object, y: object) -> object:
        shapes.append(x.shape)  # type: ignore[attr-defined]  # an array's
        return x + y  # type: ignore[operator]  # of arrays

    for shape in SHAPES[:2]:
        LegalizeOps("cpu", {"relax.add": lower})(computing("R.add(x, y)", shape))
    assert shapes == SHAPES[:2]
