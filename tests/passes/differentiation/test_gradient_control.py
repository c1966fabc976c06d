"""Differentiating through branches, effects and casts."""

import chex
import jax
import jax.numpy as jnp
import pytest
from adjoint_checks import array, check_adjoint
from parsing import parse_functions, parse_main

from relaxjax.ir.check import well_formed
from relaxjax.lowering import to_jax
from relaxjax.passes.differentiation.gradient import Gradient

BRANCHES = parse_functions("""
    @R.function
    def main(
        c: R.Tensor((), "bool"), x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32")
    ) -> R.Tensor((), "float32"):
        s = R.multiply(x, y)
        if c:
            a = R.exp(s)
            r = R.multiply(a, x)
        else:
            b = R.sin(s)
            r = R.add(b, b)
        loss = R.sum(r)
        return loss
""")


@pytest.mark.parametrize("taken", [True, False])
def test_either_branch_has_its_gradient(taken: bool) -> None:
    check_adjoint(BRANCHES, jnp.asarray(taken), array(3), array(3, seed=1))


def test_a_branch_is_not_run_twice() -> None:
    """The backward part uses what the forward part saved: one exp, and none again."""
    adjoint = check_adjoint(BRANCHES, jnp.asarray(True), array(3), array(3, seed=1))
    assert adjoint["main_adjoint"].script().count("R.exp(") == 1


def test_branches_nest_and_may_ignore_a_variable() -> None:
    body = """
        if c:
            if d:
                inner = R.multiply(x, x)
            else:
                inner = R.exp(x)
            r = R.sin(inner)
        else:
            r = R.const([1.0, 2.0, 3.0], "float32")
        loss = R.sum(r)
        return loss
    """
    module = parse_main(body, c='R.Tensor((), "bool")', d='R.Tensor((), "bool")', x=(3,))
    for c in (True, False):
        for d in (True, False):
            check_adjoint(module, jnp.asarray(c), jnp.asarray(d), array(3))


def test_a_branch_may_give_a_tuple() -> None:
    module = parse_functions("""
    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor((3,), "float32")) -> R.Tensor((), "float32"):
        if c:
            t = (x, R.exp(x))
        else:
            t = (R.sin(x), x)
        loss = R.sum(R.multiply(t[0], t[1]))
        return loss
""")
    for c in (True, False):
        check_adjoint(module, jnp.asarray(c), array(3))


def test_effects_stay_in_place_and_run_once() -> None:
    module = parse_functions("""
    @R.function(pure=False)
    def main(x: R.Tensor((3,), "float32")) -> R.Tensor((), "float32"):
        with R.dataflow():
            hidden = R.exp(x)
            y = R.multiply(hidden, x)
            R.output(y)
        _ = R.print(y, format="y = {}")
        loss = R.sum(R.sin(y))
        return loss
""")
    assert check_adjoint(module, array(3))["main_adjoint"].script().count("R.print") == 1


@pytest.mark.parametrize("lazy", [False, True])
def test_adjoints_of_casts_have_the_types_of_what_was_cast(lazy: bool) -> None:
    """So all that is made of them is known, down to what an optimizer takes."""
    module = parse_functions("""
    @R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((), "float32"):
        k = T.int64()
        free = R.match_cast(x, R.Tensor((k,), "float32"))
        y = R.match_cast(R.tanh(free), R.Tensor((2,), "float32"))
        loss = R.sum(R.multiply(y, y))
        return loss
""")
    text = Gradient("main", lazy=lazy)(module)["main_adjoint"].script()
    assert "x_adjoint_out: R.Tensor((2,), dtype=" in text
    assert "collapse_sum" not in text
    check_adjoint(module, array(2))


def test_match_cast_passes_the_gradient_on() -> None:
    module = parse_functions("""
    @R.function
    def main(x: R.Tensor(ndim=1, dtype="float32")) -> R.Tensor((), "float32"):
        m = T.int64()
        y = R.match_cast(x, R.Tensor((m,), "float32"))
        loss = R.sum(R.multiply(y, y))
        return loss
""")
    adjoint = Gradient("main")(module)
    _, gradients = to_jax(adjoint, "main_adjoint")(array(4))
    chex.assert_trees_all_close(gradients, (2 * array(4),))


@pytest.mark.parametrize("taken", [True, False])
def test_a_branch_may_cast_to_symbolic_shapes_of_its_own(taken: bool) -> None:
    """What it saves has a shape that can be said outside, where zeros stand for it."""
    body = """
        n, k, j = T.int64(), T.int64(), T.int64()
        if c:
            free = R.match_cast(x, R.Tensor((k, 2), "float32"))
            e = R.exp(free)
            freer = R.match_cast(e, R.Tensor((j, 2), "float32"))
            r = R.sum(R.multiply(freer, freer))
        else:
            r = R.sum(x)
        return r
    """
    module = parse_main(body, c='R.Tensor((), "bool")', x=("n", 2))
    adjoint = Gradient("main")(module)
    well_formed(adjoint)
    args = jnp.asarray(taken), array(3, 2)
    _, gradients = to_jax(adjoint, "main_adjoint")(*args)
    expected = jax.grad(to_jax(module, "main"), 1)(*args)
    chex.assert_trees_all_close(gradients[1], expected, rtol=1e-6)
