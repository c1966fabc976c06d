"""Parts of nested tuples by their paths, and nests made of their leaves."""

from relaxjax import ShapeType, TensorType, TupleType, Var
from relaxjax.ir.expr import Tuple, TupleGetItem
from relaxjax.ir.tuples import (
    assembled,
    at,
    each_tensor,
    fields_or_self,
    filled,
    leaf_types,
    leaves,
    leaves_by_type,
    one_or_tuple,
    tensors_in,
)

VECTOR = TensorType((3,), "float32")
X, Y = Var("x", VECTOR), Var("y", VECTOR)
PAIR = Var("pair", TupleType((VECTOR, VECTOR)))
NEST = Tuple((X, Tuple((Y, PAIR))))


def test_a_path_leads_through_what_is_written_out_and_through_a_variable() -> None:
    assert at(NEST, (1, 0)) is Y
    assert at(NEST, (1, 1, 0)) == TupleGetItem(PAIR, 0)
    assert at(NEST, ()) is NEST


def test_leaves_have_paths_by_which_a_nest_is_made_again() -> None:
    assert list(leaves(NEST)) == [((0,), X), ((1, 0), Y), ((1, 1), PAIR)]
    assert filled(NEST, lambda path, leaf: Y if path == (0,) else leaf) == Tuple(
        (Y, NEST.fields[1])
    )
    ty = TupleType((VECTOR, TupleType((VECTOR,))))
    assert assembled(ty, iter([X, Y])) == Tuple((X, Tuple((Y,))))


def test_leaves_by_type_are_taken_out_of_what_is_not_written_out() -> None:
    fields = [TupleGetItem(PAIR, 0), TupleGetItem(PAIR, 1)]
    assert list(leaves_by_type(NEST)) == [X, Y, *fields]
    assert list(leaves_by_type(X)) == [X]


def test_types_in_a_type_have_paths_whatever_they_are() -> None:
    ty = TupleType((VECTOR, TupleType((ShapeType((2,)), VECTOR))))
    assert list(leaf_types(ty)) == [((0,), VECTOR), ((1, 0), ShapeType((2,))), ((1, 1), VECTOR)]
    assert list(tensors_in(ty, (4,))) == [((4, 0), VECTOR), ((4, 1, 1), VECTOR)]
    assert list(leaf_types(None)) == [((), None)]


def test_each_tensor_of_a_type_is_changed_and_nothing_else() -> None:
    ty = TupleType((VECTOR, TupleType((ShapeType((2,)), VECTOR))))
    scalar = TensorType((), "int32")
    changed = each_tensor(ty, lambda tensor: scalar)
    assert changed == TupleType((scalar, TupleType((ShapeType((2,)), scalar))))
    assert each_tensor(ty, lambda tensor: tensor) is ty
    assert each_tensor(None, lambda tensor: scalar) is None


def test_one_value_is_no_tuple() -> None:
    assert one_or_tuple([X]) is X
    assert one_or_tuple([X, Y]) == Tuple((X, Y))
    assert fields_or_self(X) == (X,)
    assert fields_or_self(NEST) == NEST.fields
