"""Differentiating through loops: the backward half is a loop in reverse."""

import chex
import jax
import jax.numpy as jnp
import pytest
from adjoint_checks import check_adjoint, signed_array
from parsing import parse_functions

from relaxjax import from_jax, from_source, to_jax
from relaxjax.ir import assert_structural_equal, well_formed
from relaxjax.passes import Gradient, GradientError, Jvp, LambdaLift

V = 'R.Tensor((3,), "float32")'

RECURRENT = f"""
    @R.function
    def main(
        w: R.Tensor((3, 3), "float32"), h0: {V}, xs: R.Tensor((5, 3), "float32")
    ) -> R.Tensor((), "float32"):
        @R.function
        def step(h: {V}, x: {V}) -> R.Tuple({V}, {V}):
            z = R.tanh(R.add(R.matmul(h, w), x))
            y = R.multiply(z, z)
            return (z, y)
        out = R.scan(step, h0, xs, reverse=REVERSE)
        loss = R.add(R.sum(out[0]), R.sum(R.sin(out[1])))
        return loss
"""


@pytest.mark.parametrize("reverse", [False, True])
def test_a_recurrent_network_with_weights_from_outside(reverse: bool) -> None:
    module = parse_functions(RECURRENT.replace("REVERSE", str(reverse)))
    check_adjoint(module, signed_array(3, 3), signed_array(3, seed=1), signed_array(5, 3, seed=2))


def test_a_step_is_not_run_twice() -> None:
    adjoint = Gradient("main")(parse_functions(RECURRENT.replace("REVERSE", "False")))
    assert adjoint["main_adjoint"].script().count("R.tanh") == 1


def test_what_each_step_is_given_is_not_kept_a_second_time() -> None:
    """The weights of layers, say: they are given to the steps on the way back as well."""
    module = parse_functions(f"""
    @R.function
    def main(h: {V}, ws: R.Tensor((4, 3, 3), "float32"), bs: R.Tensor((4, 3), "float32")):
        @R.function
        def layer(
            h: {V}, own: R.Tuple(R.Tensor((3, 3), "float32"), R.Tuple({V}))
        ) -> R.Tuple({V}, R.Tuple()):
            w = own[0]
            rest = own[1]
            b = rest[0]
            z = R.tanh(R.multiply(R.matmul(h, w), b))
            return (z, R.tuple())
        out = R.scan(layer, h, (ws, (bs,)))
        loss = R.sum(out[0])
        return loss
""")
    adjoint = check_adjoint(
        module, signed_array(3), signed_array(4, 3, 3, seed=1), signed_array(4, 3, seed=2)
    )
    (stacked,) = (
        binding.var.ty
        for binding in adjoint["main_adjoint"].body.bindings()
        if binding.var.name == "out_stacked"
    )
    assert "(4, 3, 3)" not in str(stacked)
    assert str(stacked).count("(4, 3)") == 3  # the product, the values, the carry


def test_carries_and_inputs_in_tuples_integers_among_them() -> None:
    module = parse_functions(f"""
    @R.function
    def main(c: {V}, xs: R.Tensor((4, 3), "float32"), ks: R.Tensor((4,), "int32")):
        @R.function
        def step(
            s: R.Tuple({V}, R.Tensor((), "int32")), x: R.Tuple({V}, R.Tensor((), "int32"))
        ) -> R.Tuple(R.Tuple({V}, R.Tensor((), "int32")), R.Tuple()):
            k = R.add(s[1], x[1])
            a = R.multiply(R.sin(s[0]), R.multiply(x[0], R.astype(k, "float32")))
            return ((a, k), R.tuple())
        out = R.scan(step, (c, R.const(1, "int32")), (xs, ks))
        loss = R.sum(out[0][0])
        return loss
""")
    check_adjoint(
        module, signed_array(3), signed_array(4, 3, seed=1), jnp.arange(4, dtype=jnp.int32)
    )


def test_a_loop_that_only_counts() -> None:
    module = parse_functions(f"""
    @R.function
    def main(x: {V}, a: {V}):
        @R.function
        def step(c: {V}, n: R.Tuple()) -> R.Tuple({V}, R.Tuple()):
            r = R.multiply(R.sin(c), a)
            return (r, R.tuple())
        out = R.scan(step, x, R.tuple(), length=3)
        loss = R.sum(out[0])
        return loss
""")
    check_adjoint(module, signed_array(3), signed_array(3, seed=1))


def test_a_loop_inside_a_loop_and_a_branch_inside_that() -> None:
    module = parse_functions(f"""
    @R.function
    def main(x: {V}, xs: R.Tensor((2, 4, 3), "float32"), b: R.Tensor((), "bool")):
        @R.function
        def outer(c: {V}, rows: R.Tensor((4, 3), "float32")) -> R.Tuple({V}, {V}):
            @R.function
            def inner(d: {V}, row: {V}) -> R.Tuple({V}, R.Tuple()):
                if b:
                    e = R.multiply(R.sin(d), row)
                else:
                    e = R.add(d, R.exp(row))
                return (e, R.tuple())
            run = R.scan(inner, c, rows)
            return (run[0], R.multiply(run[0], c))
        out = R.scan(outer, x, xs)
        loss = R.sum(R.sin(out[1]))
        return loss
""")
    for taken in (True, False):
        check_adjoint(module, signed_array(3), signed_array(2, 4, 3, seed=1), jnp.asarray(taken))


def test_a_body_that_is_a_function_of_the_module() -> None:
    module = parse_functions(f"""
    @R.function(private=True)
    def step(c: {V}, x: {V}) -> R.Tuple({V}, {V}):
        r = R.multiply(R.sin(c), x)
        return (r, r)

    @R.function
    def main(c: {V}, xs: R.Tensor((4, 3), "float32")) -> R.Tensor((), "float32"):
        out = R.scan(Module.step, c, xs)
        loss = R.sum(out[1])
        return loss
""")
    check_adjoint(module, signed_array(3), signed_array(4, 3, seed=1))


def test_a_body_that_is_not_known_is_refused() -> None:
    module = parse_functions(f"""
    @R.function
    def main(
        c: {V}, xs: R.Tensor((4, 3), "float32"),
        step: R.Callable(({V}, {V}), R.Tuple({V}, {V}), True)
    ) -> R.Tensor((), "float32"):
        out = R.scan(step, c, xs)
        loss = R.sum(out[1])
        return loss
""")
    with pytest.raises(GradientError, match="the loop over `step`, whose body is not known here"):
        Gradient("main", require_grads="c")(module)


def test_what_a_body_has_no_gradient_for_is_listed() -> None:
    module = parse_functions(f"""
    @R.function
    def main(c: {V}, xs: R.Tensor((4, 3), "float32")):
        @R.function
        def step(c: {V}, x: {V}) -> R.Tuple({V}, {V}):
            r = R.call_pure_packed("mystery", c, ty_args={V})
            return (r, x)
        out = R.scan(step, c, xs)
        loss = R.sum(out[0])
        return loss
""")
    with pytest.raises(GradientError, match="`r`: the call of"):
        Gradient("main")(module)


def test_a_closure_that_a_body_calls() -> None:
    module = parse_functions(f"""
    @R.function
    def main(c: {V}, xs: R.Tensor((4, 3), "float32")):
        @R.function
        def scaled(z: {V}) -> {V}:
            o = R.multiply(R.sin(z), c)
            return o
        @R.function
        def step(c: {V}, x: {V}) -> R.Tuple({V}, {V}):
            r = scaled(R.add(c, x))
            return (r, r)
        out = R.scan(step, c, xs)
        loss = R.sum(out[1])
        return loss
""")
    check_adjoint(module, signed_array(3), signed_array(4, 3, seed=1))


@pytest.mark.parametrize("bound", [2, 8])
def test_a_bounded_loop(bound: int) -> None:
    """Steps that were not taken have no derivative, not even one of NaN."""
    module = parse_functions(f"""
    @R.function
    def main(x: R.Tensor((), "float32"), a: R.Tensor((), "float32")):
        @R.function
        def large(c: R.Tensor((), "float32")) -> R.Tensor((), "bool"):
            r = R.greater(c, R.const(0.1, "float32"))
            return r
        @R.function
        def root(c: R.Tensor((), "float32")) -> R.Tensor((), "float32"):
            r = R.multiply(a, R.sqrt(R.subtract(c, R.const(0.1, "float32"))))
            return r
        out = R.while_loop(large, root, x, max_iter={bound})
        loss = R.sin(out)
        return loss
""")
    x, a = jnp.float32(0.9), jnp.float32(0.5)

    def unrolled(x: jax.Array, a: jax.Array) -> jax.Array:
        for _ in range(bound):
            if x > 0.1:
                x = a * jnp.sqrt(x - 0.1)
        return jnp.sin(x)

    adjoint = Gradient("main")(module)
    well_formed(adjoint)
    assert_structural_equal(from_source(adjoint.script()), adjoint)
    found = to_jax(adjoint, "main_adjoint")(x, a)
    chex.assert_trees_all_close(
        found, jax.value_and_grad(unrolled, argnums=(0, 1))(x, a), rtol=1e-5
    )


def test_a_step_brought_into_another_has_dimensions_of_its_own() -> None:
    """Its variable is of the type of the copy, so that the adjoint reads back as it is."""
    mod = parse_functions("""
        @R.function
        def main(x: R.Tensor(("n", 2), "float32"), v: R.Tensor((2,), "float32")):
            n = T.int64()
            @R.function
            def step(carry: R.Tensor((n, 2), "float32"), row: R.Tensor((), "float32")):
                return (R.multiply(R.sin(carry), row), R.tuple())
            out = R.scan(step, x, v, checkpoint=True)
            z = R.sum(out[0])
            return z
        """)
    adjoint = Gradient("main")(mod)
    assert_structural_equal(from_source(adjoint.script()), adjoint)


@pytest.mark.parametrize("taken", [-1.0, 1.0])
def test_loops_and_choices_of_jax_whose_functions_are_of_the_module(taken: float) -> None:
    """They are spelt out, choices among them: so the adjoint is no dataflow block."""

    def loss(w: jax.Array, xs: jax.Array) -> jax.Array:
        def step(c: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
            d = jnp.tanh(c * w + x)
            return d, jnp.sin(d)

        c, ys = jax.lax.scan(step, w, xs)
        z = jax.lax.cond(jnp.sum(xs) > 0, lambda a: a * w, jnp.exp, c)
        return jnp.sum(z) + jnp.sum(ys)

    w, xs = signed_array(3), taken * jnp.abs(signed_array(4, 3, seed=1))
    module = LambdaLift()(from_jax(loss, w, xs))
    assert "@R.function" not in module["main"].script().split("def main")[1]
    check_adjoint(module, w, xs)
    tangents = to_jax(Jvp("main")(module), "main_jvp")(w, xs, jnp.cos(w), jnp.cos(xs))
    expected = jax.jvp(loss, (w, xs), (jnp.cos(w), jnp.cos(xs)))
    chex.assert_trees_all_close(tangents, expected, rtol=1e-4, atol=1e-6)


def test_a_loop_inside_a_body_that_is_a_function_of_the_module() -> None:
    module = parse_functions(f"""
    @R.function(private=True)
    def step(c: {V}, x: {V}) -> R.Tuple({V}, {V}):
        @R.function
        def small(s: {V}) -> R.Tensor((), "bool"):
            r = R.less(R.sum(s), R.const(30.0, "float32"))
            return r
        @R.function
        def grown(s: {V}) -> {V}:
            r = R.add(s, R.sin(R.multiply(s, x)))
            return r
        out = R.while_loop(small, grown, c, max_iter=2)
        return (out, out)

    @R.function
    def main(c: {V}, xs: R.Tensor((4, 3), "float32")) -> R.Tensor((), "float32"):
        out = R.scan(Module.step, c, xs)
        loss = R.sum(out[1])
        return loss
""")
    args = signed_array(3), signed_array(4, 3, seed=1)

    def unrolled(c: jax.Array, xs: jax.Array) -> jax.Array:
        total = jnp.zeros(())
        for x in xs:
            for _ in range(2):
                c = c + jnp.sin(c * x)
            total += c.sum()
        return total

    found = to_jax(Gradient("main")(module), "main_adjoint")(*args)
    expected = jax.value_and_grad(unrolled, argnums=(0, 1))(*args)
    chex.assert_trees_all_close(found, expected, rtol=1e-4, atol=1e-6)
    moved = to_jax(Jvp("main")(module), "main_jvp")(*args, *map(jnp.cos, args))
    pushed = jax.jvp(unrolled, args, tuple(map(jnp.cos, args)))
    chex.assert_trees_all_close(moved, pushed, rtol=1e-4, atol=1e-6)


def test_a_loop_over_a_multiple_of_a_size_inside_a_loop_that_may_end_early() -> None:
    """The shape of what the inner loop saves is known, and so are zeros for steps left out."""
    module = parse_functions("""
    @R.function
    def main(x: R.Tensor(("n", 2), "float32")) -> R.Tensor((), "float32"):
        n = T.int64()
        @R.function
        def outer(c: R.Tensor((n, 2), "float32")) -> R.Tensor((n, 2), "float32"):
            @R.function
            def inner(d: R.Tensor((n * 2,), "float32")) -> R.Tensor((n * 2,), "float32"):
                e = R.multiply(d, R.sum(x))
                return e
            @R.function
            def small(d: R.Tensor((n * 2,), "float32")) -> R.Tensor((), "bool"):
                return R.less(R.sum(d), R.const(0.5, "float32"))
            flat = R.while_loop(small, inner, R.reshape(c, R.shape([n * 2])), max_iter=2)
            r = R.multiply(c, R.sum(R.sin(flat)))
            return r
        @R.function
        def is_short(c: R.Tensor((n, 2), "float32")) -> R.Tensor((), "bool"):
            return R.less(R.sum(c), R.const(9.0, "float32"))
        out = R.while_loop(is_short, outer, x, max_iter=2)
        loss = R.sum(out)
        return loss
""")
    x = jnp.asarray([[0.1, 0.3], [-0.2, 0.1]])

    def plain(x: jax.Array) -> jax.Array:
        c = x
        for _ in range(2):
            d = c.reshape(-1)
            for _ in range(2):
                d = jnp.where(d.sum() < 0.5, d * x.sum(), d)
            c = jnp.where(c.sum() < 9, c * jnp.sin(d).sum(), c)
        return c.sum()

    found = to_jax(Gradient("main")(module), "main_adjoint")(x)
    expected, gradient = jax.value_and_grad(plain)(x)
    chex.assert_trees_all_close(found, (expected, (gradient,)), rtol=1e-4, atol=1e-7)
