"""JAX functions inside scripts."""

from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from relaxjax import from_source, to_jax
from relaxjax.ir import BlockBuilder, IRModule, TensorType, Var, assert_structural_equal
from relaxjax.ops import OpError
from relaxjax.ops.jax_functions import call_jax
from relaxjax.passes import Gradient
from relaxjax.script import ir as I
from relaxjax.script import relax as R


def mixed(x: jax.Array, y: jax.Array) -> tuple[jax.Array, list[jax.Array]]:
    return jnp.sin(x) * y, [jax.nn.softmax(x), jnp.cumsum(y, axis=0)]


@I.ir_module
class Mixed:
    @R.function
    def main(x: R.Tensor(("n", 3), "float32"), y: R.Tensor(("n", 3), "float32")) -> R.Tensor(
        (), "float32"
    ):
        with R.dataflow():
            t = R.call_jax(mixed, x, y)
            a = R.multiply(t[0], t[1][0])
            loss = R.call_jax(lambda a, b: jnp.sum(a * a) + b.mean(), a, t[1][1])
            R.output(loss)
        return loss


MIXED: IRModule = Mixed  # type: ignore[assignment]  # the decorator makes it a module


def arrays(size: int) -> tuple[jax.Array, jax.Array]:
    random = np.random.default_rng(0)
    x, y = (jnp.asarray(random.normal(size=(size, 3)), jnp.float32) for _ in range(2))
    return x, y


def reference(x: jax.Array, y: jax.Array) -> jax.Array:
    product, (soft, sums) = mixed(x, y)
    return jnp.sum((product * soft) ** 2) + sums.mean()


@pytest.mark.parametrize("size", [1, 4])
def test_it_computes_what_the_function_does(size: int) -> None:
    """For any batch: the program is symbolic as its arguments are."""
    args = arrays(size)
    chex.assert_trees_all_close(to_jax(MIXED, "main")(*args), reference(*args), rtol=1e-5)


def test_it_is_differentiated_and_printed_like_everything_else() -> None:
    adjoint = Gradient("main")(MIXED)
    assert_structural_equal(from_source(adjoint.script()), adjoint)
    args = arrays(4)
    _, gradients = to_jax(adjoint, "main_adjoint")(*args)
    expected = jax.grad(reference, argnums=(0, 1))(*args)
    chex.assert_trees_all_close(gradients, expected, rtol=1e-4, atol=1e-6)


def test_what_it_computes_on_the_way_stays_inside_its_block() -> None:
    text = MIXED.script()
    assert "R.output(loss)" in text
    assert "L.sin(x)" in text


def test_half_precision_and_integers_keep_their_dtypes() -> None:
    x = Var("x", TensorType((3,), "bfloat16"))
    i = Var("i", TensorType((3,), "int32"))
    builder = BlockBuilder()
    with builder.function("main", [x, i]):
        result = builder.emit(call_jax(lambda x, i: (x + 1, i * 2), x, i))
        builder.emit_func_output(result)
    values = to_jax(builder.get(), "main")(jnp.ones(3, jnp.bfloat16), jnp.arange(3))
    chex.assert_trees_all_equal(values, (jnp.full(3, 2, jnp.bfloat16), 2 * jnp.arange(3)))


def test_a_tensor_of_unknown_shape_cannot_be_traced() -> None:
    x = Var("x", TensorType(ndim=2, dtype="float32"))
    with pytest.raises(OpError, match=r"R.call_jax\(sin, …\) needs tensors of known shape"):
        call_jax(jnp.sin, x)


def test_a_result_that_is_no_tensor_is_an_error() -> None:
    x = Var("x", TensorType((3,), "float32"))

    def named(x: jax.Array) -> dict[str, jax.Array]:
        return {"x": x}

    match = r"R.call_jax\(named, …\) must give a tensor, .* gives a dict"
    with pytest.raises(OpError, match=match):
        call_jax(named, x)


def rounded(x: jax.Array) -> jax.Array:
    return jnp.round(x)


straight = jax.custom_vjp(rounded)
straight.defvjp(lambda x: (jnp.round(x), None), lambda _, g: (g,))


forward = jax.custom_jvp(rounded)
forward.defjvp(lambda primals, tangents: (jnp.round(primals[0]), tangents[0]))


@pytest.mark.parametrize("rule", [straight, forward])
@pytest.mark.parametrize("deep", [False, True])
def test_a_rule_of_the_user_s_is_not_lost(deep: bool, rule: Any) -> None:
    """It is refused, and the pass that gives such rules is named; the function itself is taken."""
    x = Var("x", TensorType((3,), "float32"))

    def function(x: jax.Array) -> Any:
        return jax.lax.map(rule, x) if deep else jax.jit(rule)(x)

    kind = type(rule).__name__
    match = rf"a rule by jax\.{kind} in it would be lost\. Call the func"
    with pytest.raises(OpError, match=match):
        call_jax(function, x)
    assert call_jax(rule.fun, x).ty == x.ty
    assert call_jax(jax.nn.relu, x).ty == x.ty


def test_a_linear_system_is_refused_and_not_taken_for_constant() -> None:
    x = Var("x", TensorType((3, 3), "float32"))
    message = r"a rule by jax\.lax\.custom_linear_solve in it would be lost\. Solve by .*lu_factor"
    with pytest.raises(OpError, match=message):
        call_jax(jnp.linalg.inv, x)
    solved = call_jax(lambda a: jax.scipy.linalg.lu_solve(jax.scipy.linalg.lu_factor(a), a), x)
    assert solved.ty == x.ty


@pytest.mark.skipif(jax.__version_info__ >= (0, 11), reason="its body tells all derivatives there")
def test_a_function_of_jax_whose_second_derivative_nothing_tells_is_refused() -> None:
    x = Var("x", TensorType((3,), "float32"))
    with pytest.raises(OpError, match=r"a rule by JAX itself in it would be lost\. Read the whole"):
        call_jax(jnp.sinc, x)


@pytest.mark.parametrize("name", ["dawsn", "erfcx", "expi", "logit", "sici"])
def test_a_function_of_jax_whose_body_tells_another_derivative_is_refused(name: str) -> None:
    """That of the body of `dawsn` is NaN at 0, by the rule 1."""
    x = Var("x", TensorType((3,), "float32"))
    with pytest.raises(OpError, match=r"a rule by JAX itself in it would be lost\. Read the whole"):
        call_jax(getattr(jax.scipy.special, name), x)


BODIES_OTHERWISE: dict[str, Callable[..., Any]] = {
    "relu": jax.nn.relu,
    "relu6": jax.nn.relu6,
    "softplus": jax.nn.softplus,
    "log_sigmoid": jax.nn.log_sigmoid,
    "logaddexp": lambda x: jnp.logaddexp(x, x[::-1]) + jnp.logaddexp2(2.0, x),
    "xlogy": lambda x: jax.scipy.special.xlogy(x, 1 + x * x) + jax.scipy.special.xlogy(2.0, 3 + x),
    "xlog1py": lambda x: jax.scipy.special.xlog1py(x, jnp.abs(x[::-1])),
    "entr": lambda x: jax.scipy.special.entr(jnp.abs(x) + 0.5),
    "log1mexp": lambda x: jax.nn.log1mexp(jnp.abs(x) + 0.5),
    "det": lambda x: jnp.linalg.det(jnp.ones((4, 4)) + jnp.diag(x.astype(float))),
    "frexp": lambda x: jnp.frexp(x + 3)[0] ** 2,
    "ldexp": lambda x: jnp.ldexp(x * x, jnp.arange(4)),
}


@pytest.mark.usefixtures("quickly_compiled")
@pytest.mark.parametrize("name", BODIES_OTHERWISE)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_functions_of_jax_with_a_rule_have_its_first_and_second_derivative(
    name: str, dtype: str
) -> None:
    """Where their bodies have another one: in kinks, at ties, and for singular matrices."""
    function = BODIES_OTHERWISE[name]
    x = jnp.asarray([0.0, 1.0, -2.0, 0.0], dtype)

    def loss(x: jax.Array) -> jax.Array:
        return jnp.sum(function(x), dtype=jnp.float32)

    builder = BlockBuilder()
    param = Var("x", TensorType((4,), dtype))
    with builder.function("main", [param]):
        builder.emit_func_output(builder.emit(call_jax(loss, param)))
    adjoint = Gradient("main")(builder.get())
    close = {"rtol": 1e-5, "atol": 1e-5} if dtype == "float32" else {"rtol": 0.05, "atol": 0.05}
    _, (gradient,) = jax.jit(to_jax(adjoint, "main_adjoint"))(x)
    chex.assert_trees_all_close(gradient, jax.jit(jax.grad(loss))(x), **close)
    twice = Gradient("main_adjoint", target_index=1, cotangent=True)(adjoint)
    direction = jnp.asarray([1.0, 2.0, 3.0, 4.0], dtype)
    _, (second,) = jax.jit(to_jax(twice, "main_adjoint_adjoint"))(x, (direction,))
    expected = jax.jit(jax.grad(lambda x: jnp.sum(jax.grad(loss)(x) * direction)))(x)
    chex.assert_trees_all_close(second, expected, **close)


def test_functions_of_jax_with_a_rule_print_as_operators_that_parse() -> None:
    x = Var("x", TensorType((3,), "float32"))
    builder = BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(call_jax(jax.nn.softplus, x)))
    module = builder.get()
    assert 'L.logaddexp(x, R.const(0.0, "float32"), dtype="float32")' in module.script()
    assert_structural_equal(from_source(module.script()), module)
