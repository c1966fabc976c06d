"""Reading modules."""

from script_programs import MATRIX, function, module, values

from relaxjax import Function, TensorType, TupleType, from_source
from relaxjax.ir import Attrs, Call, ExternFunc, GlobalVar, assert_structural_equal
from relaxjax.ir.global_info import DummyGlobalInfo, VDevice


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
    assert found["main"].ret_ty == MATRIX
    assert found["kernel"] == ExternFunc("my_kernel")


def test_functions_are_known_before_they_are_defined() -> None:
    """Results that are not declared are inferred, whatever the order."""
    found = module("""
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
        """)
    assert list(found) == ["a", "b", "c"]
    assert found["a"].ret_ty == TupleType((MATRIX, MATRIX))
    call = values(found["a"])[0]
    assert isinstance(call, Call)
    assert isinstance(call.op, GlobalVar)
    assert call.op.ty == found["b"].ty


def test_functions_that_call_one_another_in_a_circle() -> None:
    found = module("""
        @I.ir_module
        class Module:
            @R.function
            def even(x: R.Tensor((), "int32")) -> R.Tensor((), "bool"):
                return Module.odd(x)
            @R.function
            def odd(x: R.Tensor((), "int32")) -> R.Tensor((), "bool"):
                return Module.even(x)
        """)
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


def test_a_function_that_stands_before_the_module() -> None:
    """It may be entered into the module, or called as a closure, as often as one likes."""
    found = module("""
        @R.function
        def twice(x: R.Tensor(("n", 3), "float32")):
            return R.add(x, x)
        @I.ir_module
        class Module:
            entered = twice
            @R.function
            def main(x: R.Tensor((2, 3), "float32")):
                with R.dataflow():
                    y = twice(twice(x))
                    R.output(y)
                return twice(y)
        """)
    assert list(found) == ["entered", "main"]
    closures = [value for value in values(found["main"]) if isinstance(value, Function)]
    assert len(closures) == 3
    assert all(closure.global_symbol is None for closure in closures)
    assert found["main"].ret_ty == MATRIX


def test_what_only_type_checkers_read_means_nothing() -> None:
    """Neither the base class that they know a module by, nor the decorator of a body unread."""
    plain = """
        @I.ir_module
        class M:
            @R.function(private=True)
            def f(x: R.Tensor((2,), "float32")):
                return x
        """
    found = module("""
        from typing import no_type_check

        @I.ir_module
        class M(I.Module):
            @R.function(private=True)
            @no_type_check
            def f(x: R.Tensor((2,), "float32")):
                return x
        """)
    assert_structural_equal(found, module(plain))
    assert str(found.script()) == str(module(plain).script())


def test_a_function_that_type_checkers_pass_over() -> None:
    text = """
from typing import no_type_check

@R.function(pure=False)
@no_type_check
def f(x: R.Tensor((2,), "float32")):
    return x
"""
    found = from_source(text)
    assert isinstance(found, Function)
    assert not found.is_pure
