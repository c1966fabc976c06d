"""ToGraphNormalForm and ToCPS: other ways to write the same function; PartialEvaluate."""

from typing import Any

import numpy as np
import pytest
from differentiable_programs import LARGE, Program, programs
from full import how_many
from hypothesis import given, settings
from parsing import parse_functions
from rewriting import check_kept, check_rewrite

from relaxjax import from_source, to_jax
from relaxjax.ir import assert_structural_equal, well_formed
from relaxjax.passes import (
    DeadCodeElimination,
    PartialEvaluate,
    ToANormalForm,
    ToCPS,
    ToGraphNormalForm,
    to_cps,
    un_cps,
)
from relaxjax.testing.equations import run

T3 = 'R.Tensor((3,), "float32")'
SHARED = f"""
@R.function
def main(x: {T3}) -> {T3}:
    with R.dataflow():
        unused = R.sin(x)
        a = R.exp(x)
        b = R.add(a, a)
        c = R.cos(b)
        R.output(c)
    d = R.negative(c)
    return d
"""


def test_values_that_are_used_once_are_nested() -> None:
    module = parse_functions(SHARED)
    graph = ToGraphNormalForm()(module)
    text = str(graph["main"])
    assert "return R.negative(R.cos(R.add(a, a)))" in text
    assert "R.dataflow" not in text
    assert ToGraphNormalForm()(graph) is graph
    x = np.asarray([1, 2, 3], "float32")
    np.testing.assert_array_equal(run(to_jax(graph, "main"), x), run(to_jax(module, "main"), x))


def test_dead_code_goes_before_values_are_nested() -> None:
    graph = DeadCodeElimination(inline_once=True)(parse_functions(SHARED))
    assert "sin" not in str(graph)
    assert "return R.negative(R.cos(R.add(a, a)))" in str(graph)
    normal = ToANormalForm()(graph)
    assert len(list(normal["main"].body.bindings())) == 4
    assert ToANormalForm()(normal) is normal


def test_what_runs_once_here_and_often_there_stays_here() -> None:
    """A closure may be called often, a branch never, and effects have an order."""
    graph = ToGraphNormalForm()(
        parse_functions(f"""
@R.function(pure=False)
def main(x: {T3}, c: R.Tensor((), "bool")):
    a = R.exp(x)
    @R.function
    def inner(y: {T3}) -> {T3}:
        return a
    b = R.sin(x)
    if c:
        z = R.add(b, x)
    else:
        z = x
    _ = R.print(z, format="{{}}")
    r = inner(z)
    return (r, r)
""")
    )
    left = [str(binding.value).splitlines()[-1] for binding in graph["main"].body.bindings()]
    assert left[0] == "R.exp(x)"
    assert left[2] == "R.sin(x)"
    assert left[4:] == ['R.print(z, format="{}")', "inner(z)"]


CALLS = f"""
@R.function
def main(x: {T3}, c: R.Tensor((), "bool")) -> {T3}:
    a = Module.helper(x)
    if c:
        b = Module.helper(a)
    else:
        b = x
    d = R.negative(b)
    return d
@R.function(private=True)
def helper(x: {T3}) -> {T3}:
    y = R.exp(x)
    return y
"""


def test_what_follows_a_call_is_handed_to_it() -> None:
    changed = check_rewrite(
        ToCPS(),
        CALLS,
        CALLS
        + f"""
@R.function
def main_cps(
    x: {T3}, c: R.Tensor((), "bool"), k: R.Callable(({T3},), R.Object)
) -> R.Object:
    @R.function
    def then(a: {T3}) -> R.Object:
        if c:
            @R.function
            def done(value: {T3}) -> R.Object:
                return value
            answer: R.Object = Module.helper_cps(a, done)
            b1 = R.match_cast(answer, {T3})
            b = b1
        else:
            b = x
        d = R.negative(b)
        answer1: R.Object = k(d)
        return answer1
    answer2: R.Object = Module.helper_cps(x, then)
    return answer2
@R.function(private=True)
def helper_cps(x: {T3}, k: R.Callable(({T3},), R.Object)) -> R.Object:
    y = R.exp(x)
    answer: R.Object = k(y)
    return answer
""",
    )
    direct = un_cps(changed["main_cps"])
    assert direct.global_symbol == "main"
    assert direct.ty == changed["main"].ty


def test_one_function_can_be_converted() -> None:
    module = parse_functions(CALLS)
    assert "helper_cps" in str(to_cps(module["main"], module))
    alone = to_cps(module["main"])
    assert "helper_cps" not in str(alone)
    assert_structural_equal(un_cps(alone).ty, module["main"].ty)


def test_a_function_without_a_continuation_cannot_be_converted_back() -> None:
    module = parse_functions(CALLS)
    with pytest.raises(ValueError, match="not in continuation-passing style: its last parameter"):
        un_cps(module["main"])


def test_what_is_no_function_cannot_be_converted() -> None:
    module: Any = parse_functions(CALLS)
    match = r"`to_cps` takes a Relax function, found IRModule: .*ToCPS"
    with pytest.raises(TypeError, match=match):
        to_cps(module)
    with pytest.raises(TypeError, match=r'`un_cps` .* found IRModule: give one .* mod\["\w+"\]'):
        un_cps(module)


def test_a_continuation_takes_what_the_result_of_a_call_is_declared_to_be() -> None:
    mod = ToCPS()(
        parse_functions(f"""
@R.function
def callee(x: {T3}) -> {T3}:
    return x

@R.function
def main(x: {T3}):
    y: R.Tensor("float32", ndim=1) = Module.callee(x)
    return R.exp(y)
""")
    )
    well_formed(mod)
    assert_structural_equal(from_source(mod.script()), mod)


@settings(
    max_examples=how_many(5, 250),
    suppress_health_check=LARGE,
)
@given(programs(["float32"]))
def test_random_programs_give_the_same_in_the_other_style(program: Program) -> None:
    mod = ToCPS()(program.module)
    well_formed(mod)
    back = mod.with_function("main", un_cps(mod["main_cps"]))
    well_formed(back)
    expected = run(to_jax(program.module, "main"), *program.args)
    found = run(to_jax(back, "main"), *program.args)
    np.testing.assert_equal(found, expected)


def test_continuations_of_a_symbolic_shape_are_evaluated() -> None:
    """A closure's own copy leaves the function alone that it has from around it."""
    mod = parse_functions("""
@R.function(private=True)
def helper(x: R.Tensor(("n", 3), "float32")):
    return R.exp(x)

@R.function
def main(x: R.Tensor(("n", 3), "float32")):
    y = Module.helper(x)
    return R.sin(y)
""")
    mod = PartialEvaluate()(ToCPS()(mod))
    well_formed(mod)
    text = str(mod["main_cps"].script(show_all_types=False))
    assert "gv_1 = R.sin(gv)\n    answer1 = k(gv_1)" in text


def test_closures_and_known_choices_are_evaluated() -> None:
    check_rewrite(
        PartialEvaluate(),
        f"""
@R.function
def main(x: {T3}) -> {T3}:
    @R.function
    def scale(y: {T3}, factor: R.Tensor((), "float32")) -> {T3}:
        z = R.multiply(y, factor)
        return z
    two = R.add(R.const(1, "float32"), R.const(1, "float32"))
    a = scale(x, two)
    if R.const(False, "bool"):
        b = R.exp(a)
    else:
        b = scale(a, R.const(3, "float32"))
    return b
""",
        f"""
@R.function
def main(x: {T3}) -> {T3}:
    a = R.multiply(x, R.const(2, "float32"))
    b = R.multiply(a, R.const(3, "float32"))
    return b
""",
    )


def test_recursion_without_end_stops_at_the_limit() -> None:
    text = f"""
@R.function
def main(x: {T3}) -> {T3}:
    y: {T3} = Module.forever(x, R.const(1, "int32"))
    return y
@R.function
def forever(x: {T3}, n: R.Tensor((), "int32")) -> {T3}:
    y = R.exp(x)
    z: {T3} = Module.forever(y, R.const(1, "int32"))
    return z
"""
    changed = PartialEvaluate(max_bindings=10)(parse_functions(text))
    assert 10 < len(list(changed["main"].body.bindings())) < 15


def test_nothing_known() -> None:
    check_kept(
        PartialEvaluate(), CALLS.split("@R.function(private=True)")[1].join(["@R.function", ""])
    )
