"""Gradients of the dialect's operators: the primitives' own pullbacks, as programs of IR."""

from collections.abc import Callable
from functools import partial
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export, lax
from jax_reading import abstract, read_function, read_module

import relaxjax
from relaxjax import IRModule, SeqExpr, TensorType, TupleType, to_jax
from relaxjax.ir import Call, Expr, SymbolicVar, Tuple, Var, const
from relaxjax.ir.builder import BlockBuilder, make_function
from relaxjax.ir.op import OPS, Op, get_op
from relaxjax.ops import OpError
from relaxjax.ops.lax import lax_op
from relaxjax.ops.lax.gradient import gradient_of, gradient_of_joined
from relaxjax.ops.lax.operator import declare
from relaxjax.passes import BindSymbolicVars, Gradient

X = np.random.default_rng(0).uniform(0.5, 2.0, size=(4, 3)).astype("float32")
W = np.random.default_rng(1).normal(size=(3, 5)).astype("float32")
INDICES = np.array([2, 0, 1], "int32")

LOSSES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "matmul": (lambda x, w: jnp.sum(jnp.sin(x @ w)), (X, W)),
    "softmax": (lambda x: jnp.sum(jax.nn.softmax(x)[:, 0]), (X,)),
    "normalised": (lambda x: jnp.sum(jnp.square(jax.nn.standardize(x)) * X), (X,)),
    "division": (lambda x, y: jnp.sum(x / y), (X, X + 1)),
    "power": (lambda x, y: jnp.sum(x**y), (X, X)),
    "gather": (lambda x, i: jnp.sum(jnp.take(x, i, axis=0) ** 2), (X, INDICES)),
    "scatter-add": (lambda x, y, i: jnp.sum(x.at[i].add(y) ** 2), (X, X[:3], INDICES)),
    "concatenation": (
        lambda x, y: jnp.sum(jnp.concatenate([x, jnp.sin(X[:2]), y[:1], y], 0) ** 3),
        (X, X + 1),
    ),
    "convolution": (
        lambda x, w: jnp.sum(lax.conv_general_dilated(x, w, (1, 1), "SAME") ** 2),
        (X.reshape(1, 1, 4, 3), W[:2, :2].reshape(1, 1, 2, 2)),
    ),
    "pooling": (
        lambda x: jnp.sum(lax.reduce_window(x, 0.0, lax.add, (2, 2), (1, 1), "SAME") ** 2),
        (X,),
    ),
    "sort": (lambda x: jnp.sum(jnp.sort(x, axis=0) * X), (X,)),
    "cumsum": (lambda x: jnp.sum(jnp.cumsum(x, axis=1) * X), (X,)),
    "top_k": (lambda x: jnp.sum(lax.top_k(x, 2)[0]), (X,)),
    "where": (lambda x: jnp.sum(jnp.where(x > 1, x * x, x)), (X,)),
    "cholesky": (
        lambda x: jnp.sum(jnp.linalg.cholesky(x.T @ x + 3 * np.eye(3, dtype=x.dtype))),
        (X,),
    ),
    "of a gradient of a cast": (
        lambda x: jnp.sum(
            jax.grad(lambda y: jnp.sum(y.astype(jnp.float16) ** 2).astype(y.dtype))(x)
        ),
        (X,),
    ),
    "of a gradient of a padded tensor": (
        lambda x: jnp.sum(jax.grad(lambda y: jnp.sum(jnp.pad(y, 1)[1:3] ** 3))(x) ** 2),
        (X,),
    ),
    "of a gradient": (
        lambda x: jnp.sum(jax.grad(lambda y: jnp.sum(jnp.tanh(y) ** 3))(x) ** 2),
        (X,),
    ),
}


@pytest.mark.parametrize("name", LOSSES)
def test_the_adjoint_of_a_program_of_jax(name: str) -> None:
    """Read into IR and differentiated by our own pass, against `jax.grad`."""
    loss, args = LOSSES[name]
    module = read_module(loss, *args)
    smooth = [index for index, arg in enumerate(args) if arg.dtype == "float32"]
    adjoint = Gradient("main", [module["main"].params[index] for index in smooth])(module)
    found = jax.jit(to_jax(adjoint, "main_adjoint"))(*args)
    expected = jax.jit(jax.value_and_grad(loss, argnums=tuple(smooth)))(*args)
    chex.assert_trees_all_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("choose", "sign"), [(jnp.maximum, 1), (jnp.minimum, -1)])
def test_complex_numbers_are_chosen_by_their_real_parts_first(choose: Any, sign: int) -> None:
    """Equal ones have half of the slope each, as in JAX, which has none from 0.12 on."""

    def loss(x: Any, y: Any, choose: Any = choose) -> Any:
        return jnp.sum(jnp.abs(choose(x, y) * choose(y, jnp.full_like(y, 1.5)) + x) ** 2)

    def by_shares(x: Any, y: Any) -> Any:
        apart = lax.stop_gradient(sign * (x - y))
        ahead = jnp.where(apart.real == 0, apart.imag, apart.real)
        share = (jnp.sign(ahead) + 1) / 2
        return share * x + (1 - share) * y

    x = np.array([1 + 1j, 1 - 2j, 2, 1 + 1j, -2j], "complex64")
    y = np.array([1 + 2j, 1 - 3j, 3j, 1 + 1j, 3], "complex64")
    found = jax.jit(relaxjax.value_and_grad(loss, (0, 1)))(x, y)
    with jax.numpy_dtype_promotion("standard"):
        expected = jax.jit(jax.value_and_grad(partial(loss, choose=by_shares), (0, 1)))(x, y)
    chex.assert_trees_all_close(found, expected, rtol=1e-5)


def adjoints(function: Callable[..., Any], *args: Any) -> tuple[Any, ...]:
    """What the gradient rule of the last call in a function of JAX gives."""
    body = read_function(function, *args).body
    binding = [b for b in body.bindings() if isinstance(b.value, Call)][-1]
    call, var = binding.value, binding.var
    assert isinstance(call, Call)
    assert isinstance(call.op, Op)
    return pullback(call.op.name, Var("g", var.ty), var, *call.args, **call.attrs)


def pullback(name: str, *args: Any, **attrs: Any) -> tuple[Any, ...]:
    """What the gradient rule of an operator gives."""
    return given_by(get_op(name).gradient, *args, **attrs)


def given_by(rule: Any, *args: Any, **attrs: Any) -> tuple[Any, ...]:
    """All that a rule of the dialect gives if it is asked for."""
    return tuple(adjoint() for adjoint in rule(*args, **attrs))


def test_bounds_that_cross_give_the_upper_one() -> None:
    bounds = jnp.full(3, 0.8), jnp.full(3, 0.2)
    both = relaxjax.value_and_grad(lambda x, low, high: lax.clamp(low, x, high).sum(), (0, 1, 2))
    _, gradients = both(jnp.array([0.1, 0.5, 0.9]), *bounds)
    chex.assert_trees_all_equal(gradients, (jnp.zeros(3), jnp.zeros(3), jnp.ones(3)))


def test_nan_that_is_clamped_has_no_gradient() -> None:
    def seen(x: Any, low: Any, high: Any) -> Any:
        return jnp.where(x == x, lax.clamp(low, x, high) ** 2, 0.0).sum()

    args = jnp.array([jnp.nan, 0.5, 2.0]), jnp.zeros(3), jnp.ones(3)
    gradients = relaxjax.grad(seen, (0, 1, 2))(*args)
    chex.assert_trees_all_equal(gradients, jax.grad(seen, (0, 1, 2))(*args))


def test_adjoints_are_nested_calls() -> None:
    x, y = adjoints(lambda x, y: x * y, X, X)
    assert str(x) == "L.mul(g, x1)"
    assert str(y) == "L.mul(x0, g)"


def test_the_forward_value_is_not_computed_again() -> None:
    (adjoint,) = adjoints(jnp.exp, X)
    assert str(adjoint) == "L.mul(g, lv)"


SQUARE = TensorType((3, 3), "float32")


@pytest.mark.parametrize("name", ["eigh", "svd"])
def test_the_factors_of_a_matrix_are_not_computed_again(name: str) -> None:
    """JAX's rules ask for them otherwise than the functions do that everybody calls."""
    matrix = X[:3] + X[:3].T

    def loss(x: jax.Array) -> jax.Array:
        parts = [jnp.sum(jnp.abs(part) ** 3) for part in getattr(jnp.linalg, name)(x)]
        return jnp.sum(jnp.stack(parts))

    module = relaxjax.value_and_grad(loss).module(matrix)
    assert module.script().count(f"L.{name}(") == 1
    chex.assert_trees_all_close(relaxjax.grad(loss)(matrix), jax.grad(loss)(matrix), rtol=1e-4)
    result = get_op(f"relax.linalg.{name}")(Var("x", SQUARE)).ty
    g, out, x = Var("g", result), Var("out", result), Var("x", SQUARE)
    (adjoint,) = pullback(f"relax.linalg.{name}", g, out, x)
    assert f"L.{name}(" not in str(adjoint)


def test_integers_have_no_adjoint() -> None:
    adjoint = adjoints(lambda x, i: lax.dynamic_slice(x, (i[0], i[1]), (2, 2)), X, INDICES)
    assert isinstance(adjoint[0], Expr)
    assert adjoint[1:] == (None, None)


def test_constants_have_no_adjoint() -> None:
    """Nobody asks for the one of a constant padding, and tracing it would take its time."""
    adjoint = adjoints(lambda x: lax.pad(x, jnp.float32(0), [(1, 1, 0), (0, 0, 0)]), X)
    assert isinstance(adjoint[0], Expr)
    assert adjoint[1] is None


def test_what_is_used_twice_is_bound_once() -> None:
    """The adjoint of a maximum, where JAX marks the places of the largest elements."""
    (adjoint,) = adjoints(lambda x: lax.reduce_max(x, (1,)), X)
    assert isinstance(adjoint, SeqExpr)
    assert adjoint.ty == TensorType((4, 3), "float32")


def test_results_without_derivative_pass_nothing_on() -> None:
    """The values that top_k picks have adjoints, their positions do not."""
    values = TensorType((4, 2), "float32")
    positions = TensorType((4, 2), "int32")
    x, out = Var("x", TensorType((4, 3), "float32")), Var("out", TupleType((values, positions)))
    g = Var("g", TupleType((values, positions)))
    params = jax.make_jaxpr(lambda x: lax.top_k(x, 2))(X).jaxpr.eqns[0].params
    (adjoint,) = pullback("lax.top_k", g, out, x, **params)
    builder = BlockBuilder()
    with builder.scope(), builder.dataflow():
        builder.emit(adjoint)
        text = str(builder.sequence(adjoint))
    assert "g[0]" in text
    assert "g[1]" not in text


def test_symbolic_dimensions() -> None:
    (b,) = export.symbolic_shape("b")

    def loss(x: Any, w: Any) -> Any:
        return jnp.sum(jnp.tanh(x @ w)) / x.shape[0]

    module = read_module(loss, *abstract((b, 3), (3, 5)))
    run = to_jax(Gradient("main")(module), "main_adjoint")
    for size in (2, 4):
        expected = jax.value_and_grad(loss, argnums=(0, 1))(X[:size], W)
        chex.assert_trees_all_close(run(X[:size], W), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "loss",
    [
        # JAX does not know that (n - 3) // 2 + 1 is (n - 1) // 2, as the IR writes it.
        lambda x: jnp.sum(lax.reduce_window(x, 0.0, lax.add, (3, 1), (2, 1), "VALID") ** 2),
        lambda x: jnp.sum(lax.top_k(x, 2)[0] ** 2),  # beside places, which have no derivative
    ],
    ids=["windows", "the largest"],
)
def test_results_of_symbolic_sizes(loss: Callable[..., Any]) -> None:
    (b,) = export.symbolic_shape("b", constraints=["b >= 3"])
    run = to_jax(Gradient("main")(read_module(loss, *abstract((b, 3)))), "main_adjoint")
    for size in (3, 4):
        expected = jax.value_and_grad(loss, argnums=(0,))(X[:size])
        chex.assert_trees_all_close(run(X[:size]), expected, rtol=1e-6)


def test_gradients_that_jax_has_for_known_sizes_only() -> None:
    (b,) = export.symbolic_shape("b")

    def loss(x: Any) -> Any:
        return jnp.sum(jnp.prod(x, 0))

    module = read_module(loss, *abstract((b, 3)))
    message = (
        r"lax.reduce_prod: JAX has its gradient for known sizes only \(.*\): give the symbolic "
        r'dimensions their values before, as by BindSymbolicVars\({"b": 8}\)'
    )
    with pytest.raises(OpError, match=message):
        Gradient("main")(module)
    known = Gradient("main")(BindSymbolicVars({"b": 4})(module))
    expected = jax.value_and_grad(loss, argnums=(0,))(X)
    chex.assert_trees_all_close(to_jax(known, "main_adjoint")(X), expected, rtol=1e-6)


def test_a_gradient_that_jax_does_not_have() -> None:
    module = read_module(lambda x: jnp.sum(lax.zeta(x, x)), *abstract((3,)))
    message = r"lax.zeta: JAX has no gradient of it \(Diff.*\): give it arguments without a der"
    with pytest.raises(OpError, match=message):
        Gradient("main")(module)


def test_operators_that_jax_traces_with_known_sizes_only() -> None:
    x = Var("x", TensorType((1, 2, SymbolicVar("n")), "float32"))
    builder = BlockBuilder()
    with builder.function("main", [x]):
        pooled = get_op("relax.nn.adaptive_avg_pool1d")(x, (2,))
        builder.emit_func_output(builder.emit(get_op("relax.sum")(pooled)))
    message = r"relax.nn.adaptive_avg_pool1d: JAX has its gradient for known sizes only"
    with pytest.raises(OpError, match=message):
        Gradient("main")(builder.get())


def test_the_adjoint_of_one_call_alone() -> None:
    """Outside of any pass: the rule's expressions are enough to make a function of."""
    n = SymbolicVar("n")
    x, g = Var("x", TensorType((n, 3), "float32")), Var("g", TensorType((n,), "float32"))
    out = Var("out", g.ty)
    (adjoint,) = pullback("lax.reduce_sum", g, out, x, axes=(1,))
    builder = BlockBuilder()
    with builder.scope():
        body = builder.sequence(Tuple((builder.normalize_leaf(adjoint),)))
    function = make_function([x, g], body)
    (found,) = to_jax(IRModule.from_expr(function), "main")(X, X[:, 0])
    chex.assert_trees_all_close(found, np.repeat(X[:, :1], 3, axis=1))


def test_unknown_shapes_have_no_gradient() -> None:
    x = Var("x", TensorType(None, "float32", 2))
    message = r"lax.exp: the gradient needs arguments of known shape and dtype, found R.Tensor\("
    with pytest.raises(OpError, match=message + ".*: name the dimensions, as R.match_cast"):
        pullback("lax.exp", x, x, x)


def test_operators_of_relax_can_borrow_the_rule() -> None:
    """Arguments in tuples get tuples of adjoints, shapes and integers get none."""
    rule = gradient_of("relax.concat", lax_op)
    x, y = Var("x", TensorType((2, 3), "float32")), Var("y", TensorType((1, 3), "float32"))
    g = Var("g", TensorType((3, 3), "float32"))
    (adjoint,) = given_by(rule, g, Var("out", g.ty), Tuple((x, y)), axis=0)
    assert isinstance(adjoint, Tuple)
    assert [field.ty for field in adjoint.fields] == [x.ty, y.ty]
    assert str(adjoint.fields[1]) == "L.split(g, sizes=[2, 1], axis=0)[1]"


def test_a_field_without_derivative_gets_zeros() -> None:
    mixed = TupleType((TensorType((2,), "float32"), TensorType((2,), "int32")))
    pair = Var("pair", mixed)
    operator = declare("scaled_pair", "", lambda call: mixed.fields[0], lambda p: p[0] * 2)
    try:
        g = Var("g", mixed.fields[0])
        rule = gradient_of(operator.name, lax_op)
        (adjoint,) = given_by(rule, g, Var("out", g.ty), pair)
        assert isinstance(adjoint, Tuple)
        assert [field.ty for field in adjoint.fields] == list(mixed.fields)
        assert "R.zeros_like(pair[1]" in str(adjoint)
        integers = Tuple((Var("i", mixed.fields[1]),))
        (nothing,) = given_by(rule, g, Var("out", g.ty), integers)
        assert nothing is None
    finally:
        OPS.pop(operator.name)


def test_what_is_constant_gets_no_adjoint() -> None:
    """Zeros for it would be multiplied with what may be infinite before it."""
    module = read_module(lambda x: jnp.sum(x * lax.stop_gradient(jnp.sqrt(x))), X)
    adjoint = Gradient("main")(module)
    assert "zeros" not in adjoint.script()
    assert "L.div" not in adjoint.script()
    (gradient,) = to_jax(adjoint, "main_adjoint")(jnp.zeros_like(X))[1]
    chex.assert_trees_all_equal(gradient, np.zeros_like(X))


def test_the_adjoint_of_a_concatenation_is_cut_once() -> None:
    """For each of what was joined but constants, of known and of symbolic lengths."""
    n = SymbolicVar("n")
    types = [TensorType(shape, "float32") for shape in ((2, 3), (n, 3), (4, 3))]
    x, y, z = (Var(name, ty) for name, ty in zip("xyz", types, strict=True))
    call = get_op("lax.concatenate")(x, y, z, dimension=0)
    g, out = Var("g", call.ty), Var("out", call.ty)
    adjoints = gradient_of_joined(g, out, x, y, z, dimension=0)
    assert [adjoint.ty for adjoint in adjoints if adjoint is not None] == types
    assert len({id(adjoint.tuple_value) for adjoint in adjoints if adjoint is not None}) == 1  # type: ignore[attr-defined]  # parts of one tuple
    fixed = const(np.ones((4, 3), "float32"))
    assert gradient_of_joined(g, out, x, y, fixed, dimension=0)[-1] is None
    assert gradient_of_joined(g, out, x, dimension=0) == (g,)
    unknown = Var("u", TensorType(None, "float32", 2))
    with pytest.raises(OpError, match=r"lax\.concatenate: the gradient needs arguments of known"):
        gradient_of_joined(g, out, x, unknown, dimension=0)


def test_a_pullback_that_is_zero_is_none() -> None:
    """Of an operator that is only sometimes constant, such as a conversion to whole numbers."""
    x = Var("x", TensorType((3,), "float32"))
    for dtype, given in [("int32", False), ("float16", True)]:
        call = get_op("lax.convert_element_type")(x, new_dtype=dtype)
        y, g = Var("y", call.ty), Var("g", TensorType((3,), "float16"))
        rule = gradient_of("lax.convert_element_type", lax_op)
        (adjoint,) = given_by(rule, g, y, x, **call.attrs)
        assert (adjoint is not None) is given
