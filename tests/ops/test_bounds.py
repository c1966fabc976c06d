"""Places that a tensor does not have: nothing is read or written there, and no adjoint comes."""

from typing import Any

import numpy as np
import pytest

from relaxjax import Function, IRModule, VirtualMachine, build, from_source
from relaxjax.passes import Gradient, Jvp

N = np.nan
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


@pytest.mark.parametrize(
    ("read", "places", "value", "gradient"),
    [
        ("R.gather_elements(x, i, 0)", [[5, -1], [-4, 1]], [[N, 6], [N, 4]], [0, 0, 0, 8, 0, 12]),
        ("R.gather_nd(x, i)", [[3], [-1]], [[N, N], [5, 6]], [0, 0, 0, 0, 10, 12]),
        ("R.gather_nd(x, i)", [[0, 2], [2, -3], [1, 0]], [N, N, 3], [0, 0, 6, 0, 0, 0]),
        ("R.gather_nd(x, i, 1)", [[2], [-2], [1]], [N, 3, 6], [0, 0, 6, 0, 0, 12]),
        ("R.index_tensor(x, (i,))", [3, -1], [[N, N], [5, 6]], [0, 0, 0, 0, 10, 12]),
    ],
)
def test_what_is_read_outside_is_undefined_and_has_no_gradient(
    read: str, places: Any, value: Any, gradient: list[float]
) -> None:
    """It was the nearest element, which got no gradient for it."""
    indices = np.asarray(places, "int64")
    program = from_source(f"""
@R.function
def main(x: R.Tensor((3, 2), "float32"), i: R.Tensor({indices.shape}, "int64")):
    with R.dataflow():
        y = {read}
        out = R.sum(R.multiply(y, y))
        R.output(out, y)
    return (out, y)
""")
    assert isinstance(program, Function)
    mod = Gradient("main", target_index=0)(IRModule({"main": program}))
    (_, found), (to_x, _) = VirtualMachine(build(mod))["main_adjoint"](X, indices)
    np.testing.assert_array_equal(found, np.asarray(value, "float32"))
    np.testing.assert_array_equal(np.ravel(to_x), gradient)


@pytest.mark.parametrize("write", ["R.scatter_elements", "R.scatter_nd"])
@pytest.mark.parametrize("mode", ["add", "mul"])
def test_of_an_unknown_shape_what_can_be_read_tells_where_updates_went(
    write: str, mode: str
) -> None:
    """The gradient was refused, because places were compared with the shape."""
    pairs = write == "R.scatter_elements"
    places = np.asarray([[0, 3], [2, -4]] if pairs else [[0], [3]], "int64")
    program = from_source(f"""
@R.function
def main(
    x: R.Tensor(ndim=2, dtype="float32"),
    i: R.Tensor({places.shape}, "int64"),
    u: R.Tensor((2, 2), "float32"),
):
    with R.dataflow():
        out = R.sum({write}(x, i, u, reduction="{mode}"))
        R.output(out)
    return out
""")
    assert isinstance(program, Function)
    mod = Gradient("main")(IRModule({"main": program}))
    _, found = VirtualMachine(build(mod))["main_adjoint"](X, places, np.ones((2, 2), "float32"))
    factors = [1, 1] if mode == "add" else [X[0, 0], X[2, 0] if pairs else X[0, 1]]
    wanted = np.asarray([[factors[0], 0], [factors[1], 0]] if pairs else [factors, [0, 0]])
    np.testing.assert_array_equal(found[2], wanted)


@pytest.mark.parametrize("mode", ["add", "update", "mul", "mean", "max"])
def test_nothing_is_written_into_an_empty_tensor(mode: str) -> None:
    """The gradient read where updates went, and there is nothing to be read."""
    program = from_source(f"""
@R.function
def main(
    x: R.Tensor((0, 2), "float32"), i: R.Tensor((2, 1), "int64"), u: R.Tensor((2, 2), "float32")
):
    with R.dataflow():
        out = R.sum(R.scatter_nd(x, i, u, "{mode}"))
        R.output(out)
    return out
""")
    assert isinstance(program, Function)
    mod = Jvp("main")(Gradient("main")(IRModule({"main": program})))
    machine = VirtualMachine(build(mod))
    x, places, updates = X[:0], np.asarray([[0], [5]]), np.ones((2, 2), "float32")
    _, found = machine["main_adjoint"](x, places, updates)
    np.testing.assert_array_equal(found[2], np.zeros((2, 2)))
    _, moved = machine["main_jvp"](x, places, updates, x, updates)
    assert moved == 0
