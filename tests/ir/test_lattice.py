"""How types relate: a partial order whose common types are upper bounds."""

import itertools

import pytest

from relaxjax.ir.dims import SymbolicVar
from relaxjax.ir.expr import Var
from relaxjax.ir.lattice import Fit, common_type, erase, fits
from relaxjax.ir.types import FuncType, ObjectType, PrimType, ShapeType, TensorType, TupleType, Type

N, M = SymbolicVar("n"), SymbolicVar("m")
S = Var("s", ShapeType(None, 2))
KNOWN = Var("known", ShapeType((2, N)))
F32 = TensorType((2, N), "float32")
TYPES: list[Type] = [
    ObjectType(),
    PrimType("int64"),
    PrimType("bool"),
    ShapeType(),
    ShapeType(None, 2),
    ShapeType((2, N)),
    TensorType(),
    TensorType(None, "float32"),
    TensorType(None, None, 2),
    TensorType(None, "float32", 2),
    TensorType(S, "float32"),
    TensorType((2, N)),
    F32,
    TensorType((2, 3), "float32"),
    TensorType((2, N), "float16"),
    TensorType((2, N), "float32", vdevice="cpu"),
    TupleType(()),
    TupleType((F32,)),
    TupleType((F32, ObjectType())),
    TupleType((TensorType(), TensorType())),
    FuncType(),
    FuncType(pure=False),
    FuncType((F32,), F32),
    FuncType((F32,), TensorType()),
    FuncType((F32,), F32, pure=False),
    FuncType((TensorType(),), F32),
]


@pytest.mark.parametrize("ty", TYPES, ids=str)
def test_a_type_fits_itself_and_the_top(ty: Type) -> None:
    assert fits(ty, ty) is Fit.ALWAYS
    assert fits(ty, ObjectType()) is Fit.ALWAYS
    assert fits(ty, None) is Fit.ALWAYS
    assert fits(None, TensorType()) is Fit.MAYBE
    assert common_type(ty, ty) == ty


def test_no_two_types_always_fit_each_other() -> None:
    for left, right in itertools.permutations(TYPES, 2):
        both = fits(left, right) is fits(right, left) is Fit.ALWAYS
        assert not both, (left, right)


def test_fitting_is_transitive() -> None:
    for low, middle, high in itertools.product(TYPES, repeat=3):
        if fits(low, middle) is fits(middle, high) is Fit.ALWAYS:
            assert fits(low, high) is Fit.ALWAYS, (low, middle, high)


def test_a_common_type_is_an_upper_bound_in_either_order() -> None:
    for left, right in itertools.product(TYPES, repeat=2):
        common = common_type(left, right)
        assert fits(left, common) is Fit.ALWAYS, (left, right)
        assert fits(right, common) is Fit.ALWAYS, (left, right)
        assert common_type(right, left) == common


@pytest.mark.parametrize(
    ("left", "right", "common"),
    [
        (F32, TensorType((2, M), "float32"), TensorType(None, "float32", 2)),
        (F32, TensorType((2, N), "float16"), TensorType((2, N))),
        (F32, TensorType((2,), "float32"), TensorType(None, "float32")),
        (F32, PrimType("int64"), ObjectType()),
        (ShapeType((2, N)), ShapeType((2, M)), ShapeType(None, 2)),
        (TupleType((F32,)), TupleType((F32, F32)), ObjectType()),
        (TupleType((F32,)), TupleType((TensorType(),)), TupleType((TensorType(),))),
        (FuncType((F32,), F32), FuncType((F32,), F32, False), FuncType((F32,), F32, False)),
        (FuncType((F32,), F32), FuncType((), F32), FuncType()),
    ],
    ids=str,
)
def test_common_types(left: Type, right: Type, common: Type) -> None:
    assert common_type(left, right) == common


@pytest.mark.parametrize(
    ("value", "expected", "fit"),
    [
        (TensorType((N,)), TensorType((N,)), Fit.ALWAYS),
        (TensorType((N,)), TensorType((M,)), Fit.MAYBE),
        (TensorType((N,)), TensorType((N + 1,)), Fit.NEVER),
        (TensorType((2,)), TensorType((3,)), Fit.NEVER),
        (TensorType((2,)), TensorType((2, 1)), Fit.NEVER),
        (TensorType(None, None, 2), TensorType((2, 3)), Fit.MAYBE),
        (TensorType(None, None, 1), TensorType((2, 3)), Fit.NEVER),
        (TensorType(), TensorType(None, None, 1), Fit.MAYBE),
        (TensorType((2,)), TensorType((2,), "float32"), Fit.MAYBE),
        (TensorType((2,), "int32"), TensorType((2,), "float32"), Fit.NEVER),
        (TensorType((2,)), TensorType((2,), vdevice="cpu"), Fit.MAYBE),
        (TensorType((2,), vdevice="gpu"), TensorType((2,), vdevice="cpu"), Fit.NEVER),
        (TensorType((2, 3)), TensorType(S), Fit.MAYBE),
        (TensorType((2, 3, 4)), TensorType(S), Fit.NEVER),
        (TensorType(S), TensorType(None, None, 2), Fit.ALWAYS),
        (TensorType((2, N)), TensorType(KNOWN), Fit.ALWAYS),
        (TensorType((2, N + 1)), TensorType(KNOWN), Fit.NEVER),
        (TensorType(KNOWN), TensorType((2, N)), Fit.ALWAYS),
        (TensorType(S), TensorType(KNOWN), Fit.MAYBE),
        (ShapeType((2,)), TensorType((2,)), Fit.NEVER),
        (PrimType("int64"), PrimType("int32"), Fit.NEVER),
        (ObjectType(), TensorType(), Fit.MAYBE),
        (TupleType((F32, ObjectType())), TupleType((F32, F32)), Fit.MAYBE),
        (TupleType((F32,)), TupleType((F32, F32)), Fit.NEVER),
        (FuncType((F32,), F32, False), FuncType((F32,), F32), Fit.NEVER),
        (FuncType((TensorType(),), F32), FuncType((F32,), F32), Fit.ALWAYS),
        (FuncType((F32,), F32), FuncType((TensorType(),), F32), Fit.MAYBE),
        (FuncType((F32,), F32), FuncType((F32, F32), F32), Fit.NEVER),
        (FuncType(), FuncType((F32,), F32), Fit.MAYBE),
        (FuncType((F32,), F32), FuncType(), Fit.ALWAYS),
    ],
    ids=str,
)
def test_fits(value: Type, expected: Type, fit: Fit) -> None:
    assert fits(value, expected) is fit


@pytest.mark.parametrize(
    ("ty", "erased"),
    [
        (F32, F32),
        (TensorType((M, 2), "float32", vdevice="cpu"), TensorType(None, "float32", 2, "cpu")),
        (TensorType((N + M,)), TensorType(None, None, 1)),
        (TensorType(S, "float32"), TensorType(S, "float32")),
        (TensorType(Var("t", ShapeType())), TensorType()),
        (TensorType(KNOWN, "float32"), F32),
        (TensorType(Var("t", ShapeType((M,)))), TensorType(None, None, 1)),
        (ShapeType((M, 2)), ShapeType(None, 2)),
        (TupleType((F32, TensorType((M,)))), TupleType((F32, TensorType(None, None, 1)))),
        (FuncType((TensorType((M,)),), TensorType((M,))),) * 2,
        (FuncType((F32,), TensorType((M,))), FuncType((F32,), TensorType(None, None, 1))),
        (FuncType((TensorType((M + 1,)),), F32), FuncType()),
        (PrimType("int64"), PrimType("int64")),
    ],
    ids=str,
)
def test_erasing_what_cannot_be_seen(ty: Type, erased: Type) -> None:
    """`n` and `s` are in sight, `m` is not, unless a function type defines it itself."""
    assert erase(ty, {N}, {S}) == erased
    assert fits(ty, erased) is Fit.ALWAYS


def test_what_is_all_in_sight_stays_the_same_object() -> None:
    ty = TupleType((F32, FuncType((F32,), F32)))
    assert erase(ty, {N}) is ty
