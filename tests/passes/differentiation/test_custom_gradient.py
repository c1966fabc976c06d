"""Derivatives by rules of the user's own, and what is wrong with rules that do not fit."""

import re
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from parsing import parse_functions

from relaxjax import BlockBuilder, IRModule, TensorType, from_source, to_jax
from relaxjax.ir import Expr, ExternFunc, SymbolicVar, Var, assert_structural_equal, well_formed
from relaxjax.ir.op import ZERO_GRADIENT, get_op
from relaxjax.ops.jax_functions import call_jax
from relaxjax.passes import CustomGradient, DeadCodeElimination, Gradient, GradientError, Jvp
from relaxjax.testing import GradientCheckError, check_gradients

MODULE = parse_functions("""
@R.function
def clipped(x: R.Tensor(("n",), "float32"), k: R.Tensor((), "int32"), s: R.Tensor((), "float32")):
    n = T.int64()
    y = R.multiply(R.round(x), s)
    return y

@R.function
def clipped_backward(
    x: R.Tensor(("n",), "float32"),
    k: R.Tensor((), "int32"),
    s: R.Tensor((), "float32"),
    g: R.Tensor(("n",), "float32"),
):
    n = T.int64()
    dx = R.multiply(g, s)
    ds = R.sum(R.multiply(g, R.round(x)))
    return (dx, ds)

@R.function
def clipped_jvp(
    x: R.Tensor(("n",), "float32"),
    k: R.Tensor((), "int32"),
    s: R.Tensor((), "float32"),
    dx: R.Tensor(("n",), "float32"),
    ds: R.Tensor((), "float32"),
):
    n = T.int64()
    y = Module.clipped(x, k, s)
    t = R.add(R.multiply(dx, s), R.multiply(R.round(x), ds))
    return (y, t)

@R.function
def main(x: R.Tensor((3,), "float32"), k: R.Tensor((), "int32"), s: R.Tensor((), "float32")):
    y = Module.clipped(R.exp(x), k, s)
    loss = R.sum(y)
    return loss
""")
X, K, S = jnp.asarray([0.1, 0.7, 1.3], jnp.float32), jnp.asarray(1), jnp.asarray(2.0)


def test_a_function_with_a_gradient_of_its_own() -> None:
    """A straight-through estimator: the gradient of rounding is zero without it."""
    module = CustomGradient("clipped", gradient="clipped_backward")(MODULE)
    assert "custom_gradient" in module["clipped"].script()
    assert_structural_equal(from_source(module.script()), module)
    adjoint = Gradient("main", require_grads=["x", "s"])(module)
    well_formed(adjoint)
    _, (dx, ds) = to_jax(adjoint, "main_adjoint")(X, K, S)
    np.testing.assert_allclose(dx, 2 * jnp.exp(X), rtol=1e-6)
    np.testing.assert_allclose(ds, jnp.sum(jnp.round(jnp.exp(X))), rtol=1e-6)
    only_s = Gradient("main", require_grads="s")(module)
    np.testing.assert_allclose(to_jax(only_s, "main_adjoint")(X, K, S)[1][0], ds)


def test_what_a_rule_gives_for_integers_is_not_their_gradient() -> None:
    """It is zeros, also for those within a tuple, however often the function is called."""
    module = parse_functions("""
    @R.function(private=True)
    def rule(
        p: R.Tuple(R.Tensor((2,), "float32"), R.Tensor((2,), "int32")),
        g: R.Tensor((2,), "float32"),
    ):
        return ((g, R.const([1, 2], "int32")),)

    @R.function(private=True)
    def first(
        p: R.Tuple(R.Tensor((2,), "float32"), R.Tensor((2,), "int32")),
    ) -> R.Tensor((2,), "float32"):
        R.func_attr({"custom_gradient": "rule"})
        x = p[0]
        return x

    @R.function
    def main(p: R.Tuple(R.Tensor((2,), "float32"), R.Tensor((2,), "int32"))):
        loss = R.sum(R.add(Module.first(p), Module.first(p)))
        return loss
""")
    adjoint = Gradient("main")(module)
    well_formed(adjoint)
    arg = jnp.ones(2), jnp.ones(2, jnp.int32)
    ((dx, di),) = to_jax(adjoint, "main_adjoint")(arg)[1]
    np.testing.assert_array_equal(dx, [2.0, 2.0])
    np.testing.assert_array_equal(di, [0, 0])
    assert di.dtype == jnp.int32


def test_a_function_with_a_tangent_of_its_own() -> None:
    module = CustomGradient("clipped", jvp="clipped_jvp")(MODULE)
    pushed = Jvp("main", wrt="x")(module)
    well_formed(pushed)
    _, tangent = to_jax(pushed, "main_jvp")(X, K, S, jnp.ones(3))
    np.testing.assert_allclose(tangent, jnp.sum(2 * jnp.exp(X)), rtol=1e-6)


def test_rules_that_do_not_belong_together_are_found_by_the_check() -> None:
    """Each of them disagrees with finite differences here, which see the rounding."""
    module = CustomGradient("clipped", "clipped_backward", "clipped_jvp")(MODULE)
    with pytest.raises(GradientCheckError, match="the gradient of `main` is not what finite diff"):
        check_gradients(module)


def _smooth(g: Expr, y: Expr, x: Expr) -> Expr:
    return g * y


def test_an_operator_declared_elsewhere() -> None:
    module = CustomGradient("relax.round", gradient=_smooth, jvp=ZERO_GRADIENT)(MODULE)
    assert module["clipped"] is not MODULE["clipped"]
    _, (dx,) = to_jax(Gradient("main", "x")(module), "main_adjoint")(X, K, S)
    np.testing.assert_allclose(dx, 2 * jnp.round(jnp.exp(X)) * jnp.exp(X), rtol=1e-6)
    _, (plain,) = to_jax(Gradient("main", "x")(MODULE), "main_adjoint")(X, K, S)
    assert not plain.any()
    assert CustomGradient("relax.erf", gradient=_smooth)(MODULE) is MODULE


def test_the_body_of_a_function_with_its_own_derivative_is_not_differentiated() -> None:
    module = CustomGradient("clipped", "clipped_backward", "clipped_jvp")(MODULE)
    message = "`clipped` has a derivative of its own, `clipped_{}`, which holds where it is called"
    with pytest.raises(GradientError, match=message.format("backward")):
        Gradient("clipped", cotangent=True)(module)
    with pytest.raises(GradientError, match=message.format("jvp")):
        Jvp("clipped")(module)


@pytest.mark.parametrize(
    ("name", "rules", "message"),
    [
        ("clipped", {}, "`CustomGradient` of `clipped` needs a `gradient`, a `jvp`, or both"),
        (
            "relax.round",
            {"gradient": "f"},
            "of the operator relax.round must be a Python function or ZERO_GRADIENT, found 'f'",
        ),
        (
            "clipped",
            {"jvp": 3},
            "must be the name of a function of the module, or a function in JAX, found 3",
        ),
        (
            "clipped",
            {"gradient": "clipped_jvp"},
            "the gradient `clipped_jvp` of `clipped` must take 4 parameters, found 5",
        ),
        (
            "clipped",
            {"jvp": "wrong"},
            'the parameter `d` must take R.Tensor((n,), dtype="float32"), found R.Tensor((2, 2), ',
        ),
        (
            "main",
            {"gradient": "wrong_result"},
            "the gradient `wrong_result` of `main` must return R.Tuple(",
        ),
    ],
)
def test_rules_that_do_not_fit(name: str, rules: dict[str, Any], message: str) -> None:
    with pytest.raises(GradientError, match=re.escape(message)):
        CustomGradient(name, **rules)(_with_wrong_rules())


def _with_wrong_rules() -> IRModule:
    return MODULE.with_functions(
        parse_functions("""
@R.function
def wrong(
    x: R.Tensor(("n",), "float32"),
    k: R.Tensor((), "int32"),
    s: R.Tensor((), "float32"),
    d: R.Tensor((2, 2), "float32"),
    e: R.Tensor((), "float32"),
):
    n = T.int64()
    return (x, x)

@R.function
def wrong_result(
    x: R.Tensor((3,), "float32"),
    k: R.Tensor((), "int32"),
    s: R.Tensor((), "float32"),
    g: R.Tensor((), "float32"),
):
    return (x, x, x)
""").relax_functions()
    )


@pytest.mark.parametrize("kind", ["gradient", "jvp"])
def test_a_rule_of_an_operator_takes_what_it_is_called_with(kind: str) -> None:
    message = (
        rf"relax\.round: its `{kind}` is called with .*, the result and `x`, but it takes \(\)"
    )
    rules: dict[str, Any] = {kind: lambda: None}
    with pytest.raises(TypeError, match=message):
        CustomGradient("relax.round", **rules)(IRModule())


def test_what_is_no_relax_function() -> None:
    module = MODULE.with_function("outside", ExternFunc("outside"))
    match = "`outside` is no Relax function: only those take rules"
    with pytest.raises(GradientError, match=match):
        CustomGradient("outside", gradient="main")(module)
    message = "`outside` is no Relax function: it cannot be the gradient of `main`"
    with pytest.raises(GradientError, match=message):
        CustomGradient("main", gradient="outside")(module)


def doubled(x: Any, k: Any, g: Any) -> Any:
    """Twice the true gradient, so that it is seen which one is taken."""
    return 2 * jnp.exp(x) * g


def doubled_tangent(x: Any, k: Any, t: Any) -> Any:
    return jnp.exp(x), 2 * jnp.exp(x) * t


@pytest.fixture
def called() -> IRModule:
    """A function of the module that does what a function in JAX does."""
    builder = BlockBuilder()
    n = SymbolicVar("n")
    x, k = Var("x", TensorType((n,), "float32")), Var("k", TensorType((), "int32"))
    with builder.function("swish", [x, k], private=True):
        builder.emit_func_output(builder.emit(call_jax(lambda x: jnp.exp(x), x)))
    x, k = Var("x", TensorType((3,), "float32")), Var("k", TensorType((), "int32"))
    with builder.function("main", [x, k]):
        y = builder.emit(builder.get().get_global_var("swish")(x, k))
        builder.emit_func_output(builder.emit(get_op("relax.sum")(y * y)))
    return builder.get()


def test_rules_in_jax_for_a_function_in_jax(called: IRModule) -> None:
    module = CustomGradient("swish", gradient=doubled, jvp=doubled_tangent)(called)
    assert_structural_equal(from_source(module.script()), module)
    assert {"swish_gradient", "swish_jvp"} <= set(module)
    adjoint, pushed = Gradient("main", "x")(module), Jvp("main", wrt="x")(module)
    well_formed(adjoint)
    _, (gradient,) = to_jax(adjoint, "main_adjoint")(X, K)
    np.testing.assert_allclose(gradient, 4 * jnp.exp(2 * X), rtol=1e-6)
    _, tangent = to_jax(pushed, "main_jvp")(X, K, jnp.ones(3))
    np.testing.assert_allclose(tangent, jnp.sum(4 * jnp.exp(2 * X)), rtol=1e-6)


def test_one_rule_after_the_other(called: IRModule) -> None:
    """They are compared when the second comes."""
    module = CustomGradient("swish", gradient=doubled)(called)
    assert "swish_gradient" in CustomGradient("swish", jvp=doubled_tangent)(module)
    message = (
        "the gradient `swish_gradient` and the jvp `swish_jvp` of `swish` do not belong together: "
        "for a cotangent u and a tangent v, <u, Jv> is "
    )
    with pytest.raises(GradientError, match=message):
        CustomGradient("swish", jvp=lambda x, k, t: (jnp.exp(x), jnp.exp(x) * t))(module)
    message = "the jvp `swish_jvp` of `swish` gives another result than it: found "
    with pytest.raises(GradientError, match=message):
        CustomGradient("swish", jvp=lambda x, k, t: (x, 2 * jnp.exp(x) * t))(module)
    unchecked = CustomGradient("swish", jvp=lambda x, k, t: (x, t), check=False)(module)
    assert "swish_jvp" in unchecked


def test_rules_of_an_operator_are_compared_where_it_is_called() -> None:
    def tangent(tangents: Any, y: Expr, x: Expr) -> Any:
        return tangents[0] * y

    def other(tangents: Any, y: Expr, x: Expr) -> Any:
        return tangents[0] * y * 2.0

    assert "main" in CustomGradient("relax.round", gradient=_smooth, jvp=tangent)(MODULE)
    message = r"the gradient and the jvp of relax.round in `R.round\(x\)` do not belong together"
    with pytest.raises(GradientError, match=message):
        CustomGradient("relax.round", gradient=_smooth, jvp=other)(MODULE)
    assert "main" in CustomGradient("relax.round", _smooth, other, check=False)(MODULE)


def test_a_private_function_that_is_a_derivative_is_in_use(called: IRModule) -> None:
    module = CustomGradient("swish", gradient=doubled, jvp=doubled_tangent)(called)
    assert DeadCodeElimination()(module) is module
    assert "swish_gradient" not in DeadCodeElimination(["main"])(
        module.with_function("swish", called["swish"])
    )
