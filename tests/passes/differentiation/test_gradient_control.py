"""Differentiating through branches, functions that are called, closures and effects."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from relaxjax.ir.check import well_formed
from relaxjax.ir.module import IRModule
from relaxjax.ir.structural import assert_structural_equal
from relaxjax.lowering import to_jax
from relaxjax.passes import Jvp, LambdaLift
from relaxjax.passes.differentiation.gradient import Gradient, GradientError
from relaxjax.script import from_source


def parse(source: str) -> IRModule:
    module = from_source(f"@I.ir_module\nclass Module:\n{source}")
    assert isinstance(module, IRModule)
    return module


def array(*shape: int, seed: int = 0) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).uniform(0.5, 1.5, shape), jnp.float32)


def check(module: IRModule, *args: jax.Array) -> IRModule:
    """Compare with `jax.grad`, and see that the adjoint is well-formed and survives its text."""
    adjoint = Gradient("main")(module)
    well_formed(adjoint)
    assert_structural_equal(from_source(adjoint.script()), adjoint)
    floats = tuple(i for i, arg in enumerate(args) if jnp.issubdtype(arg.dtype, jnp.floating))
    forward = to_jax(module, "main")
    expected = jax.jit(jax.value_and_grad(forward, argnums=floats))(*args)
    value, gradients = jax.jit(to_jax(adjoint, "main_adjoint"))(*args)
    chex.assert_trees_all_close(
        (value, tuple(gradients[i] for i in floats)), expected, rtol=1e-5, atol=1e-6
    )
    return adjoint


BRANCHES = parse(
    """
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
"""
)


@pytest.mark.parametrize("taken", [True, False])
def test_either_branch_has_its_gradient(taken: bool) -> None:
    check(BRANCHES, jnp.asarray(taken), array(3), array(3, seed=1))


def test_a_branch_is_not_run_twice() -> None:
    """The backward part uses what the forward part saved: one exp, and none again."""
    adjoint = check(BRANCHES, jnp.asarray(True), array(3), array(3, seed=1))
    assert adjoint["main_adjoint"].script().count("R.exp(") == 1


def test_branches_nest_and_may_ignore_a_variable() -> None:
    module = parse(
        """
    @R.function
    def main(
        c: R.Tensor((), "bool"), d: R.Tensor((), "bool"), x: R.Tensor((3,), "float32")
    ) -> R.Tensor((), "float32"):
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
    )
    for c in (True, False):
        for d in (True, False):
            check(module, jnp.asarray(c), jnp.asarray(d), array(3))


def test_a_branch_may_give_a_tuple() -> None:
    module = parse(
        """
    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor((3,), "float32")) -> R.Tensor((), "float32"):
        if c:
            t = (x, R.exp(x))
        else:
            t = (R.sin(x), x)
        loss = R.sum(R.multiply(t[0], t[1]))
        return loss
"""
    )
    for c in (True, False):
        check(module, jnp.asarray(c), array(3))


CALLS = parse(
    """
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
        cls = Module
        a = cls.square(x)
        b = cls.square(a)
        c = cls.square(y)
        loss = R.add(R.sum(b), R.sum(c))
        return loss
"""
)


def test_called_functions_are_differentiated_once_and_shared() -> None:
    """TVM gives zeros here, without a word."""
    adjoint = check(CALLS, array(3), array(5))
    assert [name for name in adjoint if name.startswith("square_")] == [
        "square_forward",
        "square_backward",
    ]


def test_a_called_function_is_not_run_twice() -> None:
    adjoint = Gradient("main")(CALLS)
    assert "R.exp" in adjoint["square_forward"].script()
    assert "R.exp" not in adjoint["square_backward"].script()


def test_functions_call_functions_and_branch() -> None:
    module = parse(
        """
    @R.function(private=True)
    def leaf(x: R.Tensor((3,), "float32"), k: R.Tensor((), "int32")) -> R.Tensor((3,), "float32"):
        y = R.multiply(R.sin(x), R.astype(k, "float32"))
        return y

    @R.function(private=True)
    def middle(x: R.Tensor((3,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((3,), "float32"):
        cls = Module
        if c:
            r = cls.leaf(x, R.const(2, "int32"))
        else:
            r = cls.leaf(R.exp(x), R.const(3, "int32"))
        return r

    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor((3,), "float32")) -> R.Tensor((), "float32"):
        cls = Module
        y = cls.middle(x, c)
        z = cls.middle(y, c)
        loss = R.sum(z)
        return loss
"""
    )
    for c in (True, False):
        check(module, jnp.asarray(c), array(3))


def test_a_function_of_several_results_and_tuple_arguments() -> None:
    module = parse(
        """
    @R.function(private=True)
    def swap(
        t: R.Tuple(R.Tensor((3,), "float32"), R.Tensor((3,), "float32"))
    ) -> R.Tuple(R.Tensor((3,), "float32"), R.Tensor((3,), "float32")):
        a = R.exp(t[1])
        b = R.multiply(t[0], a)
        return (a, b)

    @R.function
    def main(x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32")) -> R.Tensor((), "float32"):
        cls = Module
        p = cls.swap((x, y))
        q = cls.swap(p)
        loss = R.sum(q[1])
        return loss
"""
    )
    check(module, array(3), array(3, seed=1))


def test_closures_see_the_variables_around_them() -> None:
    module = parse(
        """
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
"""
    )
    check(module, array(3), array(3, seed=1))


def test_effects_stay_in_place_and_run_once() -> None:
    module = parse(
        """
    @R.function(pure=False)
    def main(x: R.Tensor((3,), "float32")) -> R.Tensor((), "float32"):
        with R.dataflow():
            hidden = R.exp(x)
            y = R.multiply(hidden, x)
            R.output(y)
        _ = R.print(y, format="y = {}")
        loss = R.sum(R.sin(y))
        return loss
"""
    )
    assert check(module, array(3))["main_adjoint"].script().count("R.print") == 1


@pytest.mark.parametrize("lazy", [False, True])
def test_adjoints_of_casts_have_the_types_of_what_was_cast(lazy: bool) -> None:
    """So all that is made of them is known, down to what an optimizer takes."""
    module = parse(
        """
    @R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((), "float32"):
        k = T.int64()
        free = R.match_cast(x, R.Tensor((k,), "float32"))
        y = R.match_cast(R.tanh(free), R.Tensor((2,), "float32"))
        loss = R.sum(R.multiply(y, y))
        return loss
"""
    )
    text = Gradient("main", lazy=lazy)(module)["main_adjoint"].script()
    assert "x_adjoint_out: R.Tensor((2,), dtype=" in text
    assert "collapse_sum" not in text
    check(module, array(2))


def test_match_cast_passes_the_gradient_on() -> None:
    module = parse(
        """
    @R.function
    def main(x: R.Tensor(ndim=1, dtype="float32")) -> R.Tensor((), "float32"):
        m = T.int64()
        y = R.match_cast(x, R.Tensor((m,), "float32"))
        loss = R.sum(R.multiply(y, y))
        return loss
"""
    )
    adjoint = Gradient("main")(module)
    _, gradients = to_jax(adjoint, "main_adjoint")(array(4))
    chex.assert_trees_all_close(gradients, (2 * array(4),))


RECURSIVE = parse(
    """
    @R.function(private=True)
    def odd(
        k: R.Tensor((), "int32"), x: R.Tensor(("n",), "float32")
    ) -> R.Tensor(("n",), "float32"):
        n = T.int64()
        cls = Module
        r = cls.power(R.subtract(k, R.const(1, "int32")), R.multiply(x, R.sin(x)))
        return r

    @R.function(private=True)
    def power(
        k: R.Tensor((), "int32"), x: R.Tensor(("n",), "float32")
    ) -> R.Tensor(("n",), "float32"):
        n = T.int64()
        cls = Module
        if R.greater(k, R.const(0, "int32")):
            inner = cls.odd(k, x)
            r = R.multiply(inner, x)
        else:
            r = R.exp(x)
        return r

    @R.function
    def main(k: R.Tensor((), "int32"), x: R.Tensor((3,), "float32")) -> R.Tensor((), "float32"):
        cls = Module
        r = cls.power(k, x)
        loss = R.sum(r)
        return loss
"""
)


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
    module = parse(
        """
    @R.function
    def main(k: R.Tensor((), "int32"), x: R.Tensor((), "float32")) -> R.Tensor((), "float32"):
        cls = Module
        if R.greater(k, R.const(0, "int32")):
            r = R.sin(cls.main(R.subtract(k, R.const(1, "int32")), x))
        else:
            r = R.exp(x)
        return r
"""
    )
    adjoint = Gradient("main")(module)
    _, (_, gradient) = to_jax(adjoint, "main_adjoint")(jnp.asarray(2, jnp.int32), jnp.float32(0.3))
    expected = jax.grad(lambda x: jnp.sin(jnp.sin(jnp.exp(x))))(0.3)
    chex.assert_trees_all_close(gradient, expected, rtol=1e-6)


def test_a_function_without_a_body_is_refused() -> None:
    module = parse(
        """
    helper = R.ExternFunc(
        "helper", R.Callable((R.Tensor((3,), "float32"),), R.Tensor((), "float32"), True)
    )
    @R.function
    def main(x: R.Tensor((3,), "float32")) -> R.Tensor((), "float32"):
        cls = Module
        r = cls.helper(x)
        return r
"""
    )
    with pytest.raises(GradientError, match="`r`: the call of `helper`, which has no body"):
        Gradient("main")(module)


VECTOR = parse(
    """
    @R.function
    def main(x: R.Tensor((3,), "float32"), w: R.Tensor((2, 3), "float32")):
        with R.dataflow():
            y = R.exp(x)
            z = R.matmul(w, y)
            s = R.sum(y)
            R.output(y, z, s)
        return (z, s, y)
"""
)


def test_a_vector_target_takes_its_cotangent_as_a_parameter() -> None:
    adjoint = Gradient("main", cotangent=True)(VECTOR)
    assert [p.name for p in adjoint["main_adjoint"].params] == ["x", "w", "z_cotangent"]
    x, w, g = array(3), array(2, 3), array(2, seed=3)
    _, gradients = to_jax(adjoint, "main_adjoint")(x, w, g)
    _, pullback = jax.vjp(lambda x, w: w @ jnp.exp(x), x, w)
    chex.assert_trees_all_close(gradients, pullback(g), rtol=1e-5)


def test_a_cotangent_takes_the_dimensions_that_the_body_defines_there() -> None:
    """The parameter cannot name them."""
    module = parse(
        """
    @R.function
    def main(x: R.Tensor("float32"), y: R.Tensor(("n",), "float32")):
        m, n = T.int64(), T.int64()
        with R.dataflow():
            a = R.match_cast(x, R.Tensor((m, 2), "float32"))
            b = R.exp(R.reshape(a, (2 * m,)))
            c = R.sin(y)
            R.output(b, c)
        return (b, c)
"""
    )
    adjoint = Gradient("main", target_index=[0, 1], cotangent=True)(module)
    well_formed(adjoint)
    assert_structural_equal(from_source(adjoint.script()), adjoint)
    types = [str(param.ty) for param in adjoint["main_adjoint"].params[2:]]
    assert types == ['R.Tensor(dtype="float32", ndim=1)', 'R.Tensor((n,), dtype="float32")']
    x, y, g, h = array(3, 2), array(4), array(6, seed=3), array(4, seed=4)
    _, gradients = to_jax(adjoint, "main_adjoint")(x, y, g, h)
    chex.assert_trees_all_close(
        gradients, (jnp.exp(x) * g.reshape(3, 2), jnp.cos(y) * h), rtol=1e-5
    )


def test_several_targets_have_a_cotangent_each() -> None:
    adjoint = Gradient("main", target_index=[0, 2], cotangent=True)(VECTOR)
    x, w, g, h = array(3), array(2, 3), array(2, seed=3), array(3, seed=4)
    _, gradients = to_jax(adjoint, "main_adjoint")(x, w, g, h)
    _, pullback = jax.vjp(lambda x, w: (w @ jnp.exp(x), jnp.exp(x)), x, w)
    chex.assert_trees_all_close(gradients, pullback((g, h)), rtol=1e-5)


def test_the_cotangents_of_one_variable_have_names_of_their_own() -> None:
    module = parse(
        """
    @R.function
    def main(x: R.Tensor((3,), "float32")):
        y = R.sin(x)
        return (y, y)
"""
    )
    adjoint = Gradient("main", target_index=[0, 1], cotangent=True)(module)
    names = [param.name for param in adjoint["main_adjoint"].params]
    assert names == ["x", "y_cotangent", "y_cotangent1"]
    x, g, h = array(3), array(3, seed=3), array(3, seed=4)
    _, gradients = to_jax(adjoint, "main_adjoint")(x, g, h)
    chex.assert_trees_all_close(gradients, (jnp.cos(x) * (g + h),), rtol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target_index": []}, r"must name one target or several, found \[\]"),
        ({"target_index": [1, 1]}, r"must name one target or several, found \[1, 1\]"),
        ({"target_index": 0}, "write `cotangent=True` for other targets"),
    ],
)
def test_targets_that_cannot_be(options: dict[str, object], message: str) -> None:
    with pytest.raises(GradientError, match=message):
        Gradient("main", **options)(VECTOR)  # type: ignore[arg-type]  # options of several kinds


def test_a_target_with_a_cotangent_must_be_of_floats() -> None:
    module = parse(
        """
    @R.function
    def main(x: R.Tensor((3,), "float32")):
        i = R.argmax(x)
        return i
"""
    )
    with pytest.raises(GradientError, match="a target with a cotangent must be a tensor of float"):
        Gradient("main", cotangent=True)(module)


LIFTED = parse(
    """
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
"""
)


@pytest.mark.parametrize("offset", [0, 3])
def test_closures_have_gradients_once_they_are_lifted(offset: int) -> None:
    args = array(3, seed=1) + offset, array(3, seed=2), array(2, seed=3)
    lifted = LambdaLift()(LIFTED)
    assert "R.make_closure" in str(lifted["main"])
    check(lifted, *args)
    expected = to_jax(Jvp("main")(LIFTED), "main_jvp")(*args, *args)
    found = to_jax(Jvp("main")(lifted), "main_jvp")(*args, *args)
    chex.assert_trees_all_close(found, expected, rtol=1e-6)


def test_a_lifted_closure_that_only_its_caller_knows_is_an_obstacle() -> None:
    lifted = parse(
        """
    @R.function
    def main(x: R.Tensor((3,), "float32"), f: R.Object):
        y = R.invoke_pure_closure(f, (x,), ty_args=(R.Tensor((3,), "float32"),))
        return R.sum(y)
"""
    )
    match = "`y`: the call of `f`, which is known only where the program runs: differentiate before"
    with pytest.raises(GradientError, match=match):
        Gradient("main")(lifted)


def test_a_closure_may_use_a_variable_of_the_symbolic_shape_of_its_parameter() -> None:
    module = parse(
        """
    @R.function
    def main(
        x: R.Tensor(("n", 2), "float32"), t: R.Tuple(R.Tensor(("n", 1), "float32"))
    ) -> R.Tensor((), "float32"):
        n = T.int64()
        @R.function
        def closure(inner: R.Tensor((n, 2), "float32")) -> R.Tensor((n, 2), "float32"):
            y = R.multiply(inner, t[0])
            return y
        z = closure(x)
        loss = R.sum(z)
        return loss
"""
    )
    adjoint = Gradient("main")(module)
    well_formed(adjoint)
    x, t = array(3, 2), array(3, 1, seed=1)
    _, gradients = to_jax(adjoint, "main_adjoint")(x, (t,))
    expected = jax.grad(to_jax(module, "main"), (0, 1))(x, (t,))
    chex.assert_trees_all_close(gradients, expected, rtol=1e-6)


@pytest.mark.parametrize("taken", [True, False])
def test_a_branch_may_cast_to_symbolic_shapes_of_its_own(taken: bool) -> None:
    """What it saves has a shape that can be said outside, where zeros stand for it."""
    module = parse(
        """
    @R.function
    def main(
        c: R.Tensor((), "bool"), x: R.Tensor(("n", 2), "float32")
    ) -> R.Tensor((), "float32"):
        n = T.int64()
        k = T.int64()
        j = T.int64()
        if c:
            free = R.match_cast(x, R.Tensor((k, 2), "float32"))
            e = R.exp(free)
            freer = R.match_cast(e, R.Tensor((j, 2), "float32"))
            r = R.sum(R.multiply(freer, freer))
        else:
            r = R.sum(x)
        return r
"""
    )
    adjoint = Gradient("main")(module)
    well_formed(adjoint)
    args = jnp.asarray(taken), array(3, 2)
    _, gradients = to_jax(adjoint, "main_adjoint")(*args)
    expected = jax.grad(to_jax(module, "main"), 1)(*args)
    chex.assert_trees_all_close(gradients[1], expected, rtol=1e-6)
