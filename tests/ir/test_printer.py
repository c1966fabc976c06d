"""Every node prints as the script that reads back as the node."""

from textwrap import dedent
from typing import Any

import numpy as np
import pytest

from relaxjax import FuncType, IRModule, ObjectType, ShapeType, TensorType, TupleType
from relaxjax.ir.attrs import Attrs
from relaxjax.ir.builder import BlockBuilder, make_function
from relaxjax.ir.dims import Dim, SymbolicVar
from relaxjax.ir.expr import (
    Call,
    Constant,
    DataflowVar,
    Expr,
    ExternFunc,
    GlobalVar,
    Tuple,
    Var,
    const,
)
from relaxjax.ir.function import (
    BindingBlock,
    DataflowBlock,
    Function,
    If,
    MatchCast,
    SeqExpr,
    VarBinding,
)
from relaxjax.ir.op import Op
from relaxjax.ir.printer import print_node

VECTOR = TensorType((3,), "float32")
NOTHING = TupleType(())
N = SymbolicVar("n")


X = Var("x", VECTOR)


def script(text: str) -> str:
    return dedent(text).strip("\n")


def body_of(function: Function, **options: Any) -> str:
    """The text of a function below its header comment and signature, without indentation."""
    lines = str(print_node(function, **options)).split("\n")
    begin = next(i for i, line in enumerate(lines) if line.startswith("def "))
    return dedent("\n".join(lines[begin + 1 :]))


def function_of(*bindings: VarBinding | MatchCast, result: Expr, **fields: Any) -> Function:
    params = fields.pop("params", ())
    return make_function(params, SeqExpr((BindingBlock(bindings),), result), **fields)


def test_an_attribute_that_is_no_part_of_the_ir_prints_its_own_repr() -> None:
    class Device:
        def __repr__(self) -> str:
            return 'I.vdevice("cuda", 0)'

    module = IRModule(global_infos={"vdevice": [Device()]})
    assert 'I.module_global_infos({"vdevice": [I.vdevice("cuda", 0)]})' in str(module)


def test_a_module() -> None:
    """Functions from outside come first, then by name, and `main` last."""
    builder = BlockBuilder()
    x_type, y_type = TensorType((N, 4), "int8"), TensorType((SymbolicVar("n"), 4), "int8")
    x, y = Var("x", x_type), Var("y", y_type)
    with builder.function("main", [x], attrs={"num_input": 1}):
        with builder.dataflow():
            lv = builder.emit(x + x)
            gv = builder.emit_output(lv * const(2, "int8"))
        result = builder.emit(Call(GlobalVar("private", ty=FuncType((x_type,), x_type)), (gv,)))
        builder.emit_func_output(result)
    with builder.function("private", [y], private=True, pure=False):
        builder.emit_func_output(y)
    module = builder.get().with_function("ext", ExternFunc("my_kernel")).with_attr("a", [1])
    assert str(module) == script("""
        # from relaxjax.script import ir as I, relax as R, tirx as T

        @I.ir_module
        class Module:
            I.module_attrs({"a": [1]})

            ext = R.ExternFunc("my_kernel")

            @R.function(private=True, pure=False)
            def private(y: R.Tensor(("n", 4), dtype="int8")) -> R.Tensor(("n", 4), dtype="int8"):
                n = T.int64()
                return y

            @R.function
            def main(x: R.Tensor(("n", 4), dtype="int8")) -> R.Tensor(("n", 4), dtype="int8"):
                n = T.int64()
                cls = Module
                R.func_attr({"num_input": 1})
                with R.dataflow():
                    lv: R.Tensor((n, 4), dtype="int8") = R.add(x, x)
                    gv: R.Tensor((n, 4), dtype="int8") = R.multiply(lv, R.const(2, "int8"))
                    R.output(gv)
                gv1: R.Tensor((n, 4), dtype="int8") = cls.private(gv)
                return gv1
        """)


def test_an_empty_module() -> None:
    text = "# from relaxjax.script import ir as I\n\n@I.ir_module\nclass Module:\n    pass"
    assert str(IRModule()) == text


def test_a_function_alone_is_private_unless_it_has_a_symbol() -> None:
    function = function_of(result=X, params=[X])
    assert "@R.function(private=True)\ndef main(" in str(function)
    public = function.with_attr("global_symbol", "f")
    assert "@R.function\ndef f(" in str(public)
    assert "func_attr" not in str(public)


def test_a_symbol_that_is_not_the_printed_name_stands_in_the_attributes() -> None:
    function = function_of(result=X, params=[X]).with_attr("global_symbol", "other")
    module = IRModule({"main": function})
    assert "@R.function\n    def main(" in str(module)
    assert 'R.func_attr({"global_symbol": "other"})' in str(module)
    assert 'R.func_attr({"global_symbol": "a.b"})' in str(
        function.with_attr("global_symbol", "a.b")
    )


def test_variables_of_one_name_are_told_apart() -> None:
    first, second = Var("x", VECTOR), Var("x", VECTOR)
    strange, word = Var("a.b", VECTOR), Var("lambda", VECTOR)
    symbol, module = Var("n", ShapeType((N,))), Var("Module", VECTOR)
    function = function_of(
        VarBinding(first, X),
        VarBinding(second, first),
        VarBinding(strange, second),
        VarBinding(word, strange),
        VarBinding(module, word),
        result=module,
        params=[symbol, X],
    )
    assert body_of(function, show_all_types=False) == script("""
        n_1 = T.int64()
        x_1 = x
        x_2 = x_1
        a_b = x_2
        lambda_1 = a_b
        Module_1 = lambda_1
        return Module_1
        """)
    assert 'n: R.Shape(["n_1"])' in str(function)


def test_each_function_of_a_module_has_names_of_its_own() -> None:
    function = function_of(VarBinding(Y, X), result=Y, params=[X])
    text = str(IRModule({"f": function, "main": function}))
    assert text.count('y: R.Tensor((3,), dtype="float32") = x') == 2


Y, Z = Var("y", VECTOR), Var("z", VECTOR)


def test_a_choice_binds_its_name_in_both_branches() -> None:
    cond, inner = Var("c", TensorType((), "bool")), Var("r", VECTOR)
    then = SeqExpr((BindingBlock((VarBinding(Y, X + X),)),), Y)
    nested = If(cond, SeqExpr((), X), then, ty=VECTOR)
    other = SeqExpr((BindingBlock((VarBinding(inner, nested),)),), inner)
    choice = If(cond, SeqExpr((), X), other, ty=VECTOR)
    function = function_of(VarBinding(Z, choice), result=Z, params=[X, cond])
    assert body_of(function, show_all_types=False) == script("""
        if c:
            z = x
        else:
            if c:
                r = x
            else:
                y = R.add(x, x)
                r = y
            z = r
        return z
        """)


def test_a_choice_alone_names_its_value() -> None:
    cond = Var("c", TensorType((), "bool"))
    choice = If(cond, SeqExpr((), X), SeqExpr((), X), ty=VECTOR)
    text = "if c:\n    gv = x\nelse:\n    gv = x\ngv"
    assert str(choice.script(show_all_types=False)) == text


def test_match_cast_and_its_symbols() -> None:
    q: Dim = SymbolicVar("q")
    w = Var("w", TensorType((q,), "float32"))
    function = function_of(MatchCast(w, X, w.ty or ObjectType()), result=w, params=[X])
    assert body_of(function) == script("""
        q = T.int64()
        w: R.Tensor((q,), dtype="float32") = R.match_cast(x, R.Tensor((q,), dtype="float32"))
        return w
        """)


def test_a_closure_shares_the_symbols_of_the_function_round_it() -> None:
    m = SymbolicVar("m")
    outer, inner = Var("a", ShapeType((N,))), Var("b", ShapeType((N, m)))
    closure = function_of(result=Tuple((outer, inner)), params=[inner], pure=False)
    g = Var("g", closure.ty)
    function = function_of(
        VarBinding(g, closure), result=Tuple((g, outer)), params=[outer], attrs={"k": 1}
    )
    assert body_of(function, show_all_types=False) == script("""
        n = T.int64()
        m = T.int64()
        R.func_attr({"k": 1})
        @R.function(pure=False)
        def g(b: R.Shape([n, m])) -> R.Tuple(R.Shape([n]), R.Shape([n, m])):
            return (a, b)

        return (g, a)
        """)


def test_a_closure_may_call_itself() -> None:
    g = Var("g", FuncType((VECTOR,), VECTOR))
    closure = function_of(VarBinding(Z, Call(g, (Y,))), result=Z, params=[Y], ret_ty=VECTOR)
    text = body_of(function_of(VarBinding(g, closure), result=g), show_all_types=False)
    assert "\n    z = g(y)\n    return z\n" in text


PRINT = Op("relax.print", (), lambda call: NOTHING)


def printing(kind: type[Var], name: str = "_") -> VarBinding:
    return VarBinding(kind(name, NOTHING), Call(PRINT, (X,), Attrs(format="hi")))


def test_a_call_that_returns_nothing_is_a_statement() -> None:
    function = function_of(printing(Var), result=X, params=[X])
    assert body_of(function) == 'R.print(x, format="hi")\nreturn x'
    plain = body_of(function, syntax_sugar=False)
    assert plain == '_: R.Tuple() = R.print(x, format="hi")\nreturn x'


def test_a_call_that_returns_nothing_keeps_its_name_where_that_is_used() -> None:
    used, unused = printing(Var, "a"), printing(Var, "b")
    function = function_of(used, unused, result=used.var, params=[X])
    assert body_of(function) == script("""
        a: R.Tuple() = R.print(x, format="hi")
        R.print(x, format="hi")
        return a
        """)


def test_the_outputs_of_a_dataflow_block_are_its_ordinary_variables() -> None:
    hidden, shown = printing(DataflowVar), printing(Var, "out")
    block = DataflowBlock((hidden, shown, VarBinding(DataflowVar("lv", VECTOR), X)))
    assert str(block) == script("""
        with R.dataflow():
            R.print(x, format="hi")
            R.print(x, format="hi")
            lv: R.Tensor((3,), dtype="float32") = x
            R.output(out)
        """)
    function = make_function([X], SeqExpr((block, DataflowBlock()), X))
    assert body_of(function, show_all_types=False) == script("""
        with R.dataflow():
            R.print(x, format="hi")
            out: R.Tuple() = R.print(x, format="hi")
            lv = x
            R.output(out)
        with R.dataflow():
            R.output()
        return x
        """)


def test_a_binding_alone() -> None:
    assert str(VarBinding(Y, X + X)) == 'y: R.Tensor((3,), dtype="float32") = R.add(x, x)'


def test_a_sequence_alone() -> None:
    sequence = SeqExpr((BindingBlock((VarBinding(Y, X),)),), Y)
    assert str(sequence.script(show_all_types=False)) == "y = x\ny"
    nested = VarBinding(Z, sequence)
    assert str(nested.script(show_all_types=False)) == "y = x\nz = y"


BIG = Constant(np.arange(20.0))


def test_big_constants_stand_before_the_program_once_each() -> None:
    other = Constant(np.ones(20))
    function = function_of(result=Tuple((BIG, other, BIG)))
    text = str(function)
    assert text.startswith("# from relaxjax.script import relax as R\nmetadata = tvm.ir.load_json(")
    assert text.count("ffi.Tensor") == 2
    names = [f'metadata["ir.GenericConst"][{index}]' for index in (0, 1, 0)]
    assert f"return ({', '.join(names)})" in text


def test_a_comment_says_how_many_constants_are_left_out() -> None:
    one, two = function_of(result=BIG), function_of(result=Tuple((BIG, Constant(np.ones(20)))))
    told = "left out; `script(show_meta=True)` writes all of them."
    assert str(one.script(show_meta=False)).endswith(f"\n\n# 1 constant is {told}")
    assert str(two.script(show_meta=False)).endswith(f"\n\n# 2 constants are {told}")
    assert "load_json" not in str(one.script(show_meta=False))


def test_views_for_the_eye_leave_big_constants_out(capsys: pytest.CaptureFixture[str]) -> None:
    function = function_of(result=BIG)
    function.show()
    shown = capsys.readouterr().out
    assert repr(function) == shown.rstrip("\n")
    assert "1 constant is left out" in shown
    assert "1 constant is left out" in function._repr_html_()
    function.show(show_meta=True)
    assert "load_json" in capsys.readouterr().out
    function.show(style="dark", black_format=True)
    assert "1 constant is left out" in capsys.readouterr().out


def test_printing_is_linear_in_the_number_of_bindings() -> None:
    """Each variable is named once: the clashes of ten thousand equal hints stay cheap."""
    binding, bindings = X, []
    for _ in range(10_000):
        var = Var("lv", VECTOR)
        bindings.append(VarBinding(var, binding))
        binding = var
    text = body_of(function_of(*bindings, result=binding), show_all_types=False)
    assert text.endswith("lv_9999 = lv_9998\nreturn lv_9999")
