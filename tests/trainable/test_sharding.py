"""How arrays are split: fully, by patterns, in stacks; and what a module states of it."""

from typing import Any

import pytest

from relaxjax.ir import IRModule, TensorType, Var
from relaxjax.trainable.sharding import (
    Distribution,
    MeshAxis,
    Split,
    axes_of,
    stored_splits,
    unlike_rows,
)
from relaxjax.trainable.sharding_rules import distribution, full_split
from relaxjax.trainable.storage import Storage

AXES = (MeshAxis("data", 4), MeshAxis("model", 2))


@pytest.mark.parametrize(
    ("dims", "split"),
    [
        ((8, 16), ((), ("data", "model"))),
        ((16, 16), (("data", "model"),)),
        ((12, 6), (("data",), ("model",))),
        ((4, 4), (("data",), ("model",))),
        ((6, 3), (("model",),)),
        ((5, 3), ()),
        ((), ()),
        ((0, 8), ((), ("data", "model"))),
    ],
)
def test_an_array_is_split_as_far_as_the_mesh_divides_it(dims: list[int], split: Split) -> None:
    assert full_split(dims, AXES) == split


def test_stacks_and_moved_axes_are_split_as_their_parts() -> None:
    storage = Storage.apart(3).moved({0: (2, 3, 1, 0)}).stacked([(1, 2)])
    kernel: Split = (("data",), ("model",))
    own = [kernel, (("model",),), (("model",),)]
    assert stored_splits(own, storage) == [((), (), ("model",), ("data",)), ((), ("model",))]
    assert not list(unlike_rows(own, storage))
    assert list(unlike_rows([kernel, (), (("model",),)], storage)) == [(1, 2)]


def var(name: str, *dims: int) -> Var:
    return Var(name, TensorType(dims, "float32"))


def test_what_a_module_states_is_what_was_found() -> None:
    arrays = {"params": [var("w", 8, 6), var("b", 6)], "states": [var("mean", 8)]}
    batch = {"inputs": [var("x", 16, 3), var("classes", 5)], "targets": [var("y", 16)]}
    found = distribution({"w": ("model",), "*": ()}, AXES, arrays, batch, (3, 1))
    stated = IRModule(attrs=found.attrs())
    assert Distribution.of(stated) == found
    assert found.batch == ("data",)
    assert found.group("params") == {"w": (("model",),)}
    assert found.group("inputs") == {"x": (("data",),)}
    assert found.group("targets") == {"y": (("data",),)}
    assert Distribution.of(IRModule()) is None
    assert distribution("data", AXES, arrays, batch).batch == ("data", "model")


@pytest.mark.parametrize("name", ["données", "a b", "", 3])
def test_an_axis_whose_name_xla_does_not_read_is_refused(name: Any) -> None:
    with pytest.raises(ValueError, match=r'a name such as "data", of letters from a to z'):
        axes_of({name: 2})


def test_samples_go_along_the_axes_that_split_nothing_else() -> None:
    axes = axes_of({"rows": 2, "columns": 2})
    arrays, batch = {"params": [var("w", 8, 6)]}, {"inputs": [var("x", 16, 3)]}
    found = distribution({"w": (None, "columns")}, axes, arrays, batch)
    assert found.batch == ("rows",)
    everything = distribution({"w": ("rows", "columns")}, axes, arrays, batch)
    assert (everything.batch, everything.group("inputs")) == ((), {})
