"""Reading scripts from text, feature by feature."""

from textwrap import dedent, indent
from typing import Any

import numpy as np
import pytest

from relaxjax.ir.attrs import Attrs
from relaxjax.ir.dims import dim_text
from relaxjax.ir.expr import (
    Call,
    Constant,
    DataflowVar,
    DataTypeImm,
    Expr,
    ExternFunc,
    GlobalVar,
    PrimExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    const,
)
from relaxjax.ir.function import DataflowBlock, Function, If, MatchCast, SeqExpr
from relaxjax.ir.global_info import DummyGlobalInfo, VDevice
from relaxjax.ir.module import IRModule
from relaxjax.ir.structural import assert_structural_equal
from relaxjax.ir.types import (
    FuncType,
    ObjectType,
    PrimType,
    ShapeType,
    TensorType,
    TupleType,
    Type,
)
from relaxjax.script import from_source

X = TensorType((2, 3), "float32")


def function(body: str, params: str = 'x: R.Tensor((2, 3), "float32")', head: str = "") -> Function:
    """A function `f` of the given body, which must also survive printing and reading back."""
    text = f"{head}\n@R.function\ndef f({params}):\n{indent(dedent(body), '    ')}"
    result = from_source(text)
    assert isinstance(result, Function)
    round_trip(result)
    return result


def module(text: str, **extra_vars: Any) -> IRModule:
    result = from_source(dedent(text), extra_vars)
    assert isinstance(result, IRModule)
    round_trip(result)
    return result


def round_trip(program: Function | IRModule) -> None:
    assert_structural_equal(from_source(program.script()), program)


def values(program: Function) -> list[Expr]:
    return [binding.value for binding in program.body.bindings()]


def names(program: Function) -> list[str]:
    return [binding.var.name for binding in program.body.bindings()]


def statements(program: Function) -> list[str]:
    """The lines of the body as they are printed, without types and indentation."""
    text = str(program.script(show_all_types=False))
    return dedent(text.split(":\n", 1)[1]).splitlines()


def type_of(annotation: str, head: str = "") -> Type:
    """The type that an annotation means on a parameter."""
    found = function("return x", f"x: {annotation}", head).params[0].ty
    assert found is not None
    return found


# Types


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        ('R.Tensor((2, 3), "float32")', X),
        ('R.Tensor([2, 3], dtype="float32")', X),
        ('R.Tensor(shape=(2, 3), dtype="float32", ndim=2)', X),
        ('R.Tensor(R.shape([2, 3]), "float32")', X),
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
        ("R.Tensor((T.int64(2), 1 + 2), T.float32)", X),
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
    found = module(
        """
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
        """
    )
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


# Values


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ('R.const(1.5, "float32")', np.float32(1.5)),
        ("R.const(2)", np.int32(2)),
        ("R.const(2.5)", np.float32(2.5)),
        ("R.const(True)", np.bool_(True)),
        ('R.const([[1, 2], [3, 4]], "int64")', np.array([[1, 2], [3, 4]])),
        ('R.const("-inf", "float32")', np.float32(-np.inf)),
        ('R.const(float("inf"), "float16")', np.float16(np.inf)),
        ('R.const([1.0, float("-inf")], "float64")', np.array([1.0, -np.inf])),
        ('R.const(-1, "int8")', np.int8(-1)),
        ("R.const(3, T.int16)", np.int16(3)),
    ],
)
def test_a_constant(text: str, data: Any) -> None:
    (value,) = values(function(f"y = {text}\nreturn y"))
    assert value == Constant(data)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("R.shape([2, 3])", ShapeExpr((2, 3))),
        ("R.shape((2, T.int64(3)))", ShapeExpr((2, 3))),
        ('R.str("a \\" b")', StringImm('a " b')),
        ('R.dtype("float32")', DataTypeImm("float32")),
        ("R.prim_value(3)", PrimExpr(3)),
        ("R.prim_value(2.5)", PrimExpr(2.5)),
        ("R.prim_value(True)", PrimExpr(True)),
        ("T.int32(3)", PrimExpr(3, "int32")),
        ("R.tuple()", Tuple(())),
        ("()", Tuple(())),
        ('R.ExternFunc("g")', ExternFunc("g")),
    ],
)
def test_a_value(text: str, expected: Expr) -> None:
    (value,) = values(function(f"y = {text}\nreturn y"))
    assert value == expected


def test_numbers_become_constants_of_the_program() -> None:
    """A number alone on the right side is a constant tensor; among dimensions it is a dimension."""
    found = function("k = 5\nf = 2.5\nb = False\nreturn (k, f, b)")
    assert values(found) == [
        const(5, "int32"),
        const(2.5, "float32"),
        const(False, "bool"),
    ]


def test_a_number_declared_as_a_scalar_of_the_host() -> None:
    """It is bound as such, and shapes can still be made of it."""
    found = function(
        """
        n = T.int64()
        a: T.int64 = 3
        m: T.int64 = n + 1
        c: T.float32 = 0.5
        y = R.zeros((a, m), "float32")
        return (y, c)
        """,
        'x: R.Tensor(("n",), "float32")',
    )
    assert names(found) == ["a", "m", "c", "y"]
    assert [str(value) for value in values(found)[:3]] == [
        "R.prim_value(3)",
        "R.prim_value(n + 1)",
        "T.float32(0.5)",
    ]
    assert str(found.ret_ty) == 'R.Tuple(R.Tensor((3, n + 1), dtype="float32"), R.Prim("float32"))'


def test_a_dimension_may_have_a_name_without_a_binding() -> None:
    found = function(
        """
        n = T.int64()
        m = n * 2
        return R.zeros((m, m), "float32")
        """,
        'x: R.Tensor(("n",), "float32")',
    )
    assert str(found.ret_ty) == 'R.Tensor((n * 2, n * 2), dtype="float32")'
    assert names(found) == ["gv"]


def test_lists_and_texts_stay_values_of_python() -> None:
    found = function(
        """
        sizes = [2, 3]
        axes = (1, 0)
        kind = f"{'float'}{16 * 2}"
        return R.zeros((sizes[0], sizes[axes[0]]), kind)
        """
    )
    assert values(found) == [found.body.blocks[0].bindings[0].value]
    assert found.ret_ty == X


# Expressions


def test_operators() -> None:
    found = function(
        """
        a = x + y
        b = x - y
        c = x * y
        d = x / y
        e = x // y
        f = x % y
        g = x ** y
        h = -x
        i = x < y
        j = x <= y
        k = x > y
        l = x >= y
        m = x.astype("int32")
        n = x + 1
        o = 2.0 * x
        return (a, b, c, d, e, f, g, h, i, j, k, l, m, n, o)
        """,
        'x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")',
    )
    assert [line.split(" = ")[1] for line in statements(found)[:-1]] == [
        "R.add(x, y)",
        "R.subtract(x, y)",
        "R.multiply(x, y)",
        "R.divide(x, y)",
        "R.floor_divide(x, y)",
        "R.floor_mod(x, y)",
        "R.power(x, y)",
        "R.negative(x)",
        "R.less(x, y)",
        "R.less_equal(x, y)",
        "R.greater(x, y)",
        "R.greater_equal(x, y)",
        'R.astype(x, dtype="int32")',
        'R.add(x, R.const(1.0, "float32"))',
        'R.multiply(R.const(2.0, "float32"), x)',
    ]


def test_nested_expressions_are_bound_one_by_one() -> None:
    """Outside a dataflow block they are called gv, inside lv; types are inferred throughout."""
    found = function(
        """
        y = R.add(R.multiply(x, x), x)
        with R.dataflow():
            z = R.add(y, R.add(x, x))
            R.output(z)
        return R.add(z, z)
        """
    )
    assert statements(found) == [
        "gv = R.multiply(x, x)",
        "y = R.add(gv, x)",
        "with R.dataflow():",
        "    lv = R.add(x, x)",
        "    z = R.add(y, lv)",
        "    R.output(z)",
        "gv1 = R.add(z, z)",
        "return gv1",
    ]
    assert all(binding.var.ty == X for binding in found.body.bindings())


def test_tuples() -> None:
    found = function(
        """
        t = (x, (x, R.const(1)))
        a, b = t
        c, d = b
        e = t[1][0]
        f = t[-1]
        g, h = x, a
        return R.tuple(e, R.TupleGetItem(t, 0))
        """
    )
    assert names(found) == [
        *("t", "a", "b", "c", "d", "gv", "e", "f", "g", "h", "gv1"),
    ]
    assert statements(found)[1:6] == ["a = t[0]", "b = t[1]", "c = b[0]", "d = b[1]", "gv = t[1]"]
    assert statements(found)[-1] == "return (e, gv1)"
    assert found.ret_ty == TupleType((X, X))


def test_unpacking_a_call_makes_it_once() -> None:
    found = function(
        'a, b = R.call_pure_packed("pair", x, ty_args=R.Tuple(R.Tensor, R.Tensor))\nreturn a'
    )
    assert statements(found)[:-1] == [
        'gv = R.call_pure_packed("pair", x, ty_args=(R.Tuple(R.Tensor, R.Tensor),))',
        "a = gv[0]",
        "b = gv[1]",
    ]


def test_the_dimensions_of_a_shape_are_its_items() -> None:
    found = function(
        "return R.zeros((s[1], R.shape([4, 5])[0]), 'float32')", "s: R.Shape([2, 'n'])"
    )
    assert str(found.ret_ty) == 'R.Tensor((n, 4), dtype="float32")'


def test_python_is_evaluated_while_the_script_is_read() -> None:
    found = function(
        """
        twice = lambda v: R.add(v, v)
        layers = [twice(x) for _ in range(2) if True]
        y = sum(layers[1:], layers[0]) if len(layers) == 2 else x
        z = R.add(*[y, x])
        w = R.add(**{"x1": z, "x2": z})
        table = {k: v for k, v in zip(["a", *["b"]], (1, 2))}
        numbers = [table["b"], int(not (1 < 2 < 3) or 1 in {1, 2} and 3 not in (1,)), max(1, 2), ~0]
        return R.add(w, R.const(sum(numbers), "float32"))
        """
    )
    assert statements(found) == [
        "gv = R.add(x, x)",
        "gv1 = R.add(x, x)",
        "y = R.add(gv, gv1)",
        "z = R.add(y, x)",
        "w = R.add(z, z)",
        'gv2 = R.add(w, R.const(4.0, "float32"))',
        "return gv2",
    ]


# Statements


def test_shadowing_makes_new_variables_of_the_same_name() -> None:
    found = function("x = R.add(x, x)\nx = R.multiply(x, x)\nreturn x")
    assert names(found) == ["x", "x"]
    first, second = values(found)
    assert isinstance(first, Call)
    assert isinstance(second, Call)
    assert first.args[0] is found.params[0]
    assert second.args[0] is found.body.blocks[0].bindings[0].var


def test_dataflow_blocks() -> None:
    """Only what R.output names leaves the block; a name bound twice means its last value."""
    found = function(
        """
        with R.dataflow():
            y = R.add(x, x)
            y = R.multiply(y, y)
            a, z = y, x
            R.output(y, z)
        with R.dataflow():
            w = R.add(y, z)
        return y
        """
    )
    first, second = found.body.blocks
    assert isinstance(first, DataflowBlock)
    assert isinstance(second, DataflowBlock)
    hidden = [isinstance(binding.var, DataflowVar) for binding in first.bindings]
    assert hidden == [True, False, True, False]
    assert found.body.body is first.bindings[1].var
    assert all(isinstance(binding.var, DataflowVar) for binding in second.bindings)


def test_a_name_hidden_in_a_block_means_afterwards_what_it_meant_before() -> None:
    found = function(
        """
        with R.dataflow():
            x = R.add(x, x)
            y = R.add(x, x)
            R.output(y)
        return R.add(x, y)
        """
    )
    last = values(found)[-1]
    assert isinstance(last, Call)
    assert last.args[0] is found.params[0]


def test_match_cast_defines_dimensions() -> None:
    found = function(
        """
        n, m = T.int64(), T.int64()
        y: R.Tensor((n, m), "float32") = R.match_cast(x, R.Tensor((n, m), "float32"))
        z = R.match_cast(y, R.Tensor(("n", "n"), "float32"))
        return R.zeros((m,), "float32")
        """,
        'x: R.Tensor("float32")',
    )
    cast, second = found.body.blocks[0].bindings[:2]
    assert isinstance(cast, MatchCast)
    assert isinstance(second, MatchCast)
    assert cast.var.ty == cast.ty
    assert isinstance(cast.ty, TensorType)
    assert cast.ty.dims is not None
    n, _ = cast.ty.dims
    assert second.ty == TensorType((n, n), "float32")
    assert found.ret_ty == TensorType(None, "float32", 1)
    assert str(cast.ty) == 'R.Tensor((n, m), dtype="float32")'


def test_declared_types_of_variables() -> None:
    """A type that the value may have is taken at its word, be it wider or narrower."""
    found = function(
        """
        n = T.int64()
        a: R.Tensor(ndim=2) = R.add(x, x)
        b: R.Object = x
        c: R.Tensor((4, n), "float32") = R.add(a, a)
        return b
        """,
        'x: R.Tensor(("n", 3), "float32")',
    )
    a, b, c = (binding.var for binding in found.body.bindings())
    assert a.ty == TensorType(None, None, 2)
    assert b.ty == ObjectType()
    assert str(c.ty) == 'R.Tensor((4, n), dtype="float32")'
    assert found.ret_ty == ObjectType()


def test_a_choice() -> None:
    """A value that is a variable or a constant is the result itself, without a binding."""
    found = function(
        """
        if c:
            y = R.add(x, x)
            z = R.add(y, y)
        else:
            z = x
        return z
        """,
        'x: R.Tensor((2, 3), "float32"), c: R.Tensor((), "bool")',
    )
    (choice,) = values(found)
    assert isinstance(choice, If)
    assert choice.cond is found.params[1]
    then = list(choice.true_branch.bindings())
    assert [binding.var.name for binding in then] == ["y", "z_then"]
    assert choice.true_branch.body is then[1].var
    assert choice.false_branch == SeqExpr((), found.params[0])
    assert names(found) == ["z"]
    assert found.ret_ty == X


@pytest.mark.parametrize(
    "branch",
    [
        "z = (x, x)[0]",
        "z = R.const(1.0, 'float32')",
        "with R.dataflow():\n    y = R.add(x, x)\n    z = R.add(y, y)\n    R.output(y, z)",
        "if c:\n    z = R.add(x, x)\nelse:\n    z = x",
        "@R.function\ndef z(y: R.Tensor((3,), 'float32')):\n    return R.add(x, y)",
        "z: R.Tensor = R.match_cast(x, R.Tensor)",
        "z = 1",
        "z = R.match_cast(x, R.Tensor(ndim=2))",
    ],
)
def test_what_a_branch_may_end_with(branch: str) -> None:
    text = f"if c:\n{indent(branch, '    ')}\nelse:\n    z = x\nreturn z"
    found = function(text, 'x: R.Tensor((2, 3), "float32"), c: R.Tensor((), "bool")')
    assert names(found) == ["z"]


def test_elif() -> None:
    found = function(
        """
        if c:
            z = x
        elif R.less(R.const(1), R.const(2)):
            z = R.add(x, x)
        else:
            z = R.multiply(x, x)
        return z
        """,
        'x: R.Tensor((2, 3), "float32"), c: R.Tensor((), "bool")',
    )
    (choice,) = values(found)
    assert isinstance(choice, If)
    less, inner = choice.false_branch.bindings()
    assert isinstance(inner.value, If)
    assert inner.value.cond is less.var
    assert choice.false_branch.body is inner.var


def test_branches_of_different_types() -> None:
    """The type of the result is what both have in common, unless both declare another one."""
    text = """
        if c:
            z{declared} = x
        else:
            z{declared} = R.const(1.0, "float32")
        return z
        """
    params = 'x: R.Tensor((2, 3), "float32"), c: R.Tensor((), "bool")'
    plain = function(text.format(declared=""), params)
    declared = function(text.format(declared=": R.Object"), params)
    assert plain.ret_ty == TensorType(None, "float32")
    assert declared.ret_ty == ObjectType()


def test_a_branch_may_use_its_own_variables_only() -> None:
    found = function(
        """
        y = R.add(x, x)
        if c:
            y = R.multiply(y, y)
            z = y
        else:
            z = y
        return R.add(y, z)
        """,
        'x: R.Tensor((2, 3), "float32"), c: R.Tensor((), "bool")',
    )
    last = values(found)[-1]
    assert isinstance(last, Call)
    assert last.args[0] is found.body.blocks[0].bindings[0].var


def test_statements_without_a_name() -> None:
    found = from_source(
        dedent("""
        @R.function(pure=False)
        def f(x: R.Tensor((2, 3), "float32")):
            "Documentation."
            R.call_packed("log", x, ty_args=R.Tuple())
            _ = R.call_packed("log", x)
            pass
            return R.tuple()
        """)
    )
    assert isinstance(found, Function)
    assert names(found) == ["_", "_"]
    assert not found.pure
    assert found.ret_ty == TupleType(())


def test_function_attributes() -> None:
    found = function(
        """
        R.func_attr({"num_input": 1, "names": ["a", {"b": 2.5}]})
        R.func_attr({"extra": None})
        return x
        """
    )
    assert found.attrs == Attrs(num_input=1, names=["a", {"b": 2.5}], extra=None, global_symbol="f")


# Calls by name


def test_calls_of_functions_from_outside() -> None:
    found = from_source(
        dedent("""
        @R.function(pure=False)
        def f(x: R.Tensor((2, 3), "float32")):
            a = R.call_packed("g", x, 1, (x, 2), ty_args=R.Tensor((2,)), mode="fast")
            b = R.call_packed("g", x, sinfo_args=[R.Tensor, R.Shape])
            c = R.call_pure_packed("g", x, out_sinfo=R.Tensor)
            d = R.call_pure_packed("g", x, out_ty=(R.Tensor,))
            e = R.ExternFunc("g", R.Callable((R.Tensor,), R.Shape, False))(x)
            return a
        """)
    )
    assert isinstance(found, Function)
    round_trip(found)
    a, b, c, d, e = values(found)
    assert [value.ty for value in (a, b, c, d, e)] == [
        TensorType((2,)),
        TupleType((TensorType(), ShapeType())),
        TensorType(),
        TensorType(),
        ShapeType(),
    ]
    assert isinstance(a, Call)
    assert a.attrs == Attrs(mode="fast")
    assert a.args == (found.params[0], PrimExpr(1), Tuple((found.params[0], PrimExpr(2))))


def test_calls_of_parameters_and_their_results() -> None:
    found = function(
        "return f(x)(x)",
        'x: R.Tensor((2,), "float32"), '
        "f: R.Callable((R.Tensor,), R.Callable((R.Tensor,), R.Tensor(ndim=1)))",
    )
    assert found.ret_ty == TensorType(None, None, 1)


# Closures


def test_a_closure_sees_the_names_around_it() -> None:
    found = function(
        """
        y = R.add(x, x)
        @R.function
        def inner(z: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
            R.func_attr({"k": 1})
            return R.add(z, y)
        @R.function(pure=False)
        def noisy(z: R.Tensor((2, 3), "float32")):
            R.call_packed("log", z, ty_args=R.Tuple())
            return inner(z)
        return inner(y)
        """
    )
    _, inner, noisy, _ = found.body.bindings()
    assert isinstance(inner.value, Function)
    assert isinstance(noisy.value, Function)
    assert inner.value.attrs == Attrs(k=1)
    assert inner.var.ty == inner.value.ty
    assert noisy.value.ret_ty == X
    assert not noisy.value.pure


def test_a_closure_can_call_itself() -> None:
    found = function(
        """
        @R.function
        def count(i: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
            if R.equal(i, R.const(0)):
                r = R.const(1)
            else:
                r = count(R.subtract(i, R.const(1)))
            return r
        return count(R.const(3))
        """
    )
    closure = found.body.blocks[0].bindings[0]
    assert isinstance(closure.value, Function)
    choice = values(closure.value)[-1]
    assert isinstance(choice, If)
    call = list(choice.false_branch.bindings())[-1].value
    assert isinstance(call, Call)
    assert call.op is closure.var


def test_a_closure_has_dimensions_of_its_own() -> None:
    found = function(
        """
        n = T.int64()
        @R.function
        def own(z: R.Tensor(("n",), "float32")):
            return z
        @R.function
        def outer(z: R.Tensor((n,), "float32")):
            return z
        return own(x)
        """,
        'x: R.Tensor(("n",), "float32")',
    )
    (n,) = found.params[0].ty.dims  # type: ignore[union-attr]  # a tensor's
    own, outer = (f.params[0].ty.dims[0] for f in values(found)[:2])  # type: ignore[attr-defined]  # closures
    assert own is not n
    assert outer is n
    assert found.ret_ty == TensorType((n,), "float32")


# Modules


def test_a_module() -> None:
    found = module(
        """
        @I.ir_module
        class Module:
            "Documentation."
            I.module_attrs({"a": 1, "b": [1, 2.5, "x"], "d": {"k": True}})
            I.module_attrs({"c": None})
            I.module_global_infos({
                "vdevice": [I.vdevice("llvm"), I.vdevice({"kind": "cuda"}, 1, "vtcm")],
                "dummy": [I.dummy_global_info()],
            })
            @R.function
            def main(x: R.Tensor((2, 3), "float32")):
                cls = Module
                return Module.later(cls.hidden(x))
            @R.function(private=True)
            def hidden(x: R.Tensor(("n", 3), "float32")) -> R.Tensor(("n", 3), "float32"):
                return x
            @R.function(pure=False)
            def later(x: R.Tensor((2, 3), "float32")):
                return R.tuple(x)
            kernel = R.ExternFunc("my_kernel")
        """.replace("return Module.later(cls.hidden(x))", "return cls.hidden(x)")
    )
    assert list(found) == ["main", "hidden", "later", "kernel"]
    assert found.attrs == Attrs(a=1, b=[1, 2.5, "x"], d={"k": True}, c=None)
    assert dict(found.global_infos) == {
        "vdevice": (VDevice("llvm"), VDevice({"kind": "cuda"}, 1, "vtcm")),
        "dummy": (DummyGlobalInfo(),),
    }
    assert found["main"].global_symbol == "main"
    assert found["hidden"].global_symbol is None
    assert found["main"].ret_ty == X
    assert found["kernel"] == ExternFunc("my_kernel")


def test_functions_are_known_before_they_are_defined() -> None:
    """Results that are not declared are inferred, whatever the order."""
    found = module(
        """
        @I.ir_module
        class Module:
            @R.function
            def a(x: R.Tensor((2, 3), "float32")):
                return Module.b(x)
            @R.function
            def b(x: R.Tensor(("n", 3), "float32")):
                return (Module.c(x), x)
            @R.function
            def c(x: R.Tensor(("n", 3), "float32")):
                return R.add(x, x)
        """
    )
    assert list(found) == ["a", "b", "c"]
    assert found["a"].ret_ty == TupleType((X, X))
    call = values(found["a"])[0]
    assert isinstance(call, Call)
    assert isinstance(call.op, GlobalVar)
    assert call.op.ty == found["b"].ty


def test_functions_that_call_one_another_in_a_circle() -> None:
    found = module(
        """
        @I.ir_module
        class Module:
            @R.function
            def even(x: R.Tensor((), "int32")) -> R.Tensor((), "bool"):
                return Module.odd(x)
            @R.function
            def odd(x: R.Tensor((), "int32")) -> R.Tensor((), "bool"):
                return Module.even(x)
        """
    )
    assert values(found["even"])[0].ty == TensorType((), "bool")


def test_a_second_name_for_a_function() -> None:
    """Of a function from around the script, and of one of the module, which is copied."""
    outside = function("return R.add(x, x)")
    found = module(
        """
        @I.ir_module
        class Module:
            g = outside
            @R.function
            def main(x: R.Tensor((2, 3), "float32")):
                return Module.h(Module.g(x))
            h = main2
            @R.function
            def main2(x: R.Tensor((2, 3), "float32")):
                return x
        """,
        outside=outside,
    )
    assert list(found) == ["g", "main", "h", "main2"]
    assert found["g"].global_symbol == "g"
    assert_structural_equal(
        found["h"].without_attr("global_symbol"), found["main2"].without_attr("global_symbol")
    )
    assert found["h"].params[0] is not found["main2"].params[0]


@pytest.mark.parametrize(
    "head",
    [
        "# from tvm.script import ir as J\n# from tvm.script import relax as Q",
        "from tvm.script import ir as J, relax as Q",
        "from tvm.script.parser import ir as J\nfrom relaxjax.script import relax as Q",
        "import relaxjax.script as s\nJ = s.ir\nQ = s.relax",
        "import tvm\nfrom tvm.script import relax as Q\nJ = tvm.script",
        "from __future__ import annotations\nfrom relaxjax.script import ir as J, relax as Q",
    ],
)
def test_the_names_of_the_vocabulary_are_those_of_the_imports(head: str) -> None:
    text = f"""{head}
@J.ir_module(check_well_formed=True)
class Anything:
    @Q.function
    def main(x: Q.Tensor((2, 3), "float32")):
        return Anything.g(x)
    @Q.function
    def g(x: Q.Tensor((2, 3), "float32")):
        return Q.add(x, x)
"""
    assert module(text)["main"].ret_ty == X


def test_values_before_the_program() -> None:
    found = from_source(
        dedent('''
        """Documentation."""
        from relaxjax.script import ir_module, relax as R
        batch_size = 64
        hidden, out = [batch_size * 2, "float32"]
        widths: list = [8, 9]
        @ir_module
        class Module:
            @R.function
            def main(x: R.Tensor((batch_size, hidden, *widths), out)):
                return R.add(x, bias)
        '''),
        {"bias": const(1.0, "float32")},
    )
    assert isinstance(found, IRModule)
    assert found["main"].ret_ty == TensorType((64, 128, 8, 9), "float32")


def test_constants_that_stand_before_the_program() -> None:
    result = from_source(
        "@R.function\ndef f(x: R.Tensor((5, 8), 'int16')):\n    return R.add(x, c)",
        {"c": Constant(np.arange(40, dtype="int16").reshape(5, 8))},
    )
    assert "metadata = tvm.ir.load_json(" in result.script()
    round_trip(result)


def test_macros() -> None:
    """Their statements are written out where they are used. A hygienic one knows its own names."""
    found = function(
        """
        k = R.multiply(x, x)
        y = affine(x, b=3.0)
        z = uses_k()
        with R.dataflow():
            w = affine(y)
            R.output(w)
        return R.add(w, z)
        """,
        head=dedent("""
        scale = 2.0
        @R.macro
        def affine(a, b=1.0):
            t = R.multiply(a, R.const(scale, "float32"))
            return R.add(t, R.const(b, "float32"))
        @R.macro(hygienic=False)
        def uses_k():
            return k
        """),
    )
    assert statements(found) == [
        "k = R.multiply(x, x)",
        't = R.multiply(x, R.const(2.0, "float32"))',
        'y = R.add(t, R.const(3.0, "float32"))',
        "z = k",
        "with R.dataflow():",
        '    t_1 = R.multiply(y, R.const(2.0, "float32"))',
        '    w = R.add(t_1, R.const(1.0, "float32"))',
        "    R.output(w)",
        "gv = R.add(w, z)",
        "return gv",
    ]


# Places


def test_every_piece_knows_its_place() -> None:
    text = """@R.function
def f(x: R.Tensor((2, 3), "float32")):
    with R.dataflow():
        y = R.add(R.multiply(x, x), x)  # ö
        ö = "ö" and R.add(y, y)
        R.output(ö)
    return ö
"""
    found = from_source(text, file="model.py")
    assert isinstance(found, Function)
    inner, outer, last = found.body.bindings()
    places = {
        "function": found,
        "parameter": found.params[0],
        "call": inner.value,
        "outer call": outer.value,
        "variable": outer.var,
        "binding": outer,
        "after ö": last.value,
        "inner variable": inner.var,
    }
    assert {name: str(node.span) for name, node in places.items()} == {
        "function": "model.py:2:1",
        "parameter": "model.py:2:7",
        "call": "model.py:4:19",
        "outer call": "model.py:4:13",
        "variable": "model.py:4:9",
        "binding": "model.py:4:9",
        "after ö": "model.py:5:21",
        "inner variable": "model.py:4:19",
    }
    assert inner.value.span is not None
    assert inner.value.span.excerpt().splitlines()[1:] == [
        "    y = R.add(R.multiply(x, x), x)  # ö",
        "              ^^^^^^^^^^^^^^^^",
    ]


def test_well_formedness_is_checked_unless_told_otherwise() -> None:
    text = """
        @R.function({options})
        def f(x: R.Tensor((2, 3), "float32")):
            n = T.int64()
            y = R.zeros((n,), "float32")
            z = R.call_packed("g", x)
            return x
        """
    found = from_source(dedent(text.format(options="check_well_formed=False")))
    assert isinstance(found, Function)
    assert names(found) == ["y", "z"]
