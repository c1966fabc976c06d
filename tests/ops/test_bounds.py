"""Updates at places that a tensor does not have: they are left out, and have no adjoint."""

from typing import Any

import numpy as np
import pytest

from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.lowering import VirtualMachine, build
from relaxjax.passes import Gradient
from relaxjax.script import from_source

X = np.arange(1, 7, dtype="float32").reshape(3, 2)

# What writes, the places, which of them there are, and the shape of an update.
WRITES: dict[str, tuple[str, list[Any], list[Any], tuple[int, ...]]] = {
    "elements": (
        "R.scatter_elements(x, i, u, 0, {mode!r})",
        [[0, 3], [2, -4], [-2, 9]],
        [[True, False], [True, False], [True, False]],
        (),
    ),
    "slices": (
        "R.scatter_nd(x, i, u, {mode!r})",
        [[0], [3], [-1], [-4]],
        [True, False, True, False],
        (2,),
    ),
    "pairs": (
        "R.scatter_nd(x, i, u, {mode!r})",
        [[0, 1], [3, 0], [2, -3], [-3, -2]],
        [True, False, False, True],
        (),
    ),
}


def adjoint(write: str, places: Any, updates: Any, length: Any = 3) -> Any:
    """That of the updates, of the sum of the squares of what is written."""
    program = from_source(f"""
@R.function
def main(
    x: R.Tensor(({length}, 2), "float32"),
    i: R.Tensor({places.shape}, "int64"),
    u: R.Tensor({updates.shape}, "float32"),
):
    with R.dataflow():
        y = {write}
        out = R.sum(R.multiply(y, y))
        R.output(out)
    return out
""")
    assert isinstance(program, Function)
    mod = Gradient("main")(IRModule({"main": program}))
    _, found = VirtualMachine(build(mod))["main_adjoint"](X, places, updates)
    return np.asarray(found[2])


@pytest.mark.parametrize("length", [3, '"n"'])
@pytest.mark.parametrize("mode", ["update", "add", "mul"])
@pytest.mark.parametrize("name", WRITES)
def test_updates_outside_have_no_adjoint(name: str, mode: str, length: Any) -> None:
    """It would be that of the nearest place, where they were not written."""
    write, places, inside, shape = WRITES[name]
    there = np.asarray(inside)
    updates = np.full((*there.shape, *shape), 2, "float32")
    found = adjoint(write.format(mode=mode), np.asarray(places, "int64"), updates, length)
    assert not found[~there].any()
    assert found[there].all()


@pytest.mark.parametrize("accumulate", [True, False])
@pytest.mark.parametrize(
    ("write", "places", "shape"),
    [
        ("R.index_put(x, (i,), u, {})", [0, 3, -4], (3, 1)),
        ('R.index_put(x, (i, R.const([1, 1, -3], "int64")), u, {})', [-1, 3, 0], (3,)),
    ],
)
def test_values_put_outside_have_no_adjoint(
    write: str, places: list[int], shape: tuple[int, ...], accumulate: bool
) -> None:
    updates = np.full(shape, 2, "float32")
    found = adjoint(write.format(accumulate), np.asarray(places, "int64"), updates)
    assert (found.reshape(3) != 0).tolist() == [True, False, False]
