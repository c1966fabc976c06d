"""Compiled gradients held against a reference: what is right passes, and what is wrong is named."""

from typing import Any

import numpy as np
import pytest
from parsing import parse_functions, parse_main

from relaxjax.ir import Expr, IRModule, TensorType
from relaxjax.ir.node import replace
from relaxjax.ir.op import get_op
from relaxjax.lowering import ArgumentError, to_jax
from relaxjax.ops import op
from relaxjax.testing import CompilationError, Way, compare_compilations, compilations
from relaxjax.testing.compilations import DTYPES, POLICIES, ROUTES, ways_of
from relaxjax.testing.reference import Reference

SMALL = parse_functions("""
@R.function
def main(x: R.Tensor((3, 4), "float32"), w: R.Tensor((4,), "float32"), i: R.Tensor((2,), "int64")):
    h = R.sin(R.multiply(x, w))
    t = R.take(R.max(h, axis=0), i)
    return (R.sum(R.square(h)), t, i)
""")


@pytest.mark.parametrize("route", list(ROUTES))
def test_a_right_program_passes_each_route(route: str) -> None:
    (found,) = compare_compilations(SMALL, ways=[Way(route)])
    assert found.way == Way(route)
    assert found.error < 1
    assert not found.loosely


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_right_program_passes_each_policy_in_each_dtype(policy: str, dtype: str) -> None:
    (found,) = compare_compilations(SMALL, ways=[Way("simplified", policy, dtype)])
    assert found.error < 1


def test_memory_is_planned_for_the_sizes_of_the_arguments() -> None:
    mod = parse_main("y = R.sin(x)\nreturn y", x=("n", 4))
    args = [np.ones((3, 4), "float32")]
    for policy in ("none", "balanced"):
        (found,) = compare_compilations(mod, args=args, ways=[Way("build", policy)])
        assert found.error < 1


def test_a_gradient_at_a_turn_is_not_held_against_a_slope() -> None:
    """Where two elements tie, a slope by differences is the mean of two gradients."""
    mod = parse_main("y = R.take(R.square(x), R.argmax(x), axis=0)\nreturn y", x=(2,))
    assert compare_compilations(mod, args=[np.ones(2, "float32")], ways=[]) == []


def test_random_numbers_are_drawn_in_their_own_dtype() -> None:
    """Those of another dtype would be others."""
    mod = parse_main(
        "u = R.random.uniform(R.random.key(3), R.shape([3]))\ny = R.multiply(x, u)\nreturn y",
        x=(3,),
    )
    assert {way.dtype for way in ways_of(mod)} == {"float32"}
    (found,) = compare_compilations(mod, ways=[Way("build")])
    assert found.error < 1


def test_all_ways_are_tried_where_none_is_named() -> None:
    assert len(set(ways_of(SMALL))) == len(ROUTES) * len(POLICIES) * len(DTYPES)
    assert compare_compilations(SMALL, ways=[]) == []


@pytest.mark.usefixtures("own_operators")
def test_a_wrong_gradient_is_found_before_anything_is_compiled() -> None:
    def halved(g: Expr, y: Expr, x: Expr) -> Expr:
        return g * x

    @op("relax.test_square", lower=lambda x: x * x, gradient=halved)
    def _(x: TensorType) -> TensorType:
        """x * x."""
        return x

    mod = parse_functions("""
@R.function
def main(x: R.Tensor((3,), "float32")):
    y = R.test_square(x)
    return y
""")
    with pytest.raises(CompilationError, match=r"of `main`, equation by equation: .* by JAX"):
        compare_compilations(mod, ways=[])


def _altered(mod: IRModule, name: str, old: str, new: str) -> IRModule:
    """The module with another operator in the place of the first call of one."""
    function: Any = mod[name]
    block, *blocks = function.body.blocks
    bindings = list(block.bindings)
    index = next(i for i, b in enumerate(bindings) if getattr(b.value, "op", None) is get_op(old))
    bindings[index] = replace(bindings[index], value=get_op(new)(*bindings[index].value.args))
    body = replace(function.body, blocks=(replace(block, bindings=tuple(bindings)), *blocks))
    return mod.with_function(name, replace(function, body=body))


def test_what_is_wrong_is_named_with_its_way_its_result_and_its_binding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As XLA might compute another thing than the program says."""
    route = ROUTES["build"]

    def wrong(subject: Any, policy: str) -> Any:
        good = route(subject, policy)
        bad = _altered(good.mod, good.name, "lax.sin", "lax.cos")
        values = route(subject, policy)._values()
        program = compilations._adjoint(bad, subject, to_jax(bad, good.name))
        monkeypatch.setattr(compilations._Program, "_values", lambda self: values)
        return program

    monkeypatch.setitem(compilations.ROUTES, "build", wrong)
    with pytest.raises(CompilationError) as caught:
        compare_compilations(SMALL, ways=[Way("build", "none", "float32")])
    text = str(caught.value)
    assert text.startswith("build, policy none, float32: result 0 is ")
    assert "The first wrong value is `h`" in text


def test_the_arrays_that_a_loss_has_captured_are_given_where_bindings_are_blamed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Reference, "apart", lambda self, found: "result 0 is wrong")
    mod = parse_main('y = R.multiply(x, R.const([1.0, 2.0, 3.0], "float32"))\nreturn y', x=(3,))
    with pytest.raises(CompilationError, match=r"result 0 is wrong\. Each value is right where"):
        compare_compilations(mod, ways=[Way("value_and_grad", "none", "float32")])


@pytest.mark.parametrize(
    ("way", "message"),
    [
        (Way("biuld"), r"no route `biuld`: there are build, .*; did you mean `build`\?"),
        (Way("build", "most"), "no policy `most`: there are none, free, balanced, minimal"),
        (Way("build", "none", "float31"), r"no dtype `float31`: .*; did you mean `float32`"),
    ],
)
def test_ways_that_are_none(way: Way, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compare_compilations(SMALL, ways=[way])


def test_what_cannot_be_compared() -> None:
    with pytest.raises(TypeError, match=r"takes an IRModule, found Function: write `IRModule\."):
        compare_compilations(SMALL["main"])
    with pytest.raises(ArgumentError, match="main"):
        compare_compilations(SMALL, args=[np.ones((3, 4), "float32")])
    ids = parse_functions("@R.function\ndef main(i: R.Tensor((2,), 'int64')):\n    return i")
    with pytest.raises(ValueError, match="no parameter of `main` is of floating-point dtype"):
        compare_compilations(ids)
    places = parse_functions(
        "@R.function\ndef main(x: R.Tensor((2,), 'float32')):\n    y = R.argmax(x)\n    return y"
    )
    with pytest.raises(ValueError, match="nothing that `main` returns is of floating-point dtype"):
        compare_compilations(places)
    bits = parse_functions("""
@R.function
def main(x: R.Tensor((3,), "float32")):
    y = R.multiply(x, R.astype(L.bitcast_convert_type(x, new_dtype="int32"), "float32"))
    return y
""")
    with pytest.raises(ValueError, match="has no form in float64: leave out the ways in that"):
        compare_compilations(bits, ways=[Way("build", "none", "float64")])


@pytest.mark.as_users
def test_a_choice_that_a_user_writes_by_comparing_is_named() -> None:
    """XLA computes the norm anew, and then no element is found to be the largest.

    On some devices it shows in a gradient alone.
    """
    mod = parse_functions("""
@R.function
def main(x: R.Tensor((8, 32, 64), "float32"), q: R.Tensor((64,), "float32")):
    c = R.subtract(x, R.mean(x, axis=2, keepdims=True))
    v = R.mean(R.square(c), axis=2, keepdims=True)
    h = R.multiply(c, R.rsqrt(R.add(v, R.const(1e-5, "float32"))))
    d = R.add(h, q)
    found = R.equal(d, R.max(d, axis=1, keepdims=True))
    y = R.multiply(R.astype(found, "float32"), h)
    return y
""")
    random = np.random.default_rng(0)
    args = [random.normal(size=shape).astype("float32") for shape in ((8, 32, 64), (64,))]
    with pytest.raises(CompilationError, match=r"build, policy none, float32: result \d\["):
        compare_compilations(mod, args=args, ways=[Way("build")])
