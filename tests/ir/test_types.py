"""Types: compared by value, shapes checked when they are made."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from relaxjax.ir import ShapeExpr, SymbolicVar, Var
from relaxjax.ir.global_info import VDevice
from relaxjax.ir.node import replace
from relaxjax.ir.types import (
    FuncType,
    ObjectType,
    PrimType,
    ShapeType,
    TensorType,
    TupleType,
    Type,
    dtype_name,
    is_float,
)

N = SymbolicVar("n")
S = Var("s", ShapeType((N, 3)))
EVERY_TYPE: list[Type] = [
    ObjectType(),
    PrimType("int64"),
    ShapeType((N, 2)),
    ShapeType(None, 3),
    TensorType((N, 2), "float32", vdevice="cpu"),
    TensorType(S, "float16"),
    TensorType(None, None, 4),
    TupleType((TensorType((2,)), ObjectType())),
    FuncType((ObjectType(),), TensorType((N,)), False),
    FuncType(),
]


def test_the_rank_follows_from_the_shape() -> None:
    assert TensorType((N, 2)).ndim == 2
    assert TensorType(S).ndim == 2
    assert TensorType().ndim == -1
    assert ShapeType((N,)).ndim == 1
    assert TensorType((2, 3)).dims == (2, 3)
    assert TensorType(S).dims == (N, 3)
    assert TensorType(Var("unknown", ShapeType(None, 2))).dims is None
    assert TensorType().dims is None


def test_a_shape_may_be_written_in_several_ways() -> None:
    wanted = TensorType((2, N))
    assert TensorType([np.int64(2), N]) == wanted  # type: ignore[list-item]  # numpy goes in
    assert TensorType(ShapeExpr((2, N))) == wanted  # as TVM's callers do
    assert isinstance(TensorType([2]).shape, tuple)


@pytest.mark.parametrize("device", ["cuda", "cuda:0", "cuda:0:global"])
def test_a_device_has_one_form(device: str) -> None:
    assert TensorType((2,), vdevice=device).vdevice == "cuda:0:global"


@pytest.mark.parametrize("index", ["x", "²"])
def test_a_wrong_device_is_an_error(index: str) -> None:
    with pytest.raises(ValueError, match=rf'a device is written "cuda", .* not "cuda:{index}"'):
        TensorType((2,), vdevice=f"cuda:{index}")


def test_a_wrong_shape_is_an_error() -> None:
    with pytest.raises(ValueError, match="`ndim` is 3, but `shape` has 2 dimensions"):
        TensorType((2, 3), ndim=3)
    with pytest.raises(TypeError, match="`shape` must be a tuple of dimensions or a variable"):
        TensorType(3)  # type: ignore[arg-type]  # what is tested
    with pytest.raises(TypeError, match=r"`shape` must be .* found `'float32'`"):
        TensorType("float32")  # type: ignore[arg-type]  # what is tested
    with pytest.raises(TypeError, match=r"`2\.5` is no dimension"):
        TensorType((2.5,))  # type: ignore[arg-type]  # what is tested
    with pytest.raises(TypeError, match="`'n'` is no dimension"):
        ShapeType(("n",))  # type: ignore[arg-type]  # what is tested
    with pytest.raises(ValueError, match=r"must not be negative, found the shape \(-2, 3\)"):
        TensorType((-2, 3))


@pytest.mark.parametrize("ty", EVERY_TYPE, ids=str)
def test_types_are_compared_by_value(ty: Type) -> None:
    copy = replace(ty, span=None)
    assert copy is ty
    assert all((other == ty) == (other is ty) for other in EVERY_TYPE)
    assert len({*EVERY_TYPE, ty}) == len(EVERY_TYPE)


def test_replace_changes_one_field() -> None:
    ty = TensorType((N, 2), "float32")
    assert replace(ty, dtype="float16") == TensorType((N, 2), "float16")
    assert replace(ty, shape=ty.shape) is ty
    assert replace(FuncType((ty,), ty), pure=False) == FuncType((ty,), ty, False)


def test_derivation_rules_do_not_count_in_comparisons() -> None:
    assert FuncType(derive=lambda call: ObjectType()) == FuncType()


def test_dtype_names() -> None:
    assert dtype_name("float8_e4m3fn") == "float8_e4m3fn"
    assert dtype_name(np.float32) == "float32"
    assert dtype_name(jnp.bfloat16) == "bfloat16"
    assert dtype_name(PrimType("int4")) == "int4"
    assert is_float("bfloat16")
    assert is_float("float8_e5m2")
    assert not is_float("int32")
    assert not is_float(None)


def test_short_names_of_dtypes_are_tvms() -> None:
    assert dtype_name("float") == "float32"
    assert dtype_name("int") == "int32"


def test_a_wrong_dtype_is_an_error() -> None:
    with pytest.raises(TypeError, match="there is no dtype `f4`: write `float32`"):
        TensorType((2,), "f4")
    with pytest.raises(TypeError, match="there is no dtype `flaot32`"):
        TensorType((2,), "flaot32")
    for name in ("M8", *("float128" for _ in range(np.longdouble(0).itemsize // 16))):
        with pytest.raises(TypeError, match=f"there is no dtype `{name}` for tensors"):
            TensorType((2,), name)


def test_a_device_may_be_the_third_argument_as_in_tvm() -> None:
    ty = TensorType((2, 3), "float32", vdevice="llvm")
    assert TensorType((2, 3), "float32", "llvm") == ty
    assert TensorType((2, 3), "float32", VDevice("llvm")) == ty
    assert TensorType((2, 3), "float32", vdevice=VDevice({"kind": "llvm"})) == ty
    assert TensorType(None, "float32", "llvm", 2) == TensorType(None, "float32", 2, "llvm")
    assert TensorType(None, "float32", None, 2) == TensorType(None, "float32", 2)


@pytest.mark.parametrize("vdevice", [1.5, [2]])
def test_what_is_no_device(vdevice: object) -> None:
    with pytest.raises(TypeError, match='`vdevice` is a device such as "cuda:0" or'):
        TensorType((2,), vdevice=vdevice)


def test_an_empty_dtype_is_unknown() -> None:
    assert TensorType((2,), "").dtype is None


@pytest.mark.parametrize("ndim", [-2, 1.5])
def test_a_rank_is_a_number_of_dimensions(ndim: Any) -> None:
    with pytest.raises(ValueError, match="`ndim` is the number of dimensions, or -1 if unknown"):
        TensorType(dtype="float32", ndim=ndim, vdevice="cpu")
    with pytest.raises(ValueError, match="`ndim` is the number of dimensions, or -1 if unknown"):
        ShapeType(ndim=ndim)


def test_a_rank_is_that_of_the_dimensions() -> None:
    with pytest.raises(ValueError, match="`ndim` is 3, but `values` has 2 dimensions"):
        ShapeType((1, 2), ndim=3)
    assert ShapeType((1, 2), ndim=2) == ShapeType((1, 2))


@pytest.mark.parametrize("dtype", [[1], "flaot32"])
def test_a_scalar_of_the_host_has_a_dtype(dtype: Any) -> None:
    with pytest.raises(TypeError, match="there is no dtype"):
        PrimType(dtype)
    assert PrimType("handle").dtype == "handle"
    assert PrimType("int") == PrimType("int32")
