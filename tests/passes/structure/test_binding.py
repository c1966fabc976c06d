"""BindParams, BindSymbolicVars, UpdateParamType, and the methods of functions behind them."""

from collections.abc import Callable

import numpy as np
import pytest
from parsing import parse_functions, parse_main
from rewriting import check_rewrite

from relaxjax.ir import GlobalVar, SymbolicVar, TensorType, Type, Var, assert_structural_equal
from relaxjax.ir.walk import type_symbols
from relaxjax.passes import BindParams, BindSymbolicVars, Gradient, UpdateParamType

TEXT = """
@R.function
def main(x: R.Tensor(("n", 3), "float32"), w: R.Tensor((3, 2), "float32")):
    n = T.int64()
    y = R.matmul(x, w)
    z = R.reshape(y, R.shape([n * 2]))
    return z
"""
STATIC = """
@R.function
def main(x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 2), "float32")):
    y = R.matmul(x, w)
    z = R.reshape(y, R.shape([4]))
    return z
"""
BOUND = """
@R.function
def main(w: R.Tensor((3, 2), "float32")):
    y = R.matmul(R.const([[1, 1, 1], [1, 1, 1]], "float32"), w)
    z = R.reshape(y, R.shape([4]))
    return z
"""
CALLED = """
@R.function
def main(x: R.Tensor((2, 3), "float32")):
    y = Module.double(x)
    return y
@R.function(private=True)
def double(x: R.Tensor(("n", 3), "float32")) -> R.Tensor(("n", 3), "float32"):
    n = T.int64()
    y: R.Tensor((n, 3), "float32") = R.add(x, x)
    return y
"""
ONES = np.ones((2, 3), "float32")


def test_a_constant_tells_the_dimensions_of_its_parameter() -> None:
    check_rewrite(BindParams("main", {"x": ONES}), TEXT, BOUND, again=False)


def test_a_closure_keeps_the_dimensions_of_the_function_around_it() -> None:
    """They are inferred anew, and a loop over what it returns has as many steps as before."""
    text = """
        @R.function
        def main({params}) -> R.Tensor(("n",), "float32"):
            n = T.int64()

            @R.function
            def rows() -> R.Tensor((n, 3), "float32"):
                return x

            @R.function
            def step(
                carry: R.Tensor((), "float32"), row: R.Tensor((3,), "float32")
            ) -> R.Tuple(R.Tensor((), "float32"), R.Tensor((), "float32")):
                total = R.sum(row)
                return (carry, {total})

            values = rows()
            looped = R.scan(step, R.const(0.0, "float32"), values)
            totals = looped[1]
            return totals
    """
    params = 'x: R.Tensor(("n", 3), "float32")'
    before = text.format(params=f'{params}, scale: R.Tensor((), "float32")', total="total * scale")
    after = text.format(params=params, total='total * R.const(2.0, "float32")')
    bind = BindParams("main", {"scale": np.float32(2.0)})
    check_rewrite(bind, before, after, again=False)


def test_a_parameter_can_be_given_as_a_variable() -> None:
    module = parse_functions(TEXT)
    function = module["main"]
    for mapping in ({function.params[0]: ONES}, {"x": ONES}):
        assert_structural_equal(function.bind_params(mapping), parse_functions(BOUND)["main"])
    assert BindParams("main", {})(module) is module
    assert function.bind_params({}) is function


def test_a_scalar_of_the_host_can_be_bound() -> None:
    module = parse_functions('@R.function\ndef main(s: R.Prim("int64")):\n    return s\n')
    bound = module["main"].bind_params({"s": 3})
    assert str(bound.body.body) == "R.prim_value(3)"


def test_the_backward_program_is_bound_too() -> None:
    text = TEXT.replace("reshape(y, R.shape([n * 2]))", "sum(y)")
    adjoint = Gradient("main", require_grads=None)(parse_functions(text))
    bound = BindParams("main_adjoint", {"x": ONES})(adjoint)["main_adjoint"]
    assert [param.name for param in bound.params] == ["w"]
    assert '"n"' not in str(bound.ret_ty)


def test_what_cannot_be_bound() -> None:
    module = parse_functions(TEXT)
    with pytest.raises(ValueError, match="the function has no parameter `q`; it has `x`, `w`"):
        BindParams("main", {"q": ONES})(module)
    message = r"the parameter `w` is of type .*\(3, 2\).*, but the value given .*\(2, 3\)"
    with pytest.raises(TypeError, match=message):
        BindParams("main", {"w": ONES})(module)
    with pytest.raises(ValueError, match="`main` calls `double`: only a function that no other"):
        BindParams("double", {"x": ONES})(parse_functions(CALLED))


def test_names_that_mean_two_things() -> None:
    both = parse_functions(TEXT)["main"]
    params = tuple(Var("x", param.ty) for param in both.params)
    twice = both.bind_params({}) if not params else type(both)(params, both.body, both.ret_ty)
    with pytest.raises(ValueError, match="2 parameters called `x`: give the variable itself"):
        twice.bind_params({"x": ONES})
    two = parse_main("return x", x=("n",), f=("m",))["main"]
    first, second = parse_functions(TEXT)["main"], parse_functions(TEXT)["main"]
    mixed = type(two)((first.params[0], second.params[0]), first.body, first.ret_ty)
    with pytest.raises(ValueError, match="2 symbolic dimensions called `n`: give the dimension"):
        mixed.bind_symbolic_vars({"n": 2})


def test_dimensions_are_replaced_everywhere() -> None:
    check_rewrite(BindSymbolicVars({"n": 2}), TEXT, STATIC, again=False)
    check_rewrite(BindSymbolicVars({"n": 2}, "main"), TEXT, STATIC, again=False)


def test_a_dimension_can_be_given_itself() -> None:
    module = parse_functions(TEXT)
    symbol = module["main"].params[0].ty.shape[0]
    assert_structural_equal(BindSymbolicVars({symbol: 2})(module), parse_functions(STATIC))
    assert BindSymbolicVars({})(module) is module


def test_a_dimension_that_no_function_has() -> None:
    module = parse_functions(TEXT)
    with pytest.raises(ValueError, match="no function has a symbolic dimension `k`"):
        BindSymbolicVars({"k": 2})(module)
    match = "the function has no symbolic dimension `k`; there are `n`"
    with pytest.raises(ValueError, match=match):
        BindSymbolicVars({"k": 2}, "main")(module)


def retyped(ty: Type) -> Callable[[Var], Type | None]:
    return lambda param: ty if param.name == "x" else None


def test_new_types_of_parameters_lead_to_new_types_inside() -> None:
    check_rewrite(UpdateParamType(retyped(TensorType((2, 3), "float32"))), TEXT, STATIC)


def test_callers_follow() -> None:
    """The result of a call has a new type too, and errors name the function."""
    text = CALLED.replace('"n"', "2").replace("    n = T.int64()\n", "").replace("(n,", "(2,")
    half = UpdateParamType(retyped(TensorType((2, 3), "float16")))(parse_functions(text))
    assert half["main"].ret_ty == TensorType((2, 3), "float16")
    with pytest.raises(TypeError, match=r"relax\.matmul") as caught:
        UpdateParamType(retyped(TensorType((2, 4), "float32")))(parse_functions(TEXT))
    assert "in the function `main`" in caught.value.__notes__


def test_nothing_to_update() -> None:
    module = parse_functions(TEXT)
    assert UpdateParamType(lambda param: None)(module) is module
    assert UpdateParamType(lambda param: param.ty)(module) is module


def test_what_is_given_twice_must_be_the_same() -> None:
    main = parse_functions(TEXT)["main"]
    x, _ = main.params
    (n,) = type_symbols(x.ty)
    assert_structural_equal(
        main.bind_symbolic_vars({n: 2, "n": 2}), parse_functions(STATIC)["main"]
    )
    with pytest.raises(ValueError, match="dimension `n` is given twice, as 1 and 2"):
        main.bind_symbolic_vars({n: 1, "n": 2})
    with pytest.raises(ValueError, match="the parameter `x` is given twice"):
        main.bind_params({x: ONES, "x": ONES})
    called = parse_functions(CALLED)
    with pytest.raises(ValueError, match="two functions are given for `double`"):
        main.inline_functions({GlobalVar("double"): called["double"], "double": main})


def test_a_dimension_that_nothing_would_tell() -> None:
    main = parse_functions(TEXT)["main"]
    k = SymbolicVar("k")
    match = r"`n` cannot be `k \* 2`: no parameter would tell what `k`"
    with pytest.raises(ValueError, match=match):
        main.bind_symbolic_vars({"n": k * 2})
    assert 'R.Tensor(("k", 3)' in main.bind_symbolic_vars({"n": k}).script()
    two = parse_functions("""
        @R.function
        def f(x: R.Tensor(("n",), "float32"), y: R.Tensor(("m",), "float32")):
            return y
        """)["f"]
    (m,) = type_symbols(two.params[1].ty)
    assert 'x: R.Tensor(("m * 2",)' in two.bind_symbolic_vars({"n": m * 2}).script()
