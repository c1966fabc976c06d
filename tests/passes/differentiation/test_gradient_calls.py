"""Differentiating through functions that are called, and closures."""

import chex
import jax
import jax.numpy as jnp
import pytest
from adjoint_checks import array, check_adjoint
from parsing import parse_functions, parse_main

from relaxjax import from_source, to_jax
from relaxjax.ir import assert_structural_equal, well_formed
from relaxjax.passes import Gradient, GradientError, Jvp, LambdaLift

CALLS = parse_functions("""
    @R.function(private=True)
    def square(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        n = T.int64()
        with R.dataflow():
            e = R.exp(x)
            y = R.multiply(e, x)
            R.output(y)
        return y

    @R.function
    def main(x: R.Tensor((3,), "float32"), y: R.Tensor((5,), "float32")) -> R.Tensor((), "float32"):
        a = Module.square(x)
        b = Module.square(a)
        c = Module.square(y)
        loss = R.add(R.sum(b), R.sum(c))
        return loss
""")


def test_called_functions_are_differentiated_once_and_shared() -> None:
    """TVM gives zeros here, without a word."""
    adjoint = check_adjoint(CALLS, array(3), array(5))
    assert [name for name in adjoint if name.startswith("square_")] == [
        "square_forward",
        "square_backward",
    ]


def test_a_called_function_is_not_run_twice() -> None:
    adjoint = Gradient("main")(CALLS)
    assert "R.exp" in adjoint["square_forward"].script()
    assert "R.exp" not in adjoint["square_backward"].script()


def test_functions_call_functions_and_branch() -> None:
    module = parse_functions("""
    @R.function(private=True)
    def leaf(x: R.Tensor((3,), "float32"), k: R.Tensor((), "int32")) -> R.Tensor((3,), "float32"):
        y = R.multiply(R.sin(x), R.astype(k, "float32"))
        return y

    @R.function(private=True)
    def middle(x: R.Tensor((3,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((3,), "float32"):
        if c:
            r = Module.leaf(x, R.const(2, "int32"))
        else:
            r = Module.leaf(R.exp(x), R.const(3, "int32"))
        return r

    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor((3,), "float32")) -> R.Tensor((), "float32"):
        y = Module.middle(x, c)
        z = Module.middle(y, c)
        loss = R.sum(z)
        return loss
""")
    for c in (True, False):
        check_adjoint(module, jnp.asarray(c), array(3))


def test_a_function_of_several_results_and_tuple_arguments() -> None:
    module = parse_functions("""
    @R.function(private=True)
    def swap(
        t: R.Tuple(R.Tensor((3,), "float32"), R.Tensor((3,), "float32"))
    ) -> R.Tuple(R.Tensor((3,), "float32"), R.Tensor((3,), "float32")):
        a = R.exp(t[1])
        b = R.multiply(t[0], a)
        return (a, b)

    @R.function
    def main(x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32")) -> R.Tensor((), "float32"):
        p = Module.swap((x, y))
        q = Module.swap(p)
        loss = R.sum(q[1])
        return loss
""")
    check_adjoint(module, array(3), array(3, seed=1))


def test_closures_see_the_variables_around_them() -> None:
    module = parse_functions("""
    @R.function
    def main(x: R.Tensor((3,), "float32"), w: R.Tensor((3,), "float32")) -> R.Tensor((), "float32"):
        @R.function
        def scale(z: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            o = R.multiply(R.exp(z), w)
            return o
        a = scale(x)
        b = scale(a)
        loss = R.sum(R.multiply(a, b))
        return loss
""")
    check_adjoint(module, array(3), array(3, seed=1))


RECURSIVE = parse_functions("""
    @R.function(private=True)
    def odd(
        k: R.Tensor((), "int32"), x: R.Tensor(("n",), "float32")
    ) -> R.Tensor(("n",), "float32"):
        n = T.int64()
        r = Module.power(R.subtract(k, R.const(1, "int32")), R.multiply(x, R.sin(x)))
        return r

    @R.function(private=True)
    def power(
        k: R.Tensor((), "int32"), x: R.Tensor(("n",), "float32")
    ) -> R.Tensor(("n",), "float32"):
        n = T.int64()
        if R.greater(k, R.const(0, "int32")):
            inner = Module.odd(k, x)
            r = R.multiply(inner, x)
        else:
            r = R.exp(x)
        return r

    @R.function
    def main(k: R.Tensor((), "int32"), x: R.Tensor((3,), "float32")) -> R.Tensor((), "float32"):
        r = Module.power(k, x)
        loss = R.sum(r)
        return loss
""")


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_functions_that_call_one_another(depth: int) -> None:
    """A pullback for each, which calls the other's; how deep it goes is known when it runs."""
    adjoint = Gradient("main")(RECURSIVE)
    well_formed(adjoint)
    assert_structural_equal(from_source(adjoint.script()), adjoint)
    assert [name for name in adjoint if "pullback" in name] == ["power_pullback", "odd_pullback"]
    x = array(3)

    def plain(k: int, x: jax.Array) -> jax.Array:
        return plain(k - 1, x * jnp.sin(x)) * x if k > 0 else jnp.exp(x)

    value, (_, gradient) = to_jax(adjoint, "main_adjoint")(jnp.asarray(depth, jnp.int32), x)
    expected = jax.value_and_grad(lambda x: jnp.sum(plain(depth, x)))(x)
    chex.assert_trees_all_close((value, gradient), expected, rtol=1e-5)


def test_a_function_that_calls_itself() -> None:
    module = parse_functions("""
    @R.function
    def main(k: R.Tensor((), "int32"), x: R.Tensor((), "float32")) -> R.Tensor((), "float32"):
        if R.greater(k, R.const(0, "int32")):
            r = R.sin(Module.main(R.subtract(k, R.const(1, "int32")), x))
        else:
            r = R.exp(x)
        return r
""")
    adjoint = Gradient("main")(module)
    _, (_, gradient) = to_jax(adjoint, "main_adjoint")(jnp.asarray(2, jnp.int32), jnp.float32(0.3))
    expected = jax.grad(lambda x: jnp.sin(jnp.sin(jnp.exp(x))))(0.3)
    chex.assert_trees_all_close(gradient, expected, rtol=1e-6)


def test_a_function_without_a_body_is_refused() -> None:
    module = parse_functions("""
    helper = R.ExternFunc(
        "helper", R.Callable((R.Tensor((3,), "float32"),), R.Tensor((), "float32"), True)
    )
    @R.function
    def main(x: R.Tensor((3,), "float32")) -> R.Tensor((), "float32"):
        r = Module.helper(x)
        return r
""")
    with pytest.raises(GradientError, match="`r`: the call of `helper`, which has no body"):
        Gradient("main")(module)


LIFTED = parse_functions("""
    @R.function
    def main(
        x: R.Tensor(("n",), "float32"),
        w: R.Tensor(("n",), "float32"),
        k: R.Tensor(("m",), "float32"),
    ):
        n, m = T.int64(), T.int64()
        around = (w, k)
        @R.function
        def scale(y: R.Tensor((n,), "float32"), z: R.Tensor(("j",), "float32")):
            j = T.int64()
            a = R.multiply(R.multiply(y, around[0]), R.sum(around[1]))
            return (a, R.exp(z))
        a = scale(x, k)
        if R.greater(R.sum(x), R.const(4.0, "float32")):
            b = scale(a[0], x)
            c = R.multiply(b[0], b[1])
        else:
            c = R.add(w, a[0])
        return R.sum(c)
""")


@pytest.mark.parametrize("offset", [0, 3])
def test_closures_have_gradients_once_they_are_lifted(offset: int) -> None:
    args = array(3, seed=1) + offset, array(3, seed=2), array(2, seed=3)
    lifted = LambdaLift()(LIFTED)
    assert "R.make_closure" in str(lifted["main"])
    check_adjoint(lifted, *args)
    expected = to_jax(Jvp("main")(LIFTED), "main_jvp")(*args, *args)
    found = to_jax(Jvp("main")(lifted), "main_jvp")(*args, *args)
    chex.assert_trees_all_close(found, expected, rtol=1e-6)


def test_a_lifted_closure_that_only_its_caller_knows_is_an_obstacle() -> None:
    lifted = parse_functions("""
    @R.function
    def main(x: R.Tensor((3,), "float32"), f: R.Object):
        y = R.invoke_pure_closure(f, (x,), ty_args=(R.Tensor((3,), "float32"),))
        return R.sum(y)
""")
    match = "`y`: the call of `f`, which is known only where the program runs: differentiate before"
    with pytest.raises(GradientError, match=match):
        Gradient("main")(lifted)


def test_a_closure_may_use_a_variable_of_the_symbolic_shape_of_its_parameter() -> None:
    body = """
        n = T.int64()
        @R.function
        def closure(inner: R.Tensor((n, 2), "float32")) -> R.Tensor((n, 2), "float32"):
            y = R.multiply(inner, t[0])
            return y
        z = closure(x)
        loss = R.sum(z)
        return loss
    """
    module = parse_main(body, x=("n", 2), t='R.Tuple(R.Tensor(("n", 1), "float32"))')
    adjoint = Gradient("main")(module)
    well_formed(adjoint)
    x, t = array(3, 2), array(3, 1, seed=1)
    _, gradients = to_jax(adjoint, "main_adjoint")(x, (t,))
    expected = jax.grad(to_jax(module, "main"), (0, 1))(x, (t,))
    chex.assert_trees_all_close(gradients, expected, rtol=1e-6)
