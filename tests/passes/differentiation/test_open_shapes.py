"""Adjoints of zeros where types leave the shape open: values tell it, or an error helps."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import pytest
from parsing import parse_module

from relaxjax.ir import IRModule, well_formed
from relaxjax.lowering import to_jax
from relaxjax.passes import Gradient, GradientError, Jvp

X, U = jnp.arange(4, dtype="float32"), jnp.ones(4)

BRANCHES = """
    @R.function
    def main(
        x: R.Tensor(("n",), "float32"), u: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")
    ) -> R.Tensor((), "float32"):
        m = T.int64()
        if c:
            r = (R.exp(x), R.sum(x))
        else:
            r = (R.sin(u), R.sum(R.sin(u)))
        {then}
        return y
"""


def parse(source: str) -> IRModule:
    return parse_module(f"@I.ir_module\nclass Module:\n{source}")


def check(module: IRModule, args: tuple[Any, ...], lazy: bool) -> None:
    """Compare with `jax.grad` by the first two arguments."""
    adjoint = Gradient("main", lazy=lazy)(module)
    well_formed(adjoint)
    _, found = to_jax(adjoint, "main_adjoint")(*args)
    chex.assert_trees_all_close(found[:2], jax.grad(to_jax(module, "main"), (0, 1))(*args))


@pytest.mark.parametrize("taken", [True, False])
def test_a_field_of_open_shape_that_nothing_comes_back_to(taken: bool) -> None:
    """The branches give it in different shapes, and only the other field is used."""
    module = parse(BRANCHES.format(then="y = r[1]"))
    check(module, (X, U, jnp.asarray(taken)), lazy=False)
    moved = to_jax(Jvp("main")(module), "main_jvp")(X, U, jnp.asarray(taken), U, U)[1]
    chex.assert_trees_all_close(moved, 4.0 if taken else 4 * jnp.cos(1.0))


@pytest.mark.parametrize("lazy", [True, False])
def test_a_parameter_of_open_shape_that_nothing_comes_back_to(lazy: bool) -> None:
    module = parse("""
    @R.function
    def main(
        x: R.Tensor(dtype="float32", ndim=1),
        t: R.Tuple(R.Tensor(dtype="float32"), R.Tensor((4,), "float32")),
    ) -> R.Tensor((), "float32"):
        with R.dataflow():
            y = R.sum(t[1])
            R.output(y)
        return y
""")
    check(module, (X, (X, U)), lazy)


@pytest.mark.parametrize("taken", [True, False])
def test_what_a_branch_saves_needs_a_shape(taken: bool) -> None:
    """Where the other branch runs, zeros stand for it. The error says where, and what helps."""
    again = """{cast}
        if c:
            a = R.exp(z)
            s = R.multiply(a, a)
        else:
            s = R.sin(z)
        y = R.sum(s)"""
    with pytest.raises(GradientError, match=r"needs `a`, .* as by R\.match_cast") as caught:
        Gradient("main")(parse(BRANCHES.format(then=again.format(cast="z = r[0]"))))
    assert "if c:" in str(caught.value.__notes__)
    cast = 'z = R.match_cast(r[0], R.Tensor((m,), "float32"))'
    mended = parse(BRANCHES.format(then=again.format(cast=cast)))
    check(mended, (X, U, jnp.asarray(taken)), lazy=False)


def test_what_a_loop_carries_on_needs_a_shape() -> None:
    module = parse("""
    @R.function
    def main(
        w: R.Tensor((), "float32"), u: R.Tensor(dtype="float32", ndim=1)
    ) -> R.Tensor((), "float32"):
        @R.function
        def step(
            c: R.Tuple(R.Tensor((), "float32"), R.Tensor(dtype="float32", ndim=1)), x: R.Tuple()
        ) -> R.Tuple(
            R.Tuple(R.Tensor((), "float32"), R.Tensor(dtype="float32", ndim=1)), R.Tuple()
        ):
            return ((R.exp(c[0]), c[1]), ())
        done = R.scan(step, (w, u), (), length=3)
        y = done[0][0]
        return y
""")
    with pytest.raises(GradientError, match="a zero gradient needs a known shape and dtype, found"):
        Jvp("main", "w")(module)
