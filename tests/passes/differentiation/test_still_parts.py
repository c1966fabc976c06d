"""What stands in a tuple with what is differentiated, and does not depend on it."""

from collections.abc import Callable

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from parsing import parse_functions

from relaxjax import Call, Function, IRModule, TupleType, from_jax, to_jax, value_and_grad
from relaxjax.passes import Gradient, Jvp

Loss = Callable[[jax.Array, jax.Array], jax.Array]
W = jnp.asarray([0.3, -0.7], "float32")
XS = jnp.asarray(np.random.default_rng(0).uniform(0.1, 1, (4, 2)), "float32")


def grown(x: jax.Array) -> jax.Array:
    """What has no derivative: nothing says how many steps it takes."""
    return lax.while_loop(lambda v: jnp.sum(v) < 10.0, lambda v: 2.0 * jnp.abs(v) + 1.0, x)


def of_data(w: jax.Array, xs: jax.Array) -> jax.Array:
    def step(c: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jnp.tanh(c * grown(x)), x

    c, rows = lax.scan(step, w, xs)
    return jnp.sum(c) + jnp.sum(grown(rows))


def of_the_carry(w: jax.Array, xs: jax.Array) -> jax.Array:
    def step(
        carry: tuple[jax.Array, jax.Array], x: jax.Array
    ) -> tuple[tuple[jax.Array, jax.Array], None]:
        c, t = carry
        return (jnp.tanh(c * t + x), grown(t) - 9.0), None

    (c, t), _ = lax.scan(step, (w, jnp.ones(2)), xs)
    return jnp.sum(c * grown(t))


def of_a_callback(w: jax.Array, xs: jax.Array) -> jax.Array:
    def step(c: jax.Array, x: jax.Array) -> tuple[jax.Array, None]:
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return jnp.sin(c * jax.pure_callback(lambda a: 2 * np.asarray(a), shape, x)), None

    return jnp.sum(lax.scan(step, w, xs)[0])


def of_a_loop_in_a_loop(w: jax.Array, xs: jax.Array) -> jax.Array:
    def outer(
        carry: tuple[jax.Array, dict[str, jax.Array]], x: jax.Array
    ) -> tuple[tuple[jax.Array, dict[str, jax.Array]], jax.Array]:
        def inner(
            carry: tuple[jax.Array, jax.Array], _: None
        ) -> tuple[tuple[jax.Array, jax.Array], None]:
            c, t = carry
            return (jnp.sin(c + grown(t)), 0.5 * t), None

        c, rest = carry
        (c, t), _ = lax.scan(inner, (c, rest["t"] + x), None, length=2)
        return (c, {"t": grown(t), "n": rest["n"] + 1.0}), c * t

    (c, _), ys = lax.scan(outer, (w, {"t": jnp.ones(2), "n": jnp.zeros(())}), xs)
    return jnp.sum(c) + jnp.sum(ys)


def of_a_choice(w: jax.Array, xs: jax.Array) -> jax.Array:
    def step(
        carry: tuple[jax.Array, jax.Array], x: jax.Array
    ) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        c, t = carry
        c, t = lax.cond(jnp.sum(x) > 1, lambda: (jnp.sin(c), grown(t)), lambda: (c * x, jnp.cos(t)))
        return (c, grown(t)), c

    (c, _), ys = lax.scan(step, (w, jnp.ones(2)), xs)
    return jnp.sum(c) + jnp.sum(ys)


def of_a_step_that_runs_again(w: jax.Array, xs: jax.Array) -> jax.Array:
    def step(c: jax.Array, x: jax.Array) -> tuple[jax.Array, None]:
        return jax.checkpoint(lambda c, x: jnp.tanh(c * grown(x + lax.stop_gradient(c))))(
            c, x
        ), None

    return jnp.sum(lax.scan(step, w, xs)[0])


def moves_later(w: jax.Array, xs: jax.Array) -> jax.Array:
    """What is still at first, and is not after the first step, or the second."""

    def step(
        carry: tuple[jax.Array, jax.Array, jax.Array], x: jax.Array
    ) -> tuple[tuple[jax.Array, jax.Array, jax.Array], jax.Array]:
        first, second, third = carry
        return (jnp.sin(w * x), first * x, second + third), third

    (_, _, last), ys = lax.scan(step, (jnp.ones(2), jnp.ones(2), jnp.ones(2)), xs)
    return jnp.sum(last) + jnp.sum(ys**2)


def of_no_step(w: jax.Array, xs: jax.Array) -> jax.Array:
    """A loop that takes no step, whose steps would not look at what they are given."""

    def step(c: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jnp.ones(2) * x, c * x

    def outer(c: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jnp.sin(c), lax.scan(step, c * x, xs[:0])[0]

    c, ys = lax.scan(step, w, xs[:0])
    return jnp.sum(c * jnp.cos(w)) + jnp.sum(ys) + jnp.sum(lax.scan(outer, w, xs)[1])


STILL = [
    of_no_step,
    of_data,
    of_the_carry,
    of_a_callback,
    of_a_loop_in_a_loop,
    of_a_choice,
    of_a_step_that_runs_again,
    moves_later,
]


@pytest.mark.parametrize("loss", STILL, ids=lambda loss: loss.__name__)
def test_it_needs_no_derivative(loss: Loss) -> None:
    chex.assert_trees_all_close(value_and_grad(loss)(W, XS), jax.value_and_grad(loss)(W, XS))


@pytest.mark.parametrize(
    "loss", [one for one in STILL if one is not of_a_callback], ids=lambda loss: loss.__name__
)
def test_it_needs_no_tangent(loss: Loss) -> None:
    mod = Jvp("main", wrt=["w"])(from_jax(loss, W, XS))
    found = to_jax(mod, "main_jvp")(W, XS, jnp.cos(W))
    chex.assert_trees_all_close(found, jax.jvp(lambda w: loss(w, XS), (W,), (jnp.cos(W),)))


def back(mod: IRModule) -> Function:
    """The step of the loop that goes back."""
    bindings = mod["main_adjoint"].body.bindings()
    (step,) = (b.value for b in bindings if b.var.name.endswith("_step_adjoint"))
    assert isinstance(step, Function)
    return step


def fields(value: object) -> int:
    assert isinstance(value, TupleType)
    return len(value.fields)


def test_no_adjoint_of_it_is_carried_stacked_or_given() -> None:
    def loss(w: jax.Array, xs: jax.Array) -> jax.Array:
        def step(
            carry: tuple[jax.Array, jax.Array], x: jax.Array
        ) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
            c, t = carry
            return (jnp.sin(c * x), t * 2.0), t

        (c, _), ts = lax.scan(step, (w, jnp.ones(2)), xs)
        return jnp.sum(c) + jnp.sum(ts)

    step = back(Gradient("main", "w")(from_jax(loss, W, XS)))
    adjoints, given = step.params
    assert fields(adjoints.ty) == 1
    assert fields(given.ty) == 2  # x, and what was saved
    assert isinstance(step.ret_ty, TupleType)
    assert [fields(part) for part in step.ret_ty.fields] == [1, 0]
    everything = back(Gradient("main")(from_jax(loss, W, XS)))
    assert isinstance(everything.ret_ty, TupleType)
    assert [fields(part) for part in everything.ret_ty.fields] == [1, 1]


def test_keys_in_the_carry() -> None:
    def loss(w: jax.Array, xs: jax.Array) -> jax.Array:
        def step(
            carry: tuple[jax.Array, jax.Array], x: jax.Array
        ) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
            c, key = carry
            key, own = jax.random.split(key)
            return (jnp.sin(c * x + jax.random.normal(own, (2,))), key), c

        (c, _), ys = lax.scan(step, (w, jax.random.key(0)), xs)
        return jnp.sum(c) + jnp.sum(ys**2)

    found, expected = (jax.jit(f(loss))(W, XS) for f in (value_and_grad, jax.value_and_grad))
    chex.assert_trees_all_close(found, expected)
    mod = Gradient("main", "w")(from_jax(loss, W, XS))
    steps = [b.value for b in mod["main_adjoint"].body.bindings() if isinstance(b.value, Call)]
    assert sum(getattr(step.op, "name", "") == "relax.scan" for step in steps) == 2


@pytest.mark.parametrize("steps", [0, 2])
def test_perhaps_no_step(steps: int) -> None:
    """A loop over a symbol: what no step changes is what it was."""
    module = parse_functions("""
        @R.function
        def main(w: R.Tensor((2,), "float32"), xs: R.Tensor(("n", 2), "float32")):
            @R.function
            def step(c: R.Tensor((2,), "float32"), x: R.Tensor((2,), "float32")):
                return (x, R.tuple())
            last = R.scan(step, w, xs)
            total = R.sum(last[0])
            return total
    """)
    xs = XS[:steps]
    expected = (jnp.ones(2) if steps == 0 else jnp.zeros(2)), jnp.zeros_like(xs).at[1:].set(1)
    adjoint = to_jax(Gradient("main")(module), "main_adjoint")
    chex.assert_trees_all_equal(adjoint(W, xs)[1], expected)
    pushed = to_jax(Jvp("main", wrt=["w"])(module), "main_jvp")
    chex.assert_trees_all_equal(pushed(W, xs, jnp.ones(2))[1], jnp.sum(expected[0]))


def test_a_branch_is_told_to_which_of_its_results_nothing_comes_back() -> None:
    """The adjoint of equal eigenvalues' vectors is infinite: times a written zero it is no number.

    Inside the branch only what comes back from the eigenvalues is computed, as outside of one.
    """

    def loss(x: jax.Array) -> jax.Array:
        def decomposed(x: jax.Array) -> tuple[jax.Array, jax.Array]:
            found: tuple[jax.Array, jax.Array] = lax.cond(
                x[0, 1] < 1, lambda x: tuple(jnp.linalg.eigh(x)), lambda x: (x[0], x), x
            )
            return found

        values, _ = lax.cond(x[0, 0] > 1, decomposed, lambda x: (x[0], x), x)
        return jnp.sum(values**2)

    x = 2 * jnp.eye(3)
    chex.assert_trees_all_close(value_and_grad(loss)(x)[1], jax.grad(loss)(x), rtol=1e-6)


@pytest.mark.parametrize("both", [False, True])
def test_a_branch_that_is_computed_again_is_told_what_comes_back_to_it(both: bool) -> None:
    """To some of its results or to all: its copy was taken for one to which nothing does."""

    def loss(w: jax.Array, x: jax.Array) -> jax.Array:
        first, other = lax.cond(
            x[0] > 0, lambda c: (jnp.sin(c * w), c * 2), lambda c: (c, jnp.cos(w)), jnp.exp(w)
        )
        return jnp.sum(first * x) + (jnp.sum(other**2) if both else 0.0)

    for x in (XS[0], -XS[0]):
        found = jax.jit(value_and_grad(jax.checkpoint(loss)))(W, x)
        chex.assert_trees_all_close(found, jax.jit(jax.value_and_grad(loss))(W, x), rtol=1e-6)
