"""Where the user's arrays lie among those of a step, and how they get there and back."""

import numpy as np
from parsing import parse_module

from relaxjax.ir import IRModule, TensorType, Var
from relaxjax.trainable.storage import Place, Storage, params_of, with_stored_params

# Of five arrays the second is moved, and the first, third and fifth are rows of one.
STORAGE = Storage.apart(5).moved({1: (1, 0)}).stacked([(0, 2, 4)])
OWN = [np.full((2, 3), number, "float32") for number in range(5)]


def test_a_stack_stands_where_its_first_row_stood() -> None:
    assert STORAGE.places == (
        Place(0, 0),
        Place(1, order=(1, 0)),
        Place(0, 1),
        Place(2),
        Place(0, 2),
    )
    assert STORAGE.members == [(0, 2, 4), (1,), (3,)]
    assert STORAGE.stacks == [(0, 2, 4)]
    assert not STORAGE.is_apart
    assert Storage.apart(3).is_apart


def test_rows_of_what_is_moved_stay_moved() -> None:
    moved = Storage.apart(2).moved({0: (1, 0), 1: (1, 0)}).stacked([(0, 1)])
    assert moved.places == (Place(0, 0, (1, 0)), Place(0, 1, (1, 0)))
    own = [np.arange(6.0).reshape(2, 3), np.arange(6.0, 12).reshape(2, 3)]
    (stack,) = moved.inside(own)
    assert stack.shape == (2, 3, 2)
    for found, wanted in zip(moved.outside([stack]), own, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_arrays_go_in_and_come_out_again() -> None:
    held = STORAGE.inside(OWN)
    assert [array.shape for array in held] == [(3, 2, 3), (3, 2), (2, 3)]
    for found, wanted in zip(STORAGE.outside(held), OWN, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_a_stack_stays_in_parts_until_all_of_them_have_values() -> None:
    assert STORAGE.inside([None] * 5) == (None, None, None)
    parts, *_ = STORAGE.inside([OWN[0], None, None, None, None])
    assert parts[1:] == (None, None)
    first, *rest = STORAGE.outside([parts, None, None])
    np.testing.assert_array_equal(first, OWN[0])
    assert rest == [None] * 4


def test_a_module_states_it_in_text_that_reads_back() -> None:
    names = [f"w{number}" for number in range(5)]
    mod = with_stored_params(IRModule({}), names, STORAGE)
    assert mod.attrs["param_num"] == 3
    again = parse_module(mod.script())
    arrays = [Var("a", TensorType(shape, "float32")) for shape in ((3, 2, 3), (3, 2), (2, 3))]
    own, storage = params_of(again, arrays)
    assert storage == STORAGE
    assert [var.name for var in own] == names
    assert {str(var.ty) for var in own} == {str(TensorType((2, 3), "float32"))}
