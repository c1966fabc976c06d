"""What models take as their weights: what is computed of them lifted out, and all in one bundle."""

import numpy as np
import pytest
from parsing import parse_functions
from rewriting import check_rewrite

from relaxjax.lowering import to_jax
from relaxjax.passes import BundleModelParams, Gradient, LiftTransformParams
from relaxjax.testing.equations import run

T3 = 'R.Tensor((3,), "float32")'
PAIR = f"R.Tuple({T3}, {T3})"


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
