"""Groups of variables and first values: what has no place in a trainer is refused."""

from typing import Any

import numpy as np
import pytest

from relaxjax.ir import ShapeType, SymbolicVar, TensorType, Var
from relaxjax.training.initial_values import xavier_uniform
from relaxjax.training.layout import Group

FLEXIBLE = Var("w", TensorType((SymbolicVar("n"), 3), "float32"))


def params(*variables: Var) -> Group:
    return Group("params", "parameter", variables)


def test_two_of_one_name_are_an_error() -> None:
    w = TensorType((2,), "float32")
    with pytest.raises(ValueError, match="more than one parameter is called `w`: rename them"):
        params(Var("w", w), Var("b", w), Var("w", w))


def test_a_symbolic_shape_cannot_be_initialised() -> None:
    match = (
        r"parameter `w` cannot be initialised, its shape is not known .* load its values instead"
    )
    with pytest.raises(ValueError, match=match):
        params(FLEXIBLE).initial(np.zeros, [None])


def test_a_symbolic_shape_takes_any_size_and_keeps_its_static_dimensions() -> None:
    group = params(FLEXIBLE)
    (array,) = group.loaded([np.ones((7, 3), "float32")], group.empty(), [None])
    assert array.shape == (7, 3)
    for shape in ((7, 4), (7,), (7, 3, 1)):
        with pytest.raises(ValueError, match=r"parameter `w` .* array of shape"):
            group.loaded([np.ones(shape, "float32")], group.empty(), [None])


def test_an_unknown_shape_takes_any_of_its_rank() -> None:
    group = params(Var("w", TensorType(dtype="float32", ndim=2)))
    (array,) = group.loaded([np.ones((7, 3), "float32")], group.empty(), [None])
    assert array.shape == (7, 3)
    with pytest.raises(ValueError, match=r"parameter `w` .* array of shape \(7,\)"):
        group.loaded([np.ones(7, "float32")], group.empty(), [None])


def test_only_tensors_can_be_held() -> None:
    group = params(Var("s", ShapeType((2,))))
    with pytest.raises(TypeError, match="a trainer holds tensors only, but `s` is of type"):
        group.initial(np.zeros, [None])


@pytest.mark.parametrize(
    ("shape", "fans"),
    [((30, 50), 80), ((16, 8, 3, 3), 24 * 9), ((40,), 40), ((), 1)],
    ids=["matrix", "kernel", "vector", "scalar"],
)
def test_xavier_bounds_by_the_fans(shape: tuple[int, ...], fans: int) -> None:
    draw: Any = xavier_uniform(np.random.default_rng(0), shape, np.dtype("float32"))
    bound = np.sqrt(6 / fans)
    assert draw.dtype == "float32"
    assert draw.shape == shape
    assert 0.25 * bound < np.abs(draw).max() <= bound
