"""What private functions take and return."""

import numpy as np
import pytest
from parsing import parse_functions
from rewriting import check_kept, check_rewrite

from relaxjax.lowering import to_jax
from relaxjax.passes import (
    BundleModelParams,
    ExpandTupleArguments,
    LiftTransformParams,
    Pass,
    RemoveUnusedOutputs,
    RemoveUnusedParameters,
    ToGraphNormalForm,
)
from relaxjax.testing.equations import run

T3 = 'R.Tensor((3,), "float32")'
PAIR = f"R.Tuple({T3}, {T3})"


def test_a_dimension_that_only_an_unused_parameter_tells_is_passed_itself() -> None:
    """As TVM passes it."""
    check_rewrite(
        RemoveUnusedParameters(),
        """
@R.function
def main(a: R.Tensor(("m", "n"), "float32")) -> R.Tensor(("m", "n"), "float32"):
    m, n = T.int64(), T.int64()
    out: R.Tensor((m, n), "float32") = Module.zeros(a)
    return out
@R.function(private=True)
def zeros(a: R.Tensor(("m", "n"), "float32")) -> R.Tensor(("m", "n"), "float32"):
    m, n = T.int64(), T.int64()
    z = R.zeros(R.shape([m, n]), "float32")
    return z
""",
        """
@R.function
def main(a: R.Tensor(("m", "n"), "float32")) -> R.Tensor(("m", "n"), "float32"):
    m, n = T.int64(), T.int64()
    out: R.Tensor((m, n), "float32") = Module.zeros(R.shape([m]), R.shape([n]))
    return out
@R.function(private=True)
def zeros(
    param_m: R.Shape(["m"]), param_n: R.Shape(["n"])
) -> R.Tensor(("m", "n"), "float32"):
    m, n = T.int64(), T.int64()
    z = R.zeros(R.shape([m, n]), "float32")
    return z
""",
    )


def test_a_dimension_that_no_caller_knows_keeps_its_parameter() -> None:
    check_kept(
        RemoveUnusedParameters(),
        """
@R.function
def main(a: R.Tensor(ndim=1, dtype="float32")):
    out = Module.zeros(a)
    return out
@R.function(private=True)
def zeros(a: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
    n = T.int64()
    z = R.zeros(R.shape([n]), "float32")
    return z
""",
    )


def test_parameters_are_lost_along_a_chain_of_calls() -> None:
    changed = check_rewrite(
        RemoveUnusedParameters(),
        f"""
@R.function
def main(x: {T3}, y: {T3}):
    a = Module.first(x, y)
    return a
@R.function(private=True)
def first(x: {T3}, y: {T3}) -> {T3}:
    a = Module.second(x, y)
    return a
@R.function(private=True)
def second(x: {T3}, y: {T3}) -> {T3}:
    a = R.exp(y)
    return a
""",
        f"""
@R.function
def main(x: {T3}, y: {T3}):
    a = Module.first(y)
    return a
@R.function(private=True)
def first(y: {T3}) -> {T3}:
    a = Module.second(y)
    return a
@R.function(private=True)
def second(y: {T3}) -> {T3}:
    a = R.exp(y)
    return a
""",
    )
    assert len(changed["main"].params) == 2


VALUES = f"""
@R.function
def main(x: {T3}):
    f = Module.helper
    return f
@R.function(private=True)
def helper(t: {PAIR}, z: {T3}) -> {PAIR}:
    a = t[0]
    return (a, a)
"""


@pytest.mark.parametrize(
    "given", [RemoveUnusedParameters(), RemoveUnusedOutputs(), ExpandTupleArguments()]
)
def test_a_function_that_is_a_value_keeps_its_signature(given: object) -> None:
    check_kept(given, VALUES)  # type: ignore[arg-type]  # each is a pass


CALLED = f"""
@R.function
def main(x: {T3}, p: {PAIR}):
    a = Module.helper(p, x)
    b = a[1]
    c = Module.helper((x, b), x)
    d = c[1]
    e = R.add(b, d)
    return e
@R.function(private=True)
def helper(t: {PAIR}, z: {T3}) -> R.Tuple({T3}, {T3}, {T3}):
    y = t[0]
    a = R.exp(y)
    c = R.sin(a)
    d = R.cos(c)
    return (d, c, a)
"""


def test_outputs_that_nobody_uses_are_computed_no_more() -> None:
    check_rewrite(
        RemoveUnusedOutputs(),
        CALLED,
        f"""
@R.function
def main(x: {T3}, p: {PAIR}):
    b = Module.helper(p, x)
    d = Module.helper((x, b), x)
    e = R.add(b, d)
    return e
@R.function(private=True)
def helper(t: {PAIR}, z: {T3}) -> {T3}:
    y = t[0]
    a = R.exp(y)
    c = R.sin(a)
    return c
""",
    )


def test_two_outputs_that_are_left_stay_a_tuple() -> None:
    text = CALLED.replace("d = c[1]", "d = c[2]").replace("return (d, c, a)", "return (d, c, a)")
    changed = RemoveUnusedOutputs()(parse_functions(text))
    assert len(changed["helper"].ret_ty.fields) == 2
    args = (
        np.asarray([1, 2, 3], "float32"),
        (np.asarray([4, 5, 6], "float32"), np.asarray([7, 8, 9], "float32")),
    )
    before = run(to_jax(parse_functions(text), "main"), *args)
    np.testing.assert_array_equal(run(to_jax(changed, "main"), *args), before)


def test_an_output_is_used_where_the_tuple_is() -> None:
    check_kept(RemoveUnusedOutputs(), CALLED.replace("return e", "return (e, c)"))


def test_an_output_is_used_where_its_call_is_nested() -> None:
    nested = ToGraphNormalForm()(parse_functions(CALLED))
    assert "Module.helper(p, x)[1]" in str(nested.script()).replace("cls.", "Module.")
    assert RemoveUnusedOutputs()(nested) is nested


def test_tuples_are_expanded_at_every_call() -> None:
    check_rewrite(
        ExpandTupleArguments(),
        CALLED,
        f"""
@R.function
def main(x: {T3}, p: {PAIR}):
    p0 = p[0]
    p1 = p[1]
    a = Module.helper(p0, p1, x)
    b = a[1]
    c = Module.helper(x, b, x)
    d = c[1]
    e = R.add(b, d)
    return e
@R.function(private=True)
def helper(t_0: {T3}, t_1: {T3}, z: {T3}) -> R.Tuple({T3}, {T3}, {T3}):
    a = R.exp(t_0)
    c = R.sin(a)
    d = R.cos(c)
    return (d, c, a)
""",
    )


def test_tuples_in_tuples_are_expanded_and_what_uses_them_whole_gets_them() -> None:
    check_rewrite(
        ExpandTupleArguments(),
        f"""
@R.function
def main(t: R.Tuple({T3}, {PAIR})):
    a = Module.helper(t)
    return a
@R.function(private=True)
def helper(t: R.Tuple({T3}, {PAIR})) -> {PAIR}:
    a = t[1]
    return a
""",
        f"""
@R.function
def main(t: R.Tuple({T3}, {PAIR})):
    t0 = t[0]
    t1: {PAIR} = t[1]
    t10 = t1[0]
    t11 = t1[1]
    a = Module.helper(t0, t10, t11)
    return a
@R.function(private=True)
def helper(t_0: {T3}, t_1_0: {T3}, t_1_1: {T3}) -> {PAIR}:
    return (t_1_0, t_1_1)
""",
    )


def test_a_tuple_of_which_its_call_does_not_tell_the_fields_is_not_expanded() -> None:
    text = f"""
@R.function
def main(t: R.Tuple(R.Object, {T3})) -> {T3}:
    a = Module.helper(t)
    return a
@R.function(private=True)
def helper(t: R.Tuple({PAIR}, {T3})) -> {T3}:
    a = t[0]
    b = a[1]
    return b
"""
    check_kept(ExpandTupleArguments(), text)


@pytest.mark.parametrize("given", [LiftTransformParams(), BundleModelParams()])
def test_functions_that_are_no_models_keep_theirs_as_well(given: Pass) -> None:
    check_kept(given, CALLED)
