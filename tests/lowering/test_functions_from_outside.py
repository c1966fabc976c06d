"""Functions of Python that programs call, interpreted and written as plain JAX."""

import chex
import jax
import numpy as np
import pytest
from parsing import parse_functions

from relaxjax.ir import Call, ExternFunc, IRModule, SeqExpr, TensorType, Var
from relaxjax.ir.builder import make_function
from relaxjax.lowering import LoweringError, build, to_jax, to_python
from relaxjax.ops.packed import PACKED, register_packed

X = np.arange(6, dtype="float32").reshape(2, 3) + 1


MODULE = parse_functions("""
@R.function
def calls(x: R.Tensor((2, 3), "float32")):
    y = R.call_pure_packed("tests.doubled", x, ty_args=R.Tensor((2, 3), "float32"))
    return y

@R.function
def unknown_call(x: R.Tensor((2, 3), "float32")):
    y = R.call_pure_packed("tests.missing", x, ty_args=R.Tensor((2, 3), "float32"))
    return y
""")


def test_functions_from_outside() -> None:
    register_packed("tests.doubled")(lambda x: x * 2)
    try:
        chex.assert_trees_all_close(build(MODULE)["calls"](X), X * 2)
        chex.assert_trees_all_close(jax.jit(to_jax(MODULE, "calls"))(X), X * 2)
        with pytest.raises(ValueError, match=r"`tests.doubled` is registered already"):
            register_packed("tests.doubled")(lambda x: x)
    finally:
        PACKED.pop("tests.doubled")


def test_unknown_functions_from_outside() -> None:
    with pytest.raises(KeyError, match=r"no packed function `tests.missing` is registered"):
        build(MODULE)["unknown_call"](X)


def test_a_function_of_the_module_from_outside() -> None:
    """It stands in the module without a body; calling it calls what is registered."""
    register_packed("tests.square")(lambda x: x * x)
    x = Var("x", TensorType((2, 3), "float32"))
    inner = MODULE["calls"]
    module = IRModule({"square": ExternFunc("tests.square"), "main": inner})
    main = make_function([x], SeqExpr((), Call(module.get_global_var("square"), (x,), ty=x.ty)))
    try:
        module = module.with_function("main", main)
        chex.assert_trees_all_close(to_jax(module, "main")(X), X * X)
        with pytest.raises(LoweringError, match="`square` is a function from outside"):
            to_jax(module, "square")
    finally:
        PACKED.pop("tests.square")


def test_python_functions_from_outside_are_refused() -> None:
    mod = parse_functions("""
    @R.function(pure=False)
    def main(x: R.Tensor((2,), "float32")) -> R.Object:
        y = R.call_packed("my.function", x)
        return y
    """)
    match = (
        "`main` calls `my.function`, a Python function from outside: plain JAX that stands alone"
    )
    with pytest.raises(LoweringError, match=match):
        to_python(mod)


def test_functions_of_the_module_from_outside_are_refused() -> None:
    mod = parse_functions("""
    f = R.ExternFunc("f")

    @R.function(pure=False)
    def main(x: R.Tensor((2,), "float32")) -> R.Object:
        y = Module.f(x)
        return y
    """)
    with pytest.raises(LoweringError, match="`main` calls `f`, a Python function from outside"):
        to_python(mod)
    with pytest.raises(LoweringError, match="`f` is a function from outside: it has no body to"):
        to_python(mod, "f")
