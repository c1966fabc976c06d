"""Functions that call themselves by way of others, or without end."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from parsing import parse_functions

from relaxjax.lowering import LoweringError, to_jax

X = np.arange(6, dtype="float32").reshape(2, 3) + 1
T2 = 'R.Tensor((2,), "float32")'
# What calls a function again once that has done its part, and what calls itself by way of others.
CONTINUED = f"""
@R.function
def main(x: {T2}, flag: R.Tensor((), "bool")) -> {T2}:
    @R.function
    def identity(y: {T2}) -> {T2}:
        return y

    @R.function
    def then(y: {T2}) -> {T2}:
        if flag:
            z: {T2} = Module.exp_cps(y, identity)
        else:
            z = R.negative(y)
        return z

    result: {T2} = Module.exp_cps(x, then)
    return result


@R.function(private=True)
def exp_cps(x: {T2}, k: R.Callable(({T2},), {T2})) -> {T2}:
    y = R.exp(x)
    z = k(y)
    return z
"""
ENDLESS = """
@R.function
def main(x: {T2}, flag: R.Tensor((), "bool")) -> {T2}:
    @R.function
    def again(y: {T2}) -> {T2}:
        if flag:
            z: {T2} = {call}
        else:
            z = y
        return z

    result: {T2} = Module.applied(again, x)
    return result


@R.function(private=True)
def applied(f: R.Callable(({T2},), {T2}), x: {T2}) -> {T2}:
    y = f(x)
    return y
"""


@pytest.mark.parametrize("flag", [True, False])
def test_a_continuation_calls_what_called_it_under_a_traced_condition(flag: bool) -> None:
    """That has done its part then: it is no recursion."""
    module, x = parse_functions(CONTINUED), X[0, :2]
    expected = np.exp(np.exp(x)) if flag else -np.exp(x)
    found = jax.jit(to_jax(module, "main"))(x, jnp.asarray(flag))
    chex.assert_trees_all_close(found, expected, rtol=1e-6)


@pytest.mark.parametrize("call", ["Module.main(y, flag)", "Module.applied(again, y)"])
def test_recursion_by_way_of_others_with_a_traced_condition(call: str) -> None:
    module = parse_functions(ENDLESS.format(T2=T2, call=call))
    with pytest.raises(LoweringError, match="calls itself under a condition"):
        jax.jit(to_jax(module, "main"))(X[0, :2], jnp.asarray(True))


def test_recursion_without_end() -> None:
    module = parse_functions("""
@R.function
def forever(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
    y = Module.forever(x)
    return y
""")
    with pytest.raises(RecursionError, match="`forever` calls itself more often than Python's"):
        to_jax(module, "forever")(X[0, :2])
