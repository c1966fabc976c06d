"""Reading what was printed gives the same program again, for every program."""

from typing import Any

import numpy as np
import pytest
import strategies
from full import how_many
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from script_programs import round_trip

from relaxjax import IRModule, from_source
from relaxjax.ir.builder import make_function
from relaxjax.ir.dims import SymbolicVar
from relaxjax.ir.expr import (
    Constant,
    DataTypeImm,
    Expr,
    ExternFunc,
    PrimExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    Var,
    const,
    np_dtype,
)
from relaxjax.ir.function import BindingBlock, Function, SeqExpr, VarBinding
from relaxjax.ir.types import FuncType, ObjectType, PrimType, ShapeType, TensorType, TupleType, Type

DTYPES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int4"),
    *("complex64", "complex128"),
]


@settings(max_examples=how_many(40, 6000))
@given(strategies.modules())
def test_a_module(module: IRModule) -> None:
    """The text of what was read is the very same text, too."""
    text = module.script()
    round_trip(module)
    assert from_source(text).script() == text


@settings(max_examples=how_many(30, 3000))
@given(st.data())
def test_a_constant(data: st.DataObject) -> None:
    """Of every dtype, every shape, and every bit pattern: NaN, infinity, -0.0, empty and large."""
    dtype = np_dtype(data.draw(st.sampled_from(DTYPES)))
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5))
    array = data.draw(arrays(dtype, shape))
    again = read_back(Constant(array))
    assert isinstance(again, Constant)
    assert again.data.dtype == dtype
    assert again.data.shape == shape
    assert again.data.tobytes() == array.tobytes()


def arrays(dtype: np.dtype[Any], shape: tuple[int, ...]) -> st.SearchStrategy[Any]:
    """Arrays of any bits; of the types that are not numpy's own, those of numbers only."""
    if dtype.isbuiltin == 1:
        return hnp.arrays(dtype, shape)
    numbers = [-0.0, 0.0, 1.0, -2.0, 3.0]
    if "int" not in str(dtype):
        numbers += [float("nan"), 0.5]
    return hnp.arrays(np.float32, shape, elements=st.sampled_from(numbers)).map(
        lambda array: array.astype(dtype)
    )


def test_a_large_constant() -> None:
    array = np.random.default_rng(0).standard_normal((256, 256)).astype("float32")
    again = read_back(Constant(array))
    assert isinstance(again, Constant)
    np.testing.assert_array_equal(again.data, array, strict=True)


def types(symbols: list[SymbolicVar]) -> st.SearchStrategy[Type]:
    """Types of any nesting, with dimensions over the symbols."""
    names: dict[str, Any] = dict(zip(strategies.VARIABLES, symbols, strict=True))
    dims = strategies.formulas("+ - *").map(lambda formula: strategies.dim_of(formula, names))
    shapes = st.lists(dims, max_size=3).map(tuple)
    sizes = st.lists(dims.filter(lambda dim: not isinstance(dim, int) or dim >= 0), max_size=3)
    ranks = st.integers(-1, 3)
    dtypes = st.none() | st.sampled_from(DTYPES)
    devices = st.sampled_from([None, "cuda:1:global"])
    leaves = (
        st.builds(TensorType, sizes, dtypes, vdevice=devices)
        | st.builds(TensorType, st.none(), dtypes, ranks, devices)
        | st.builds(ShapeType, shapes)
        | st.builds(ShapeType, st.none(), ranks)
        | st.builds(PrimType, st.sampled_from(["int64", "bool", "float32"]))
        | st.builds(ObjectType)
    )
    return st.recursive(
        leaves,
        lambda inner: (
            st.builds(TupleType, st.lists(inner, max_size=3).map(tuple))
            | st.builds(FuncType, st.lists(inner, max_size=2).map(tuple), inner, st.booleans())
            | st.builds(FuncType, st.none(), inner, st.booleans())
        ),
        max_leaves=4,
    )


@settings(max_examples=how_many(30, 4000))
@given(st.data())
def test_a_type(data: st.DataObject) -> None:
    symbols = [SymbolicVar(name) for name in strategies.VARIABLES]
    declares = Var("s", ShapeType(tuple(symbols)))
    ty = data.draw(types(symbols))
    param = Var("x", ty)
    round_trip(make_function([declares, param], SeqExpr((), param), attrs={"global_symbol": "f"}))


@pytest.mark.parametrize(
    "value",
    [
        StringImm('a "quoted" \\ text\nof two lines\twith ö and \x00'),
        DataTypeImm("bfloat16"),
        DataTypeImm("float32"),
        PrimExpr(3),
        PrimExpr(True),
        PrimExpr(-0.0),
        PrimExpr(float("inf")),
        PrimExpr(1.5, "float32"),
        PrimExpr(-3, "int32"),
        ShapeExpr(()),
        ShapeExpr((1, 0, 2**40)),
        Tuple((Tuple(()), Tuple((PrimExpr(1),)))),
        ExternFunc("g"),
        ExternFunc("g", ty=FuncType((TensorType(),), ShapeType(), True)),
    ],
    ids=str,
)
def test_a_value(value: Expr) -> None:
    assert read_back(value) == value


@settings(max_examples=how_many(30, 3000))
@given(strategies.attribute_values())
def test_an_attribute(value: Any) -> None:
    x = Var("x", ObjectType())
    function = make_function([x], SeqExpr((), x), attrs={"global_symbol": "f", "value": value})
    round_trip(function)
    round_trip(IRModule({"f": function}, {"value": value}))


def test_names_that_the_script_itself_uses() -> None:
    """Variables may be called like the vocabulary, like keywords, or like nothing at all."""
    taken = [
        *("R", "I", "T", "L", "cls", "Module", "metadata", "tvm", "float", "complex", "if"),
        *("lambda", "", "a b", "a.b", "n", "n"),
    ]
    params = [Var(name, TensorType((SymbolicVar(name),), "float32")) for name in taken]
    one = const(float("inf"), "float64")
    bindings = [VarBinding(Var(name, one.ty), one) for name in taken]
    body = SeqExpr((BindingBlock(tuple(bindings)),), Tuple((*params, *(b.var for b in bindings))))
    round_trip(IRModule({"main": make_function(params, body, attrs={"global_symbol": "main"})}))


def read_back(value: Expr) -> Expr:
    """A value that a function binds, as it comes back from the text of the function."""
    var = Var("y", value.ty)
    body = SeqExpr((BindingBlock((VarBinding(var, value),)),), var)
    function = make_function([], body, pure=False, attrs={"global_symbol": "f"})
    round_trip(function)
    again = from_source(function.script())
    assert isinstance(again, Function)
    (binding,) = again.body.bindings()
    return binding.value
