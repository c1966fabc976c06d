"""Weights that programs ask for, and results that they hand over as they come."""

from typing import Any

import numpy as np
import pytest
from parsing import parse_flow, parse_functions, parse_main
from rewriting import check_kept, check_rewrite

from relaxjax.ir.check import well_formed
from relaxjax.lowering import VirtualMachine, build
from relaxjax.passes import LazyGetInput, LazySetOutput

T3 = 'R.Tensor((3,), "float32")'
GETTER = 'fget_param: R.Callable((R.Prim("int64"), R.Object), R.Object, True)'
SETTER = 'fset_output: R.Callable((R.Prim("int64"), R.Object), R.Tuple(), False)'
PRIVATE = f"""
@R.function(private=True)
def inner(x: {T3}) -> {T3}:
    R.func_attr({{"num_input": 0}})
    return x
"""


def loaded(number: int, name: str, again: str = "", ty: str = T3) -> str:
    """The two lines that load a weight."""
    untyped = f"{name}_untyped{again}"
    ask = f'{untyped}: R.Object = fget_param(R.prim_value({number}), R.str("{name}"))'
    return f"{ask}; {name}{again} = R.match_cast({untyped}, {ty})"


def test_a_weight_is_loaded_before_its_first_use_once_a_place() -> None:
    check_rewrite(
        LazyGetInput(),
        f"""
@R.function
def main(x: {T3}, c: R.Tensor((), "bool"), w: {T3}, b: {T3}) -> {T3}:
    R.func_attr({{"num_input": 2}})
    with R.dataflow():
        y = R.multiply(x, w)
        z = R.add(y, w)
        R.output(z)
    if c:
        r = R.add(z, b)
    else:
        r = R.subtract(z, w)
    s = R.add(r, b)
    @R.function
    def inner(t: {T3}) -> {T3}:
        u = R.add(t, w)
        v = R.add(u, b)
        return v
    q = inner(s)
    return q
""",
        f"""
@R.function
def main(x: {T3}, c: R.Tensor((), "bool"), {GETTER}) -> {T3}:
    R.func_attr({{"num_input": 3}})
    with R.dataflow():
        {loaded(0, "w")}
        y = R.multiply(x, w)
        z = R.add(y, w)
        R.output(z)
    if c:
        {loaded(1, "b")}
        r = R.add(z, b)
    else:
        {loaded(0, "w", "1")}
        r = R.subtract(z, w1)
    {loaded(1, "b", "1")}
    s = R.add(r, b1)
    @R.function
    def inner(t: {T3}) -> {T3}:
        {loaded(0, "w", "2")}
        u = R.add(t, w2)
        v = R.add(u, b1)
        return v
    q = inner(s)
    return q
""",
        again=False,
    )


def test_without_a_number_of_inputs_all_are_weights_and_the_result_loads_them() -> None:
    check_rewrite(
        LazyGetInput(),
        f"""
@R.function
def main(unused: {T3}, w: {T3}) -> {T3}:
    return w
""",
        f"""
@R.function
def main({GETTER}) -> {T3}:
    R.func_attr({{"num_input": 1}})
    {loaded(1, "w")}
    return w
""",
        again=False,
    )


def test_a_weight_that_tells_a_size_is_loaded_before_the_size_is_used() -> None:
    matrix = 'R.Tensor((3, "n"), "float32")'
    check_rewrite(
        LazyGetInput(),
        f"""
@R.function
def main(x: {T3}, w: {matrix}) -> R.Tensor(("n",), "float32"):
    n = T.int64()
    R.func_attr({{"num_input": 1}})
    zeros = R.zeros(R.shape([n]), "float32")
    y = R.matmul(x, w)
    z = R.add(y, zeros)
    return z
""",
        f"""
@R.function
def main(x: {T3}, {GETTER}) -> R.Tensor(dtype="float32", ndim=1):
    n = T.int64()
    R.func_attr({{"num_input": 2}})
    {loaded(0, "w", ty='R.Tensor((3, n), "float32")')}
    zeros = R.zeros(R.shape([n]), "float32")
    y = R.matmul(x, w)
    z = R.add(y, zeros)
    return z
""",
        again=False,
    )


def test_a_weight_whose_sizes_another_tells_is_loaded_behind_that() -> None:
    first, second = 'R.Tensor(("n", "n * 2"), "float32")', 'R.Tensor(("m", "n + m"), "float32")'
    check_rewrite(
        LazyGetInput(),
        f"""
@R.function
def main(w: {second}, b: {first}) -> R.Tensor(("m", "n + m"), "float32"):
    n, m = T.int64(), T.int64()
    y = R.add(w, w)
    return y
""",
        f"""
@R.function
def main({GETTER}) -> R.Tensor(dtype="float32", ndim=2):
    n, m = T.int64(), T.int64()
    R.func_attr({{"num_input": 1}})
    {loaded(1, "b", ty='R.Tensor((n, n * 2), "float32")')}
    {loaded(0, "w", ty='R.Tensor((m, n + m), "float32")')}
    y = R.add(w, w)
    return y
""",
        again=False,
    )


def test_weights_that_tell_the_sizes_of_one_another_are_refused() -> None:
    mod = parse_main("y = R.add(w, w)\nreturn y", w=("n", "m * 2"), b=("m", "n + 1"))
    with pytest.raises(ValueError, match="the weights `w`, `b` tell the sizes of one another"):
        LazyGetInput()(mod)


def test_a_shape_that_types_name_is_loaded_first() -> None:
    body = 'z = R.zeros(s, "float32")\ny = R.add(z, w)'
    found = LazyGetInput()(parse_flow(body, w=(3,), s="R.Shape(ndim=1)"))
    well_formed(found)
    assert [binding.var.name for binding in found["main"].body.blocks[0].bindings] == [
        "s_untyped",
        "s",
    ]


def test_a_function_that_hands_over_is_no_more_forced_to_be_pure() -> None:
    function = f"""
@R.function
def main(x: {T3}) -> {T3}:
    R.func_attr({{"relax.force_pure": True}})
    y = R.sin(x)
    return y
"""
    found = LazySetOutput()(parse_functions(function))
    well_formed(found)
    assert "relax.force_pure" not in found["main"].attrs


def test_results_are_handed_over_behind_what_computes_them() -> None:
    check_rewrite(
        LazySetOutput(),
        f"""
@R.function
def main(x: {T3}, w: {T3}):
    R.func_attr({{"num_input": 1}})
    with R.dataflow():
        hidden = R.add(x, x)
        y = R.add(hidden, w)
        R.output(y)
    more = R.exp(y)
    with R.dataflow():
        twice = R.add(y, more)
        z = R.exp(twice)
        R.output(z)
    u = R.exp(z)
    return (u, (y, x), w, y, R.const(1.0, "float32"))
""",
        f"""
@R.function(pure=False)
def main(x: {T3}, {SETTER}, w: {T3}) -> R.Tuple():
    R.func_attr({{"num_input": 2}})
    fset_output(R.prim_value(2), w)
    hidden = R.add(x, x)
    y = R.add(hidden, w)
    fset_output(R.prim_value(3), y)
    more = R.exp(y)
    with R.dataflow():
        twice = R.add(y, more)
        z = R.exp(twice)
        R.output(z)
    u = R.exp(z)
    fset_output(R.prim_value(0), u)
    fset_output(R.prim_value(1), (y, x))
    fset_output(R.prim_value(4), R.const(1.0, "float32"))
    return R.tuple()
""",
        again=False,
    )


def test_one_result_has_the_number_0_and_the_names_are_free() -> None:
    check_rewrite(
        LazySetOutput(),
        f"""
@R.function
def main(fset_output: {T3}) -> {T3}:
    return fset_output
""",
        f"""
@R.function(pure=False)
def main(fset_output: {T3}, {SETTER.replace("output", "output1")}) -> R.Tuple():
    fset_output1(R.prim_value(0), fset_output)
    return R.tuple()
""",
        again=False,
    )


@pytest.mark.parametrize("make", [LazyGetInput, LazySetOutput])
def test_private_functions_stay(make: Any) -> None:
    check_kept(make(), PRIVATE)


@pytest.mark.parametrize("make", [LazyGetInput, LazySetOutput])
def test_a_public_function_that_another_calls_is_an_error(make: Any) -> None:
    mod = parse_functions(f"""
@R.function
def main(x: {T3}) -> {T3}:
    y = Module.other(x)
    return y
@R.function
def other(x: {T3}) -> {T3}:
    return x
""")
    with pytest.raises(ValueError, match="changes what `other` takes, but `main` calls it"):
        make()(mod)


def test_both_run_and_each_value_moves_when_it_is_due() -> None:
    mod = parse_functions(f"""
@R.function
def transform(a: {T3}, b: {T3}):
    R.func_attr({{"num_input": 0}})
    c = R.add(a, a)
    d = R.multiply(c, b)
    return (d, c)
""")
    lazy = LazySetOutput()(LazyGetInput()(mod))
    well_formed(lazy)
    told: list[Any] = []

    def weight(number: int, name: str) -> Any:
        told.append(name)
        return np.full(3, number + 1, "float32")

    def output(number: int, value: Any) -> None:
        told.append((number, float(value[0])))

    assert VirtualMachine(build(lazy))["transform"](weight, output) == ()
    assert told == ["a", (1, 2.0), "b", (0, 4.0)]
