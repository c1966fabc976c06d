"""What private functions take and return, and what models take as their weights."""

import numpy as np
import pytest
from parsing import parse_functions
from rewriting import check_kept, check_rewrite

from relaxjax.lowering import to_jax
from relaxjax.passes import (
    BundleModelParams,
    ExpandTupleArguments,
    Gradient,
    LiftTransformParams,
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
    m = T.int64()
    n = T.int64()
    out: R.Tensor((m, n), "float32") = Module.zeros(a)
    return out
@R.function(private=True)
def zeros(a: R.Tensor(("m", "n"), "float32")) -> R.Tensor(("m", "n"), "float32"):
    m = T.int64()
    n = T.int64()
    z = R.zeros(R.shape([m, n]), "float32")
    return z
""",
        """
@R.function
def main(a: R.Tensor(("m", "n"), "float32")) -> R.Tensor(("m", "n"), "float32"):
    m = T.int64()
    n = T.int64()
    out: R.Tensor((m, n), "float32") = Module.zeros(R.shape([m]), R.shape([n]))
    return out
@R.function(private=True)
def zeros(
    param_m: R.Shape(["m"]), param_n: R.Shape(["n"])
) -> R.Tensor(("m", "n"), "float32"):
    m = T.int64()
    n = T.int64()
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


MODEL = f"""
@R.function
def main(x: {T3}, w0: {T3}, w1: {T3}, w2: {T3}, w3: {T3}) -> {T3}:
    R.func_attr({{"num_input": 1}})
    with R.dataflow():
        z = R.zeros(R.shape([3]), "float32")
        a = R.exp(w3)
        b = R.add(x, w1)
        c = R.add(a, w0)
        d = R.exp(a)
        e = R.add(b, d)
        g = R.add(e, w3)
        h = R.add(g, c)
        i = R.add(h, z)
        R.output(i)
    return i
"""


def test_what_is_computed_of_weights_is_lifted() -> None:
    """Weights first that the model still uses, then what is computed, as TVM has them."""
    changed = check_rewrite(
        LiftTransformParams(),
        MODEL,
        f"""
@R.function
def main(x: {T3}, w1: {T3}, w3: {T3}, c: {T3}, d: {T3}) -> {T3}:
    R.func_attr({{"num_input": 1}})
    with R.dataflow():
        z = R.zeros(R.shape([3]), "float32")
        b = R.add(x, w1)
        e = R.add(b, d)
        g = R.add(e, w3)
        h = R.add(g, c)
        i = R.add(h, z)
        R.output(i)
    return i
@R.function
def main_transform_params(
    model_params: R.Tuple({T3}, {T3}, {T3}, {T3})
) -> R.Tuple({T3}, {T3}, {T3}, {T3}):
    R.func_attr({{"num_input": 0}})
    with R.dataflow():
        w3 = model_params[3]
        a = R.exp(w3)
        w0 = model_params[0]
        c = R.add(a, w0)
        d = R.exp(a)
        w1 = model_params[1]
        output_tuple = (w1, w3, c, d)
        R.output(output_tuple)
    return output_tuple
""",
    )
    x, *weights = (np.asarray([i, 1, 2], "float32") for i in range(5))
    expected = run(to_jax(parse_functions(MODEL), "main"), x, *weights)
    moved = run(to_jax(changed, "main_transform_params"), tuple(weights))
    np.testing.assert_array_equal(run(to_jax(changed, "main"), x, *moved), expected)


def test_a_function_of_the_name_of_the_transformation_is_not_lost() -> None:
    """Such as the one of an earlier run: what is lifted later comes behind it."""
    lifted = LiftTransformParams()(parse_functions(MODEL))
    assert LiftTransformParams()(lifted) is lifted
    mod = parse_functions(MODEL).with_function("main_transform_params", lifted["main"])
    with pytest.raises(ValueError, match="`main_transform_params`, but the module has one"):
        LiftTransformParams()(mod)


def test_a_backward_program_has_weights_too() -> None:
    adjoint = Gradient("main", cotangent=True)(parse_functions(MODEL))
    backward = adjoint.without_functions("main")
    lifted = LiftTransformParams()(backward)
    assert "main_adjoint_transform_params" in lifted
    args = [np.asarray([i, 1, 2], "float32") for i in range(6)]
    expected = run(to_jax(backward, "main_adjoint"), *args)
    moved = run(to_jax(lifted, "main_adjoint_transform_params"), tuple(args[1:]))
    found = run(to_jax(lifted, "main_adjoint"), args[0], *moved)
    np.testing.assert_allclose(found[0], expected[0])


def models(second: str) -> str:
    return "\n".join(
        f"""
@R.function
def {name}(x: {T3}, w0: {T3}, w1: {T3}) -> {T3}:
    R.func_attr({{"num_input": 1}})
    with R.dataflow():
        a = R.exp(w1)
        b = R.exp(w0)
        e = R.{operator}(a, b)
        f = R.add(x, e)
        R.output(f)
    return f
"""
        for name, operator in (("first", "add"), ("second", second))
    )


def test_what_models_have_in_common_can_be_shared() -> None:
    changed = LiftTransformParams(shared_transform=True)(parse_functions(models("multiply")))
    assert [p.name for p in changed["first"].params] == ["x", "a", "b"]
    assert [p.name for p in changed["second"].params] == ["x", "a", "b"]
    changed = LiftTransformParams(shared_transform=True)(parse_functions(models("add")))
    assert [p.name for p in changed["second"].params] == ["x", "e"]
    one = LiftTransformParams(shared_transform=["first"])(parse_functions(models("add")))
    assert [p.name for p in one["first"].params] == ["x", "e"]
    assert [p.name for p in one["second"].params] == ["x", "w0", "w1"]


def test_only_models_share() -> None:
    module = parse_functions(models("add") + f"@R.function\ndef third(x: {T3}):\n    return x\n")
    with pytest.raises(ValueError, match="`third` has no attribute `num_input`"):
        LiftTransformParams(shared_transform=["first", "third"])(module)
    other = models("add").replace("def second(x: R.Tensor((3,)", "def second(x: R.Tensor((3,)")
    other = other.replace('w1: R.Tensor((3,), "float32")) ', 'w1: R.Tensor((1,), "float32")) ', 1)
    with pytest.raises(ValueError, match="the weights of `second` are of types"):
        LiftTransformParams(shared_transform=True)(parse_functions(other))


def test_where_nothing_is_lifted_the_transformation_gives_the_weights() -> None:
    check_kept(LiftTransformParams(), CALLED)
    text = f"""
@R.function
def main(x: {T3}, w0: {T3}, w1: {T3}) -> {T3}:
    R.func_attr({{"num_input": INPUTS}})
    y = R.add(x, w1)
    return y
"""
    mod = parse_functions(text.replace("INPUTS", "1"))
    lifted = LiftTransformParams()(mod)
    assert lifted["main"] is mod["main"]
    weights = [np.full(3, number, "float32") for number in (1, 2)]
    given = to_jax(lifted, "main_transform_params")(tuple(weights))
    np.testing.assert_array_equal(given, weights)
    assert LiftTransformParams()(lifted) is lifted
    none = LiftTransformParams()(parse_functions(text.replace("INPUTS", "3")))
    assert to_jax(none, "main_transform_params")(()) == ()


def test_lifting_stops_at_a_mark_which_is_taken_away() -> None:
    check_rewrite(
        LiftTransformParams(),
        f"""
@R.function
def main(x: {T3}, c: R.Tensor((), "bool"), w: {T3}) -> {T3}:
    R.func_attr({{"num_input": 2}})
    with R.dataflow():
        a = R.exp(w)
        b = R.builtin.stop_lift_params(a)
        d = R.sin(b)
        R.output(d)
    if c:
        e = R.builtin.stop_lift_params(d)
        y = R.add(x, e)
    else:
        y = R.add(x, d)
    return y
""",
        f"""
@R.function
def main(x: {T3}, c: R.Tensor((), "bool"), a: {T3}) -> {T3}:
    R.func_attr({{"num_input": 2}})
    with R.dataflow():
        d = R.sin(a)
        R.output(d)
    if c:
        y = R.add(x, d)
    else:
        y = R.add(x, d)
    return y
@R.function
def main_transform_params(model_params: R.Tuple({T3})) -> R.Tuple({T3}):
    R.func_attr({{"num_input": 0}})
    with R.dataflow():
        w = model_params[0]
        a = R.exp(w)
        output_tuple = (a,)
        R.output(output_tuple)
    return output_tuple
""",
        again=False,
    )


def test_without_weights_the_bundle_is_empty() -> None:
    check_rewrite(
        BundleModelParams(),
        f"""
@R.function
def main(x: {T3}) -> {T3}:
    R.func_attr({{"num_input": 1}})
    return x
""",
        f"""
@R.function
def main(x: {T3}, model_params: R.Tuple) -> {T3}:
    R.func_attr({{"num_input": 1}})
    return x
""",
    )


def test_weights_are_bundled() -> None:
    check_rewrite(
        BundleModelParams("weights"),
        f"""
@R.function
def main(x: {T3}, c: R.Tensor((), "bool"), w0: {T3}, w1: {T3}) -> {T3}:
    R.func_attr({{"num_input": 2}})
    if c:
        y = R.add(x, w0)
    else:
        y = R.add(x, w1)
    with R.dataflow():
        a = R.exp(w1)
        b = R.add(a, y)
        R.output(b)
    return b
""",
        f"""
@R.function
def main(x: {T3}, c: R.Tensor((), "bool"), weights: {PAIR}) -> {T3}:
    R.func_attr({{"num_input": 2}})
    if c:
        w0 = weights[0]
        y = R.add(x, w0)
    else:
        w1 = weights[1]
        y = R.add(x, w1)
    with R.dataflow():
        w2 = weights[1]
        a = R.exp(w2)
        b = R.add(a, y)
        R.output(b)
    return b
""",
    )
    check_kept(BundleModelParams(), CALLED)
