"""Forward mode: tangents as text and in numbers, through every kind of binding, and refused."""

from collections.abc import Iterator

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from adjoint_checks import array, float_places
from parsing import parse_flow, parse_functions, parse_main

from relaxjax import from_source, op, to_jax
from relaxjax.ir import IRModule, TensorType, assert_structural_equal, well_formed
from relaxjax.ir.op import OPS
from relaxjax.passes import Gradient, GradientError, HessianVectorProduct, Jvp
from relaxjax.testing.equations import run


def check(module: IRModule, *args: jax.Array) -> IRModule:
    """Compare with `jax.jvp`, and see that the function is well-formed and survives its text."""
    pushed = Jvp("main")(module)
    well_formed(pushed)
    assert_structural_equal(from_source(pushed.script()), pushed)
    places = float_places(args)
    tangents = [array(*args[i].shape, seed=10 + i) for i in places]
    forward = to_jax(module, "main")

    def function(*floats: jax.Array) -> jax.Array:
        given = list(args)
        for place, value in zip(places, floats, strict=True):
            given[place] = value
        return forward(*given)  # type: ignore[no-any-return]  # a callable of any results

    expected = jax.jvp(function, [args[i] for i in places], tangents)
    found = to_jax(pushed, "main_jvp")(*args, *tangents)
    chex.assert_trees_all_close(found, tuple(expected), rtol=1e-5, atol=1e-6)
    return pushed


MLP = parse_flow("y = R.sin(x)\nz = R.multiply(y, w)\nreturn z", x=(2, 3), w=(3,))

MLP_JVP = parse_functions("""
@R.function
def main_jvp(
    x: R.Tensor((2, 3), "float32"),
    w: R.Tensor((3,), "float32"),
    x_tangent: R.Tensor((2, 3), "float32"),
):
    with R.dataflow():
        y = R.sin(x)
        lv = R.cos(x)
        y_tangent = R.multiply(x_tangent, lv)
        z = R.multiply(y, w)
        z_tangent = R.multiply(y_tangent, w)
        tangent_out = z_tangent
        R.output(z, tangent_out)
    return (z, tangent_out)
""")


def test_as_text() -> None:
    pushed = Jvp("main", wrt="x")(MLP)["main_jvp"]
    assert_structural_equal(pushed, MLP_JVP["main_jvp"])
    assert pushed.global_symbol == "main_jvp"


def test_in_numbers() -> None:
    check(MLP, array(2, 3), array(3, seed=1))


CONTROL = parse_functions("""
@R.function(private=True)
def power(x: R.Tensor(("n",), "float32"), k: R.Tensor((), "int32")) -> R.Tensor(("n",), "float32"):
    n = T.int64()
    c = R.greater(k, R.const(0, "int32"))
    if c:
        less = Module.power(x, R.subtract(k, R.const(1, "int32")))
        r = R.multiply(x, less)
    else:
        r = R.ones_like(x)
    return r

@R.function
def main(x: R.Tensor(("n", 3), "float32"), k: R.Tensor((), "int32")):
    n, m = T.int64(), T.int64()
    flat = R.reshape(x, R.shape([n * 3]))
    cast = R.match_cast(flat, R.Tensor((m,), "float32"))
    y = Module.power(cast, k)

    @R.function
    def closure(a: R.Tensor((m,), "float32")) -> R.Tensor((m,), "float32"):
        b = R.add(a, flat)
        return b

    z = closure(y)
    t = (z, (k, R.sum(x)))
    return t
""")


def test_recursion_closures_casts_and_tuples_with_integers() -> None:
    pushed = Jvp("main")(CONTROL)
    well_formed(pushed)
    x, k, t = array(2, 3), jnp.asarray(2), array(2, 3, seed=1)
    (value, (count, total)), (moved, (still, moved_total)) = to_jax(pushed, "main_jvp")(x, k, t)
    flat, dflat = x.reshape(-1), t.reshape(-1)
    chex.assert_trees_all_close((value, total), (flat**2 + flat, x.sum()), rtol=1e-6)
    chex.assert_trees_all_close(
        (moved, moved_total), (2 * flat * dflat + dflat, t.sum()), rtol=1e-6
    )
    assert (count, still) == (2, 0)


def test_branches() -> None:
    module = parse_functions("""
@R.function
def main(c: R.Tensor((), "bool"), x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32")):
    if c:
        r = R.multiply(x, R.cumsum(y, axis=0))
    else:
        r = R.const([1.0, 2.0, 3.0], "float32")
    return r
""")
    for taken in (True, False):
        check(module, jnp.asarray(taken), array(3), array(3, seed=1))


def test_loops() -> None:
    module = parse_functions("""
@R.function
def main(x: R.Tensor((4, 3), "float32"), w: R.Tensor((3,), "float32")):
    @R.function
    def step(carry: R.Tensor((3,), "float32"), row: R.Tensor((3,), "float32")):
        next = R.tanh(R.add(R.multiply(carry, w), row))
        return (next, R.sum(next))

    done = R.scan(step, w, x)
    return done
""")
    check(module, array(4, 3), array(3, seed=1))


def test_a_result_that_does_not_move_has_a_tangent_of_zeros() -> None:
    module = parse_main("y = R.floor(x)\nreturn y", x=(3,))
    pushed = check(module, array(3))
    assert "zeros" in pushed["main_jvp"].script()


HESSIAN = parse_flow(
    "y = R.matmul(x, w)\nz = R.tanh(y)\nloss = R.sum(R.multiply(R.multiply(z, z), x))",
    x='R.Tensor((3,), "float64")',
    k='R.Tensor((), "int64")',
    w='R.Tensor((3, 3), "float64")',
)


def test_products_of_the_hessian_with_vectors() -> None:
    module = HessianVectorProduct("main")(HESSIAN)
    well_formed(module)
    assert list(module) == ["main", "main_hvp"]
    random = np.random.default_rng(0)
    x, w, dx, dw = (random.uniform(-1, 1, shape) for shape in [(3,), (3, 3)] * 2)
    k = np.asarray(1)
    forward = to_jax(HESSIAN, "main")
    with jax.enable_x64(True):
        found = run(to_jax(module, "main_hvp"), x, k, w, dx, dw)
        gradients = jax.grad(lambda x, w: forward(x, k, w), (0, 1))
        expected = run(lambda *args: jax.jvp(gradients, args[:2], args[2:])[1], x, w, dx, dw)
    chex.assert_trees_all_close(found, expected, rtol=1e-12)


def test_the_gradient_of_a_tangent() -> None:
    """Reverse over forward: the function that `Jvp` adds is a program like any other."""
    module = parse_main("y = R.sum(R.exp(R.sin(x)))\nreturn y", x='R.Tensor((3,), "float64")')
    twice = Gradient("main_jvp", require_grads="x", target_index=1)(Jvp("main")(module))
    x, t = np.arange(3.0), np.ones(3)
    with jax.enable_x64(True):
        _, (found,) = run(to_jax(twice, "main_jvp_adjoint"), x, t)
    sin, cos = np.sin(x), np.cos(x)
    np.testing.assert_allclose(found, np.exp(sin) * (cos**2 - sin) * t, rtol=1e-12)


def test_a_product_with_the_floats_of_a_tuple() -> None:
    module = parse_main(
        'powers = R.power(t[0], R.astype(t[1], "float32"))\nloss = R.sum(powers)\nreturn loss',
        t='R.Tuple(R.Tensor((3,), "float32"), R.Tensor((3,), "int32"))',
    )
    x, exponents, tangent = array(3), jnp.array([1, 2, 3], jnp.int32), array(3, seed=1)
    product = to_jax(HessianVectorProduct("main")(module), "main_hvp")
    ((found, of_integers),) = product((x, exponents), (tangent, exponents))
    expected = jnp.array([0.0, 2.0, 6.0 * x[2]]) * tangent
    chex.assert_trees_all_close(found, expected, rtol=1e-5, atol=1e-6)
    chex.assert_trees_all_equal(of_integers, jnp.zeros(3, jnp.int32))


@pytest.fixture
def _opaque() -> Iterator[None]:
    @op("relax.test_opaque", lower=lambda x: x)
    def opaque(x: TensorType) -> TensorType:
        """An operator of which nobody says how it changes."""
        return x

    yield
    del OPS["relax.test_opaque"]


@pytest.mark.usefixtures("_opaque")
def test_every_operator_without_a_rule_is_named_at_once() -> None:
    module = parse_functions("""
@R.function
def main(x: R.Tensor((3,), "float32")):
    a = R.test_opaque(x)
    unused = R.test_opaque(x)
    b = R.test_opaque(a)
    return b
""")
    with pytest.raises(GradientError) as caught:
        Jvp("main")(module)
    message = str(caught.value)
    assert message.startswith("no tangent is known for:")
    assert message.count("the operator relax.test_opaque") == 2


def test_names_that_are_no_parameters() -> None:
    message = "`wrt` names `k`, but the parameters of `main` that can have a tangent are `x`, `w`"
    with pytest.raises(GradientError, match=message):
        Jvp("main", wrt=["x", "k"])(HESSIAN)
