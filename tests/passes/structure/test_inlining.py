"""Inline, InlinePrivateFunctions and `Function.inline_functions`."""

import numpy as np
import pytest
from parsing import parse_functions
from rewriting import check_kept, check_rewrite

from relaxjax import from_source, to_jax
from relaxjax.ir import Function, assert_structural_equal
from relaxjax.passes import CanonicalizeBindings, Gradient, Inline, InlinePrivateFunctions, Pass

HELPER = """
@R.function(private=True)
def helper(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
    n = T.int64()
    a: R.Tensor((n,), "float32") = R.exp(x)
    c: R.Tensor((n,), "float32") = R.sin(a)
    return c
"""
CALLS = """
@R.function
def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    with R.dataflow():
        a: R.Tensor((3,), "float32") = Module.helper(x)
        b: R.Tensor((3,), "float32") = Module.helper(a)
        R.output(b)
    return b
"""
OPENED = """
@R.function
def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    with R.dataflow():
        a = R.exp(x)
        c = R.sin(a)
        d = R.exp(c)
        b = R.sin(d)
        R.output(b)
    return b
"""
INLINE = HELPER.replace("    n = T", '    R.func_attr({"inline": True})\n    n = T')


def test_private_functions_are_inlined_and_go() -> None:
    check_rewrite(InlinePrivateFunctions(), CALLS + HELPER, OPENED)


def test_functions_that_ask_for_it_are_inlined() -> None:
    check_rewrite(Inline(), CALLS + INLINE, OPENED)
    check_kept(Inline(), CALLS + HELPER)


def test_a_public_function_stays_in_the_module() -> None:
    public = INLINE.replace("(private=True)", "")
    check_rewrite(Inline(), CALLS + public, OPENED + public)


def test_a_cost_model_says_what_pays() -> None:
    check_rewrite(Inline(cost_model=2), CALLS + HELPER, OPENED)
    check_kept(Inline(cost_model=1), CALLS + HELPER)
    asked: list[tuple[int, int]] = []

    def model(function: Function, calls: int) -> bool:
        asked.append((len(function.params), calls))
        return True

    check_rewrite(Inline(model), CALLS + HELPER, OPENED, again=False)
    assert asked == [(1, 2)]


def test_what_is_called_once_is_always_small_enough() -> None:
    once = CALLS.replace("Module.helper(a)", "R.exp(a)")
    assert list(Inline(cost_model=0)(parse_functions(once + HELPER))) == ["main"]


def test_a_body_that_does_not_fit_ends_the_dataflow_block() -> None:
    choice = """
@R.function(private=True)
def helper(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    if R.const(True, "bool"):
        y = R.exp(x)
    else:
        y = R.sin(x)
    return y
"""
    once = CALLS.replace("Module.helper(a)", "R.exp(a)")
    check_rewrite(
        InlinePrivateFunctions(),
        once + choice,
        """
@R.function
def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    if R.const(True, "bool"):
        a = R.exp(x)
    else:
        a = R.sin(x)
    b = R.exp(a)
    return b
""",
    )


def test_a_dataflow_block_stays_whole_where_its_call_stands_in_none() -> None:
    check_rewrite(
        InlinePrivateFunctions(),
        """
@R.function(private=True)
def helper(x: R.Tensor((3,), "float32")):
    with R.dataflow():
        a = R.exp(x)
        b = R.multiply(a, a)
        R.output(b)
    return b

@R.function
def main(x: R.Tensor((3,), "float32")):
    y = Module.helper(x)
    return R.sin(y)
""",
        """
@R.function
def main(x: R.Tensor((3,), "float32")):
    with R.dataflow():
        a = R.exp(x)
        b = R.multiply(a, a)
        R.output(b)
    y = b
    return R.sin(y)
""",
    )


def test_recursion_stays() -> None:
    text = """
@R.function(private=True)
def odd(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    y: R.Tensor((3,), "float32") = Module.even(x)
    return y
@R.function(private=True)
def even(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    y: R.Tensor((3,), "float32") = Module.odd(x)
    return y
"""
    check_kept(InlinePrivateFunctions(), CALLS.replace("helper", "odd") + text)
    functions = parse_functions(CALLS.replace("helper", "odd") + text).relax_functions()
    with pytest.raises(ValueError, match="the function `odd` calls itself: it cannot be inlined"):
        functions["main"].inline_functions({"odd": functions["odd"], "even": functions["even"]})


def test_a_function_inlines_others_by_name() -> None:
    module = parse_functions(CALLS + HELPER)
    opened = module["main"].inline_functions({"helper": module["helper"]})
    assert_structural_equal(opened, parse_functions(OPENED)["main"])
    by_var = module["main"].inline_functions({module.get_global_var("helper"): module["helper"]})
    assert_structural_equal(by_var, opened)
    assert module["main"].inline_functions({}) is module["main"]


def test_an_argument_that_only_its_value_tells_apart_is_cast() -> None:
    """As the call does it; what the types prove needs no cast."""
    sums = """
@R.function(private=True)
def helper(a: R.Tensor(("n",), "float32"), b: R.Tensor(("n",), "float32")) -> R.Tensor("float32"):
    c = R.add(a, b)
    return c
"""
    check_rewrite(
        InlinePrivateFunctions(),
        """
@R.function
def main(x: R.Tensor(("m",), "float32"), y: R.Object) -> R.Tensor("float32"):
    with R.dataflow():
        d: R.Tensor("float32") = Module.helper(x, y)
        R.output(d)
    return d
"""
        + sums,
        """
@R.function
def main(x: R.Tensor(("m",), "float32"), y: R.Object) -> R.Tensor("float32"):
    m = T.int64()
    with R.dataflow():
        b = R.match_cast(y, R.Tensor((m,), "float32"))
        d: R.Tensor("float32") = R.add(x, b)
        R.output(d)
    return d
""",
    )


def test_a_closure_that_is_an_object_is_called_as_what_the_parameter_says() -> None:
    """So the call stays pure, and may stand in a dataflow block."""
    check_rewrite(
        InlinePrivateFunctions(),
        """
@R.function
def main(x: R.Tensor((3,), "float32")) -> R.Object:
    with R.dataflow():
        c = R.make_closure(Module.captured, (x,))
        d: R.Object = Module.handed(x, c)
        R.output(d)
    return d
@R.function(private=True)
def handed(
    x: R.Tensor((3,), "float32"), k: R.Callable((R.Tensor((3,), "float32"),), R.Object)
) -> R.Object:
    with R.dataflow():
        y: R.Object = k(x)
        R.output(y)
    return y
@R.function
def captured(x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32")) -> R.Object:
    return x
""",
        """
@R.function
def main(x: R.Tensor((3,), "float32")) -> R.Object:
    with R.dataflow():
        c = R.make_closure(Module.captured, (x,))
        k = R.match_cast(c, R.Callable((R.Tensor((3,), "float32"),), R.Object))
        d: R.Object = k(x)
        R.output(d)
    return d
@R.function
def captured(x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32")) -> R.Object:
    return x
""",
    )


DERIVED = """
@R.function(private=True)
def helper(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    R.func_attr({"custom_gradient": "helper_gradient"})
    y: R.Tensor((3,), "float32") = R.exp(x)
    return y

@R.function(private=True)
def helper_gradient(
    x: R.Tensor((3,), "float32"), g: R.Tensor((3,), "float32")
) -> R.Tuple(R.Tensor((3,), "float32")):
    z: R.Tensor((3,), "float32") = R.multiply(g, x)
    return (z,)

@R.function
def main(x: R.Tensor((3,), "float32")) -> R.Tensor((), "float32"):
    with R.dataflow():
        y: R.Tensor((3,), "float32") = Module.helper(x)
        loss: R.Tensor((), "float32") = R.sum(y)
        R.output(loss)
    return loss
"""


def test_a_derivative_stays_as_long_as_what_it_is_of() -> None:
    """In the adjoint it is called as other functions are, and inlined."""
    adjoint = Gradient("main")(parse_functions(DERIVED))
    inlined = InlinePrivateFunctions()(adjoint)
    assert "helper_gradient(" not in inlined["main_adjoint"].script()
    assert set(inlined.relax_functions()) == set(adjoint.relax_functions())
    assert_structural_equal(inlined["helper_gradient"], adjoint["helper_gradient"])
    x = np.arange(3, dtype="float32")
    _, (gradient,) = to_jax(inlined, "main_adjoint")(x)
    np.testing.assert_allclose(gradient, x)
    whole = InlinePrivateFunctions(differentiated=True)(adjoint)
    assert set(whole.relax_functions()) == {"main", "main_adjoint"}


SHAPED = """
@R.function(private=True)
def doubled(x: R.Tensor(("n", 3), "float32"), s: R.Shape(["n", 3])):
    n = T.int64()
    two = R.full(s, R.const(2.0, "float32"), dtype="float32")
    y = R.multiply(x, two)
    return y

@R.function
def main(x: R.Tensor(("n", 3), "float32")):
    n = T.int64()
    s = R.shape_of(x)
    same = s
    ones = R.ones(same, dtype="float32")
    y = Module.doubled(R.add(x, ones), same)
    return y
"""


@pytest.mark.parametrize("passes", [[], [CanonicalizeBindings()]], ids=["alone", "canonical"])
def test_shapes_that_types_name_keep_their_names(passes: list[Pass]) -> None:
    mod = InlinePrivateFunctions()(parse_functions(SHAPED))
    for one in passes:
        mod = one(mod)
    assert_structural_equal(from_source(mod.script()), mod)
    x = np.ones((2, 3), "float32")
    np.testing.assert_allclose(to_jax(mod, "main")(x), 4 * x)
