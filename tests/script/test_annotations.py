"""The types of a script, and the symbolic dimensions in them."""

import pytest
from script_programs import MATRIX, function, module

from relaxjax.ir import FuncType, ObjectType, PrimType, ShapeType, TensorType, TupleType, Type
from relaxjax.ir.device_mesh import DeviceMesh, meshes_listed
from relaxjax.ir.dims import SymbolicVar, dim_text
from relaxjax.script import annotations
from relaxjax.script.annotations import resolve


def type_of(annotation: str, head: str = "") -> Type:
    """The type that an annotation means on a parameter."""
    found = function("return x", f"x: {annotation}", head).params[0].ty
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        ('R.Tensor((2, 3), "float32")', MATRIX),
        ('R.Tensor([2, 3], dtype="float32")', MATRIX),
        ('R.Tensor(shape=(2, 3), dtype="float32", ndim=2)', MATRIX),
        ('R.Tensor(R.shape([2, 3]), "float32")', MATRIX),
        ("R.Tensor((2, 3))", TensorType((2, 3))),
        ("R.Tensor(())", TensorType(())),
        ('R.Tensor("int8")', TensorType(None, "int8")),
        ('R.Tensor(dtype="int8", ndim=4)', TensorType(None, "int8", 4)),
        ("R.Tensor(ndim=0)", TensorType(None, None, 0)),
        ("R.Tensor()", TensorType()),
        ("R.Tensor", TensorType()),
        ('R.Tensor((2,), "")', TensorType((2,))),
        ('R.Tensor((2,), "float32", "cuda")', TensorType((2,), "float32", vdevice="cuda:0:global")),
        ('R.Tensor((2,), vdevice="cuda:1")', TensorType((2,), vdevice="cuda:1:global")),
        ('R.Tensor((2,), vdevice="cpu:0:vtcm")', TensorType((2,), vdevice="cpu:0:vtcm")),
        ('R.Tensor((), "bfloat16")', TensorType((), "bfloat16")),
        ("R.Tensor((T.int64(2), 1 + 2), T.float32)", MATRIX),
        ("R.Shape([2, 3])", ShapeType((2, 3))),
        ("R.Shape((2, 3))", ShapeType((2, 3))),
        ("R.Shape(ndim=2)", ShapeType(None, 2)),
        ("R.Shape([])", ShapeType(())),
        ("R.Shape", ShapeType()),
        ('R.Prim("int64")', PrimType("int64")),
        ('R.Prim(dtype="bool")', PrimType("bool")),
        ("T.int64", PrimType("int64")),
        ("T.float32", PrimType("float32")),
        ("T.bool", PrimType("bool")),
        ("R.Tuple(R.Tensor, R.Shape(ndim=1))", TupleType((TensorType(), ShapeType(None, 1)))),
        ("R.Tuple([R.Tensor, R.Shape])", TupleType((TensorType(), ShapeType()))),
        ("R.Tuple(R.Tuple(R.Object))", TupleType((TupleType((ObjectType(),)),))),
        ("R.Tuple()", TupleType(())),
        ("R.Tuple", TupleType(())),
        ("None", TupleType(())),
        ("R.Object", ObjectType()),
        ("R.Object()", ObjectType()),
        ("R.Any", ObjectType()),
        ("I.StringType()", ObjectType()),
        ("R.Callable", FuncType(None, ObjectType(), False)),
        ("R.Callable(ret=R.Tensor)", FuncType(None, TensorType(), False)),
        ("R.Callable(purity=True)", FuncType(None, ObjectType(), True)),
        ("R.Callable((R.Tensor,), R.Shape)", FuncType((TensorType(),), ShapeType(), True)),
        ("R.Callable([R.Tensor], None)", FuncType((TensorType(),), ObjectType(), True)),
        ("R.Callable(R.Tensor, R.Object, False)", FuncType((TensorType(),), ObjectType(), False)),
        ("R.Callable((), R.Tuple)", FuncType((), TupleType(()), True)),
    ],
)
def test_a_type(annotation: str, expected: Type) -> None:
    assert type_of(annotation) == expected


def test_symbolic_dimensions_of_a_signature() -> None:
    """Bare names in quotes are declared by it, wherever they stand; other texts are computed."""
    params = 'x: R.Tensor(("n * 2 + m", "n")), s: R.Shape(["m", 4]), t: R.Tuple(R.Shape(["k"]))'
    found = function("return x", params)
    x, s, t = (param.ty for param in found.params)
    assert isinstance(x, TensorType)
    assert x.dims is not None
    assert isinstance(s, ShapeType)
    assert s.values is not None
    n, m = x.dims[1], s.values[0]
    assert x.dims[0] == n * 2 + m
    assert [dim_text(n), dim_text(m)] == ["n", "m"]
    assert isinstance(t, TupleType)
    assert str(t) == "R.Tuple(R.Shape([k]))"


def test_arithmetic_on_dimensions() -> None:
    dims = ("T.max(n, 3)", "T.min(n, m)", "n // 2", "n % 4", "n - 1", "-n + 5", "(n + m) * 2")
    texts = ", ".join(f'"{dim}"' for dim in dims)
    ty = type_of(f'R.Tuple(R.Shape(["n", "m"]), R.Shape([{texts}]))')
    assert isinstance(ty, TupleType)
    assert str(ty.fields[1]) == (
        "R.Shape([T.max(3, n), T.min(n, m), n // 2, n % 4, n - 1, -n + 5, n * 2 + m * 2])"
    )


def test_division_of_dimensions_by_name() -> None:
    texts = ("T.floordiv(n, 2)", "T.floormod(n, 4)", "T.ceildiv(n, 3)", "T.ceildiv(7, 2)")
    dims = ", ".join(f'"{dim}"' for dim in texts)
    ty = type_of(f'R.Tuple(R.Shape(["n"]), R.Shape([{dims}]))')
    assert isinstance(ty, TupleType)
    assert str(ty.fields[1]) == "R.Shape([n // 2, n % 4, (n + 2) // 3, 4])"


def test_a_declaration_in_the_body_names_the_dimension_of_the_signature() -> None:
    found = function(
        """
        n = T.int64()
        y = R.zeros((n, n + 1), "float32")
        return y
        """,
        'x: R.Tensor(("n",), "float32")',
    )
    (n,) = found.params[0].ty.dims  # type: ignore[union-attr]  # a tensor's
    assert found.ret_ty == TensorType((n, n + 1), "float32")


def test_dimensions_from_type_variables_belong_to_each_function() -> None:
    """As TVM prints them: a header for the whole file, and bare names in the signatures."""
    found = module("""
        # from typing import TypeVar
        m = TypeVar("m")
        n = TypeVar("n")
        @I.ir_module
        class Module:
            @R.function
            def f(x: R.Tensor((n, "n * 2"), "float32")) -> R.Tensor((n, "n * 2"), "float32"):
                return x
            @R.function
            def g(x: R.Tensor((n, m), "float32")) -> R.Tensor((n, m), "float32"):
                return x
        """)
    f, g = (found[name].params[0].ty.dims for name in ("f", "g"))
    assert f[1] == f[0] * 2
    assert str(g) == "(n, m)"
    assert f[0] != g[0]


def test_dimensions_declared_at_the_top_of_a_text() -> None:
    found = function("return x", "x: R.Tensor((n, 2 * n))", head="n = T.int64()")
    assert str(found.params[0].ty) == "R.Tensor((n, n * 2))"


def test_a_tensor_whose_shape_is_a_parameter() -> None:
    found = function("return x", "s: R.Shape(ndim=2), x: R.Tensor(s, 'float32')")
    s, x = found.params
    assert isinstance(x.ty, TensorType)
    assert x.ty.shape is s
    assert found.ret_ty == TensorType(s, "float32")


def test_a_mesh_of_the_module_is_known_when_the_module_is_read() -> None:
    """Python itself evaluates the annotations of parameters first, and knows no module then."""
    early = annotations.placed_tensor((4, "n"), "float32", "mesh[0]", "S[0]")
    open_shape = annotations.placed_tensor(None, "float32", "mesh[0]", "S[0]", ndim=2)
    with meshes_listed([DeviceMesh((2,), [0, 1])]):
        n = SymbolicVar("n")
        assert str(resolve(early, lambda text: n)) == (
            'R.DTensor((4, n), "float32", R.device_mesh((2,), I.Range(0, 2)), "S[0]")'
        )
        assert resolve(open_shape) == TensorType(None, "float32", 2)
    with pytest.raises(ValueError, match=r'"mesh\[0\]" is none of the 0 meshes'):
        resolve(early, lambda text: n)
