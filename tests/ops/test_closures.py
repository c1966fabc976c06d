"""Closures as values: made, called, typed, run and printed."""

import chex
import jax.numpy as jnp
import pytest
from parsing import parse_functions

from relaxjax import from_source, to_jax
from relaxjax.ir import TensorType, Var, assert_structural_equal
from relaxjax.ops import OpError
from relaxjax.ops.closures import make_closure

PROGRAM = """
    @R.function(private=True)
    def scaled(x: R.Tensor(("n",), "float32"), a: R.Tensor((), "float32")):
        n = T.int64()
        y: R.Tensor((n,), "float32") = R.multiply(a, x)
        return y

    @R.function
    def main(a: R.Tensor((), "float32"), x: R.Tensor((3,), "float32")):
        twice = R.make_closure(Module.scaled, (a,))
        y = R.invoke_pure_closure(twice, (x,), ty_args=R.Tensor((3,), "float32"))
        return y

    @R.function(pure=False)
    def effects(a: R.Tensor((), "float32"), x: R.Tensor((3,), "float32")):
        twice = R.make_closure(Module.scaled, (a,))
        y = R.invoke_closure(twice, (x,), sinfo_args=R.Tensor((3,), "float32"))
        return y
"""


@pytest.mark.parametrize("name", ["main", "effects"])
def test_a_closure_is_called_with_what_it_lacks(name: str) -> None:
    module = parse_functions(PROGRAM)
    result = to_jax(module, name)(jnp.float32(2), jnp.arange(3, dtype="float32"))
    chex.assert_trees_all_close(result, jnp.asarray([0.0, 2.0, 4.0], "float32"))
    assert module[name].ret_ty == TensorType((3,), "float32")


def test_its_text_reads_back_equal() -> None:
    module = parse_functions(PROGRAM)
    assert_structural_equal(from_source(module.script()), module)


def test_only_functions_become_closures() -> None:
    with pytest.raises(OpError, match=r"relax.make_closure: `func` must be a function, but `x` is"):
        make_closure(Var("x", TensorType((), "float32")), [])


def test_the_arguments_of_a_closure_may_hold_tuples() -> None:
    """Also as text, where they are written as Python's."""
    module = parse_functions("""
        @R.function
        def g(y: R.Tensor((2,), "float32"), t: R.Tuple(R.Tensor((2,), "float32"), R.Tuple())):
            return y
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            c = R.make_closure(Module.g, ((x, ()),))
            return R.invoke_pure_closure(c, (x,), ty_args=R.Tensor((2,), "float32"))
        """)
    assert_structural_equal(from_source(module.script()), module)
