"""Zeros and ones are made where their numbers are needed; integers and bools cost nothing."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import pytest
from adjoint_checks import array
from parsing import parse_flow, parse_functions

from relaxjax.ir import Function, IRModule, assert_structural_equal, well_formed
from relaxjax.ir.walk import nested_sequences
from relaxjax.lowering import to_jax
from relaxjax.passes import Gradient, LazyGradientInit

PAIR = 'R.Tuple(R.Tensor((3,), "float32"), R.Tensor((3,), "float32"))'


def test_the_example_of_its_page() -> None:
    body = """
        lv = R.zeros(R.shape([3]), "float32")
        g = R.multiply(y, z)
        t_adjoint = (lv, g)
        lv1 = t_adjoint[1]
        h = R.multiply(lv1, w)
        return (lv, h)
    """
    before = parse_flow(body, y=(3,), z=(3,), w=(3,))
    body = """
        g = R.multiply(y, z)
        h = R.multiply(g, w)
        lv = R.zeros(R.shape([3]), "float32")
        return (lv, h)
    """
    after = parse_flow(body, y=(3,), z=(3,), w=(3,))
    lazy = LazyGradientInit()(before)
    assert_structural_equal(lazy, LazyGradientInit()(after))
    assert [b.var.name for b in lazy["main"].body.bindings()][-1] == "lv"


CASES = {
    # what is written, and what becomes of it
    "zeros that are added to": ("R.add(R.zeros((3,), 'float32'), R.exp(x))", "R.exp(x)"),
    "ones that multiply": ("R.multiply(R.exp(x), R.ones((3,), 'float32'))", "R.exp(x)"),
    "zeros that are moved": (
        "R.add(R.exp(x), R.reshape(R.permute_dims(R.zeros((3, 1), 'float32')), (3,)))",
        "R.exp(x)",
    ),
    "zeros of the shape of another tensor": (
        "R.concat([R.zeros_like(R.exp(x)), x])",
        "R.concat([R.zeros((3,), 'float32'), x])",
    ),
    "a sum of ones": (
        "R.multiply(x, R.sum(R.ones((2, 3), 'float32')))",
        "R.multiply(x, R.full((), R.const(6.0, 'float32'), 'float32'))",
    ),
}


def program(value: str) -> IRModule:
    return parse_flow(f"y = {value}\nr = R.sin(y)", x=(3,))


@pytest.mark.parametrize("name", CASES)
def test_what_need_not_be_made(name: str) -> None:
    before, after = map(program, CASES[name])
    lazy = LazyGradientInit()(before)
    assert_structural_equal(lazy, LazyGradientInit()(after))
    x = jnp.asarray([0.1, 0.5, -0.3])
    chex.assert_trees_all_close(to_jax(lazy, "main")(x), to_jax(before, "main")(x), rtol=1e-6)
    assert LazyGradientInit()(lazy) is lazy


@pytest.mark.parametrize("value", ["R.exp(x)", "R.concat([R.zeros((2,), 'float32'), x])"])
def test_a_program_in_which_all_is_needed_is_the_same(value: str) -> None:
    module = program(value)
    assert LazyGradientInit()(module) is module


NESTED = parse_functions(f"""
@R.function
def main(t: R.Tuple({PAIR}, R.Tensor((4,), "float32")), unused: R.Tensor((5,), "float32")):
    with R.dataflow():
        p = t[0]
        a = p[0]
        b = p[1]
        loss = R.sum(R.multiply(R.multiply(a, b), a))
        R.output(loss)
    return loss
""")


def made(function: Function) -> list[str]:
    """The variables that are bound to zeros or ones."""
    found = []
    for seq in nested_sequences(function):
        for binding in seq.bindings():
            if any(f"R.{name}(" in str(binding.value) for name in ("zeros", "ones", "full")):
                found.append(binding.var.name)
    return found


def test_in_an_adjoint_only_what_is_returned_is_made_and_that_last() -> None:
    adjoint = Gradient("main")(NESTED)
    lazy = LazyGradientInit()(adjoint)
    well_formed(lazy)
    assert made(adjoint["main_adjoint"]) == ["loss_adjoint", "lv3", "lv7", "unused_adjoint"]
    names = [b.var.name for b in lazy["main_adjoint"].body.bindings()]
    zeros = made(lazy["main_adjoint"])
    assert len(zeros) == 2
    assert names.index(zeros[0]) == names.index("t_adjoint_out") - 1
    assert names[-1] == "unused_adjoint_out" == zeros[1]
    args: Any = ((array(3), array(3, seed=1)), array(4)), array(5)
    expected = jax.value_and_grad(to_jax(NESTED, "main"), (0, 1))(*args)
    chex.assert_trees_all_close(to_jax(lazy, "main_adjoint")(*args), expected, rtol=1e-6)


def test_a_lazy_gradient_does_not_make_them_either() -> None:
    lazy = Gradient("main", lazy=True)(NESTED)
    whole = Gradient("main")(NESTED)
    well_formed(lazy)
    assert len(made(lazy["main_adjoint"])) == 3  # the seed, and two gradients that are zero
    sizes = [len(tuple(m["main_adjoint"].body.bindings())) for m in (lazy, whole)]
    assert sizes == [18, 24]
    args: Any = ((array(3), array(3, seed=1)), array(4)), array(5)
    expected = to_jax(whole, "main_adjoint")(*args)
    chex.assert_trees_all_close(to_jax(lazy, "main_adjoint")(*args), expected, rtol=1e-6)


INTEGERS = parse_functions("""
@R.function(private=True)
def pick(x: R.Tensor((4,), "float32"), i: R.Tensor((2,), "int32"), c: R.Tensor((), "bool")):
    j = R.add(i, R.const(1, "int32"))
    k = R.minimum(R.multiply(j, j), R.const(3, "int32"))
    both = (k, (x, c))
    y = R.take(both[1][0], both[0], axis=0)
    best = R.argmax(x, axis=0)
    scale = R.astype(R.add(best, R.const(1, "int64")), "float32")
    r = R.multiply(y, scale)
    return r

@R.function
def main(x: R.Tensor((4,), "float32"), i: R.Tensor((2,), "int32"), c: R.Tensor((), "bool")):
    r = Module.pick(x, i, c)
    s = R.astype(R.logical_or(c, R.greater(R.sum(x), R.const(0.0, "float32"))), "float32")
    if c:
        n = R.add(R.argmax(x, axis=0), R.const(2, "int64"))
        q = R.multiply(x, R.astype(n, "float32"))
    else:
        q = x
    loss = R.add(R.multiply(R.sum(r), s), R.sum(q))
    return loss
""")


def test_integers_and_bools_carry_no_gradient_and_cost_nothing() -> None:
    """What goes back computes and fills in floats alone; others it takes from what was saved."""
    adjoint = Gradient("main", require_grads="x")(INTEGERS)
    text = adjoint["main_adjoint"].script()
    back = text[text.index("loss_adjoint") :] + adjoint["pick_backward"].script()
    computed = [line for line in back.splitlines() if " = R." in line]
    assert len(computed) >= 8
    dtypes = {line.split(" = ")[0].split('dtype="')[1].rstrip(')"') for line in computed}
    assert dtypes == {"float32"}
    for taken in (True, False):
        args = array(4), jnp.asarray([0, 1], jnp.int32), jnp.asarray(taken)
        _, (gradient,) = to_jax(adjoint, "main_adjoint")(*args)
        expected = jax.grad(to_jax(INTEGERS, "main"))(*args)
        chex.assert_trees_all_close(gradient, expected, rtol=1e-6)
