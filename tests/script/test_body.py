"""The statements of functions: bindings, blocks, branches, closures."""

from textwrap import dedent, indent

import jax
import pytest
from script_programs import MATRIX, function, names, round_trip, values

from relaxjax.ir.attrs import Attrs
from relaxjax.ir.expr import Call, DataflowVar
from relaxjax.ir.function import DataflowBlock, Function, If, MatchCast, SeqExpr
from relaxjax.ir.module import IRModule
from relaxjax.ir.structural import assert_structural_equal
from relaxjax.ir.types import ObjectType, TensorType, TupleType
from relaxjax.lowering import VirtualMachine, build, to_jax
from relaxjax.script import from_source


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
    found = function("""
        with R.dataflow():
            y = R.add(x, x)
            y = R.multiply(y, y)
            a, z = y, x
            R.output(y, z)
        between = R.exp(z)
        with R.dataflow():
            w = R.add(y, between)
        return y
        """)
    first, _, second = found.body.blocks
    assert isinstance(first, DataflowBlock)
    assert isinstance(second, DataflowBlock)
    hidden = [isinstance(binding.var, DataflowVar) for binding in first.bindings]
    assert hidden == [True, False, True, False]
    assert found.body.body is first.bindings[1].var
    assert all(isinstance(binding.var, DataflowVar) for binding in second.bindings)


def test_dataflow_blocks_in_a_row_are_one() -> None:
    found = function("""
        with R.dataflow():
            a = R.exp(x)
            y = R.sin(a)
            R.output(y)
        with R.dataflow():
            z = R.cos(y)
            R.output(z)
        return z
        """)
    (block,) = found.body.blocks
    assert isinstance(block, DataflowBlock)
    hidden = [isinstance(binding.var, DataflowVar) for binding in block.bindings]
    assert hidden == [True, False, False]


def test_a_name_hidden_in_a_block_means_afterwards_what_it_meant_before() -> None:
    found = function("""
        with R.dataflow():
            x = R.add(x, x)
            y = R.add(x, x)
            R.output(y)
        return R.add(x, y)
        """)
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
    assert found.ret_ty == MATRIX


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
    found = function("""
        R.func_attr({"num_input": 1, "names": ["a", {"b": 2.5}]})
        R.func_attr({"extra": None})
        return x
        """)
    assert found.attrs == Attrs(num_input=1, names=["a", {"b": 2.5}], extra=None, global_symbol="f")


def test_a_closure_sees_the_names_around_it() -> None:
    found = function("""
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
        """)
    _, inner, noisy, _ = found.body.bindings()
    assert isinstance(inner.value, Function)
    assert isinstance(noisy.value, Function)
    assert inner.value.attrs == Attrs(k=1)
    assert inner.var.ty == inner.value.ty
    assert noisy.value.ret_ty == MATRIX
    assert not noisy.value.pure


def test_a_closure_can_call_itself() -> None:
    found = function("""
        @R.function
        def count(i: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
            if R.equal(i, R.const(0)):
                r = R.const(1)
            else:
                r = count(R.subtract(i, R.const(1)))
            return r
        return count(R.const(3))
        """)
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


def test_branches_may_end_with_an_effect() -> None:
    found = from_source(
        dedent("""
        @R.function(pure=False)
        def f(c: R.Tensor((), "bool"), x: R.Tensor((), "float32")):
            if c:
                y = x + x
                R.print(y, format="yes {}")
            else:
                if R.prim_value(True):
                    R.print(x, format="no {}")
                else:
                    R.tuple()
            return x
        """)
    )
    assert isinstance(found, Function)
    round_trip(found)
    choice = found.body.blocks[0].bindings[0]
    assert choice.var.ty == TupleType(())
    mod = IRModule({"f": found})
    for run in (to_jax(mod, "f"), VirtualMachine(build(mod))["f"]):
        for condition in (True, False):
            run(condition, 2.0)


def test_what_branches_print_is_what_is_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    found = from_source(
        dedent("""
        @R.function(pure=False)
        def f(c: R.Tensor((), "bool"), x: R.Tensor((), "float32")):
            if c:
                R.print(x, format="yes {}")
            else:
                R.print(x, format="no {}")
            return x
        """)
    )
    assert isinstance(found, Function)
    run = VirtualMachine(build(IRModule({"f": found})))["f"]
    for condition in (True, False, True):
        run(condition, 2.0)
    jax.effects_barrier()
    assert capsys.readouterr().out.split("\n") == ["yes 2.0", "no 2.0", "yes 2.0", ""]


def test_a_function_may_return_at_the_end_of_its_last_block() -> None:
    inside, behind = (
        function(f"""
            with R.dataflow():
                y = x + x
                z = y * x
                R.output(z)
            {indent}return z
            """)
        for indent in ("    ", "")
    )
    assert_structural_equal(inside, behind)
