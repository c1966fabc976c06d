"""Parts of nested tuples by their paths, and nests made of their leaves."""

from relaxjax import TensorType, TupleType, Var
from relaxjax.ir.expr import Tuple, TupleGetItem
from relaxjax.ir.tuples import assembled, at, fields_or_self, filled, leaves, one_or_tuple

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


def test_one_value_is_no_tuple() -> None:
    assert one_or_tuple([X]) is X
    assert one_or_tuple([X, Y]) == Tuple((X, Y))
    assert fields_or_self(X) == (X,)
    assert fields_or_self(NEST) == NEST.fields
