"""LambdaLift and EtaExpand: closures into functions, and functions into closures."""

import numpy as np
from parsing import parse_functions
from rewriting import check_kept, check_rewrite

from relaxjax.lowering import to_jax
from relaxjax.passes import EtaExpand, LambdaLift
from relaxjax.testing.equations import run

T3 = 'R.Tensor((3,), "float32")'
CAPTURING = f"""
@R.function
def outer(c: {T3}) -> R.Callable(({T3},), {T3}):
    @R.function
    def inner(x: {T3}) -> {T3}:
        s = R.subtract(x, c)
        return s
    return inner
@R.function
def main(x: {T3}, y: {T3}) -> {T3}:
    @R.function
    def near(z: {T3}) -> {T3}:
        s = R.multiply(z, x)
        return s
    far = Module.outer(x)
    a = far(y)
    b = near(a)
    return b
"""


def test_what_a_closure_captures_is_given_to_it() -> None:
    changed = check_rewrite(
        LambdaLift(),
        CAPTURING,
        f"""
@R.function
def outer(c: {T3}) -> R.Callable(({T3},), {T3}):
    inner = R.make_closure(Module.outer_inner, (c,))
    return inner
@R.function(private=True)
def outer_inner(x: {T3}, c: {T3}) -> {T3}:
    s = R.subtract(x, c)
    return s
@R.function
def main(x: {T3}, y: {T3}) -> {T3}:
    near = R.make_closure(Module.main_near, (x,))
    far: R.Callable(({T3},), {T3}) = Module.outer(x)
    a = R.invoke_pure_closure(far, (y,), ty_args={T3})
    b = R.invoke_pure_closure(near, (a,), ty_args={T3})
    return b
@R.function(private=True)
def main_near(z: {T3}, x: {T3}) -> {T3}:
    s = R.multiply(z, x)
    return s
""",
    )
    args = np.asarray([1, 2, 3], "float32"), np.asarray([5, 7, 11], "float32")
    before = run(to_jax(parse_functions(CAPTURING), "main"), *args)
    np.testing.assert_array_equal(run(to_jax(changed, "main"), *args), before)


def test_a_closure_that_captures_nothing_is_called_by_its_name() -> None:
    """Nested ones too, and as an operand of a loop."""
    check_rewrite(
        LambdaLift(),
        f"""
@R.function
def main(xs: R.Tensor((4, 3), "float32"), x: {T3}):
    @R.function
    def step(carry: {T3}, x: {T3}) -> R.Tuple({T3}, {T3}):
        @R.function
        def twice(z: {T3}) -> {T3}:
            s = R.add(z, z)
            return s
        y = twice(x)
        return (y, carry)
    result = R.scan(step, x, xs)
    return result
""",
        f"""
@R.function
def main(xs: R.Tensor((4, 3), "float32"), x: {T3}):
    result = R.scan(Module.main_step, x, xs)
    return result
@R.function(private=True)
def main_step_twice(z: {T3}) -> {T3}:
    s = R.add(z, z)
    return s
@R.function(private=True)
def main_step(carry: {T3}, x: {T3}) -> R.Tuple({T3}, {T3}):
    y = Module.main_step_twice(x)
    return (y, carry)
""",
    )


def test_a_closure_that_calls_itself_calls_the_function() -> None:
    check_rewrite(
        LambdaLift(),
        f"""
@R.function
def main(x: {T3}, stop: R.Tensor((), "bool")) -> {T3}:
    @R.function
    def down(z: {T3}) -> {T3}:
        if stop:
            r = R.add(z, x)
        else:
            r = down(z)
        return r
    a = down(x)
    return a
""",
        f"""
@R.function
def main(x: {T3}, stop: R.Tensor((), "bool")) -> {T3}:
    down = R.make_closure(Module.main_down, (stop, x))
    a = R.invoke_pure_closure(down, (x,), ty_args={T3})
    return a
@R.function(private=True)
def main_down(z: {T3}, stop: R.Tensor((), "bool"), x: {T3}) -> {T3}:
    if stop:
        r = R.add(z, x)
    else:
        r: {T3} = Module.main_down(z, stop, x)
    return r
""",
    )


def test_what_cannot_be_lifted_stays() -> None:
    """A loop takes no closure with arguments; a dimension must be told by some parameter."""
    check_kept(
        LambdaLift(),
        f"""
@R.function
def main(xs: R.Tensor((4, 3), "float32"), x: {T3}):
    @R.function
    def step(carry: {T3}, y: {T3}) -> R.Tuple({T3}, {T3}):
        z = R.add(x, y)
        return (z, carry)
    result = R.scan(step, x, xs)
    return result
""",
    )
    check_kept(
        LambdaLift(),
        """
@R.function
def main(x: R.Tensor(("n",), "float32")):
    n = T.int64()
    @R.function
    def zeros(y: R.Tensor((), "float32")) -> R.Tensor((n,), "float32"):
        z = R.zeros(R.shape([n]), "float32")
        return z
    a = zeros(R.const(1, "float32"))
    return a
""",
    )


def test_functions_from_outside_are_expanded_too() -> None:
    text = f"""
@R.function(pure=False)
def main(x: {T3}):
    f = R.ExternFunc("f", R.Callable(({T3},), {T3}, False))
    return f
"""
    changed = EtaExpand(expand_constructor=True)(parse_functions(text))
    assert "(arg:" in str(changed)
    assert EtaExpand(expand_constructor=True)(changed) is changed


def test_nothing_is_expanded_unless_asked() -> None:
    text = CAPTURING + f"@R.function\ndef value(x: {T3}):\n    f = Module.main\n    return f\n"
    check_kept(EtaExpand(), text)
    check_kept(EtaExpand(expand_constructor=True), text)
    check_kept(EtaExpand(expand_global_var=True), CAPTURING)


def test_what_a_dataflow_block_hides_is_an_ordinary_parameter() -> None:
    check_rewrite(
        LambdaLift(),
        f"""
@R.function
def main(x: {T3}) -> {T3}:
    with R.dataflow():
        y = R.exp(x)
        @R.function
        def near(z: {T3}) -> {T3}:
            s = R.multiply(z, y)
            return s
        out = near(x)
        R.output(out)
    return out
""",
        f"""
@R.function
def main(x: {T3}) -> {T3}:
    with R.dataflow():
        y = R.exp(x)
        near = R.make_closure(Module.main_near, (y,))
        out = R.invoke_pure_closure(near, (x,), ty_args={T3})
        R.output(out)
    return out
@R.function(private=True)
def main_near(z: {T3}, y: {T3}) -> {T3}:
    s = R.multiply(z, y)
    return s
""",
    )
