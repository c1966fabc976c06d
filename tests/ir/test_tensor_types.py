"""What a value's type says of it as a tensor."""

from relaxjax.ir import ObjectType, SymbolicVar, TensorType, TupleType, Var
from relaxjax.ir.tensor_types import has_floats, known_dims, known_dtype, known_ndim, static_dims

N = SymbolicVar("n")


def test_a_tensor() -> None:
    x = Var("x", TensorType((N, 3), "float32"))
    assert (known_dtype(x), known_ndim(x), known_dims(x)) == ("float32", 2, (N, 3))


def test_what_is_no_tensor_says_nothing() -> None:
    for x in (Var("x", ObjectType()), Var("x")):
        assert (known_dtype(x), known_ndim(x), known_dims(x)) == (None, -1, None)


def test_a_shape_is_static_where_all_of_it_is_numbers() -> None:
    assert static_dims(TensorType((2, 3), "float32")) == (2, 3)
    assert static_dims(TensorType((), "float32")) == ()
    assert static_dims(TensorType((N, 3), "float32")) is None
    assert static_dims(TensorType(dtype="float32")) is None
    assert static_dims(TupleType(())) is None


def test_floats_are_of_a_float_dtype_and_there_are_some() -> None:
    assert has_floats(TensorType((N, 3), "bfloat16"))
    assert not has_floats(TensorType((2,), "int32"))
    assert not has_floats(TensorType((2, 0), "float32"))
    assert not has_floats(TensorType(dtype="float32", ndim=2))
    assert not has_floats(None)
