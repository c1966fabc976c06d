"""Operators whose results have shapes by their values, which cannot be compiled."""

import jax
import numpy as np
import pytest

from relaxjax.ir.op import get_op
from relaxjax.ops import OpError


@pytest.mark.parametrize("name", ["relax.unique", "relax.nonzero"])
def test_a_shape_that_depends_on_values_cannot_be_compiled(name: str) -> None:
    lower = get_op(name).lower
    assert lower is not None
    flags = (True, False, False, False) if name == "relax.unique" else ()
    with pytest.raises(OpError, match=f"{name}: the shape of the result depends on values, which"):
        jax.jit(lambda x: lower(x, *flags))(np.zeros(3, "float32"))


def test_a_shape_cannot_be_computed_in_a_compiled_program() -> None:
    lower = get_op("relax.tensor_to_shape").lower
    assert lower is not None
    with pytest.raises(OpError, match=r"relax.tensor_to_shape: a shape must be known when the"):
        jax.jit(lambda x: lower(x)[0])(np.zeros(3, "int32"))


def test_places_computed_in_the_program_give_no_slice_of_known_shape() -> None:
    import jax

    x, places = np.zeros(4, "float32"), np.zeros(1, "int64")
    lower = get_op("relax.dynamic_strided_slice").lower
    assert lower is not None
    with pytest.raises(OpError, match=r"relax.dynamic_strided_slice: the places must be known"):
        jax.jit(lower)(x, places, places, places + 1)
