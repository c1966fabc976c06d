"""Running functions: every kind of binding and expression, and how it composes with JAX."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from parsing import parse_functions, parse_main

from relaxjax.ir import Call, IRModule, Op, SeqExpr, TensorType, Var
from relaxjax.ir.builder import make_function
from relaxjax.lowering import ArgumentError, LoweringError, build, to_jax
from relaxjax.passes import CanonicalizeBindings, Gradient

X = np.arange(6, dtype="float32").reshape(2, 3) + 1

MODULE = parse_functions("""
@R.function
def mlp(
    x: R.Tensor(("n", 3), "float32"), w: R.Tensor((3, 2), "float32"), b: R.Tensor((2,), "float32")
):
    with R.dataflow():
        h = R.matmul(x, w)
        s = R.add(h, b)
        y = R.nn.relu(s)
        R.output(y)
    return y

@R.function
def loss(
    x: R.Tensor(("n", 3), "float32"), w: R.Tensor((3, 2), "float32"), b: R.Tensor((2,), "float32")
):
    y = Module.mlp(x, w, b)
    total = R.sum(y)
    return total

@R.function
def tuples(x: R.Tensor((2, 3), "float32")):
    t = (x, (R.add(x, x), R.const(1.0, "float32")))
    inner = t[1]
    first = inner[0]
    return (first, t)

@R.function
def shapes(x: R.Tensor(("n", "m"), "float32")):
    n, m = T.int64(), T.int64()
    s = R.shape([n * m + 1, 2])
    ones = R.ones(s, "float32")
    return (ones, s, R.prim_value(n + m))

@R.function
def cast(x: R.Tensor(dtype="float32", ndim=2)):
    n = T.int64()
    y = R.match_cast(x, R.Tensor((n, 3), "float32"))
    z = R.broadcast_to(R.const(1.0, "float32"), R.shape([n]))
    return (y, z)

@R.function
def declared(x: R.Tensor(("n", 3), "float32")):
    n = T.int64()
    y: R.Tensor((3, n), "float32") = x
    return R.mean(y, axis=0)

@R.function
def returned(x: R.Tensor(("n", 3), "float32")) -> R.Tensor((3, "n"), "float32"):
    return x

@R.function
def caller(x: R.Tensor(("n", 3), "float32")):
    y = Module.returned(x)
    return R.mean(y, axis=0)

@R.function
def branches(c: R.Tensor((), "bool"), x: R.Tensor((2, 3), "float32")):
    if c:
        a = R.multiply(x, x)
        y = R.add(a, x)
    else:
        y = R.negative(x)
    return y

@R.function
def pairs(c: R.Tensor((), "bool"), x: R.Tensor((2, 3), "float32")):
    if c:
        p = (x, R.sum(x))
    else:
        p = (R.negative(x), R.const(0.0, "float32"))
    return p

@R.function
def chosen_shape(c: R.Tensor((), "bool")):
    if c:
        s = R.shape([1])
    else:
        s = R.shape([2])
    return s

@R.function
def closures(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
    @R.function
    def outer(a: R.Tensor((2, 3), "float32")):
        @R.function
        def inner(b: R.Tensor((2, 3), "float32")):
            c = R.multiply(b, y)
            return R.add(c, a)
        return inner
    f = outer(x)
    return f(x)

@R.function
def power(n: R.Tensor((), "int32"), x: R.Tensor((), "float32")) -> R.Tensor((), "float32"):
    c = R.greater(n, R.const(0, "int32"))
    if c:
        less = R.subtract(n, R.const(1, "int32"))
        p = Module.power(less, x)
        r = R.multiply(p, x)
    else:
        r = R.const(1.0, "float32")
    return r

@R.function
def local_power(n: R.Tensor((), "int32"), x: R.Tensor((), "float32")) -> R.Tensor((), "float32"):
    @R.function
    def go(k: R.Tensor((), "int32"), acc: R.Tensor((), "float32")) -> R.Tensor((), "float32"):
        c = R.greater(k, R.const(0, "int32"))
        if c:
            less = R.subtract(k, R.const(1, "int32"))
            more = R.multiply(acc, x)
            r = go(less, more)
        else:
            r = acc
        return r
    out = go(n, R.const(1.0, "float32"))
    return out

@R.function
def passes_function(
    x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 2), "float32"), b: R.Tensor((2,), "float32")
):
    f = Module.mlp
    return f(x, w, b)
""")

W, B = X.T * np.float32(0.5), np.array([-20.0, 1.0], "float32")


def run(name: str, *args: Any) -> Any:
    return to_jax(MODULE, name)(*args)


def test_operators_and_calls_of_functions() -> None:
    expected = np.maximum(X @ W + B, 0)
    chex.assert_trees_all_close(run("mlp", X, W, B), expected)
    chex.assert_trees_all_close(run("loss", X, W, B), expected.sum())
    chex.assert_trees_all_close(run("passes_function", X, W, B), expected)


def test_tuples() -> None:
    one = np.float32(1)
    chex.assert_trees_all_close(run("tuples", X), (X + X, (X, (X + X, one))))


def test_shapes_and_numbers_of_the_host() -> None:
    ones, shape, number = run("shapes", X)
    chex.assert_trees_all_equal(ones, np.ones((7, 2), "float32"))
    assert (shape, number) == ((7, 2), 5)


def test_match_cast_defines_dimensions() -> None:
    chex.assert_trees_all_equal(run("cast", X), (X, np.ones(2, "float32")))


def test_match_cast_checks_what_it_can() -> None:
    message = "match_cast: dimension 1 of `y` must be 3, found 2: its shape is"
    with pytest.raises(ArgumentError, match=message):
        run("cast", X.T)
    with pytest.raises(ArgumentError, match=message):
        jax.jit(to_jax(MODULE, "cast"))(X.T)


def test_a_declared_type_that_the_value_s_own_does_not_prove_is_checked() -> None:
    """By the gradient, too, which goes by the declared sizes, and where aliases have gone."""
    square = np.eye(3, dtype="float32")
    chex.assert_trees_all_close(run("declared", square), np.full(3, 1 / 3, "float32"))
    mod = Gradient("declared", cotangent=True)(MODULE)
    for tried in (mod, CanonicalizeBindings()(mod)):
        function = to_jax(tried, "declared_adjoint")
        _, (gradient,) = function(square, np.ones(3, "float32"))
        chex.assert_trees_all_close(gradient, np.full((3, 3), 1 / 3, "float32"))
        message = "declared type: dimension 0 of `y` must be 3, found 2"
        with pytest.raises(ArgumentError, match=message):
            function(X, np.ones(2, "float32"))


@pytest.mark.parametrize("name", ["returned", "caller"])
def test_a_declared_result_that_the_value_s_own_type_does_not_prove_is_checked(name: str) -> None:
    """In a function that is called, too: its caller goes by what is declared."""
    square = np.eye(3, dtype="float32")
    chex.assert_trees_all_equal(run("returned", square), square)
    chex.assert_trees_all_close(run("caller", square), np.full(3, 1 / 3, "float32"))
    message = "declared type: dimension 0 of the result of `returned` must be 3, found 2"
    for under in (lambda f: f, jax.jit):
        with pytest.raises(ArgumentError, match=message):
            under(to_jax(MODULE, name))(X)


@pytest.mark.parametrize("under", [lambda f: f, jax.jit], ids=["eagerly", "under jit"])
@pytest.mark.parametrize("condition", [True, False])
def test_branches(under: Any, condition: bool) -> None:
    expected = X * X + X if condition else -X
    found = under(to_jax(MODULE, "branches"))(jnp.asarray(condition), X)
    chex.assert_trees_all_close(found, expected)
    pair = under(to_jax(MODULE, "pairs"))(jnp.asarray(condition), X)
    chex.assert_trees_all_close(pair, (X, X.sum()) if condition else (-X, np.float32(0)))


def test_a_traced_choice_gives_tensors_only() -> None:
    assert run("chosen_shape", True) == (1,)
    message = "must give tensors, but this one gives R.Shape"
    with pytest.raises(LoweringError, match=message):
        jax.jit(to_jax(MODULE, "chosen_shape"))(True)


EITHER = parse_functions("""
@R.function
def shapes(x: R.Tensor((3,), "float32"), c: R.Tensor((), "bool")):
    if c:
        y = R.sin(x)
    else:
        y = R.sum(x)
    z = R.sum(y)
    return z

@R.function
def sizes(x: R.Tensor(("n",), "float32"), y: R.Tensor(("m",), "float32"), c: R.Tensor((), "bool")):
    if c:
        z = R.sin(x)
    else:
        z = y
    return z
""")


@pytest.mark.parametrize("condition", [True, False])
def test_a_choice_between_different_shapes_is_made_when_its_condition_is_known(
    condition: bool,
) -> None:
    x = np.array([1, 2, 3], "float32")
    run = build(Gradient("shapes")(EITHER))
    expected = (np.sin(x).sum(), np.cos(x)) if condition else (x.sum(), np.ones_like(x))
    chex.assert_trees_all_close(run["shapes"](x, condition), expected[0], rtol=1e-6)
    value, gradients = run["shapes_adjoint"](x, condition)
    chex.assert_trees_all_close((value, gradients[0]), expected, rtol=1e-6)
    types = r'R.Tensor\(\(3,\), dtype="float32"\) and R.Tensor\(\(\), dtype="float32"\): give both'
    with pytest.raises(LoweringError, match=f"one type, but its branches give {types}"):
        jax.jit(to_jax(EITHER, "shapes"))(x, condition)


def test_a_choice_between_sizes_that_may_differ() -> None:
    x, y = np.array([1, 2, 3], "float32"), np.array([4, 5], "float32")
    run = build(EITHER)["sizes"]
    assert run(x, y, False).tolist() == [4, 5]
    assert run(x, x, False).tolist() == [1, 2, 3]
    with pytest.raises(LoweringError, match="must give one type, but its branches give"):
        jax.jit(to_jax(EITHER, "sizes"))(x, y, False)


def test_a_variable_that_is_bound_nowhere() -> None:
    ty = TensorType((3,), "float32")
    x, free = Var("x", ty), Var("free", ty)
    mod = IRModule({"main": make_function([x], SeqExpr((), free))})
    match = "`main` takes the value of `free`, which is neither one of its parameters nor bound"
    with pytest.raises(LoweringError, match=match):
        build(mod)["main"](np.ones(3, "float32"))


def test_closures_see_what_is_round_them() -> None:
    chex.assert_trees_all_close(run("closures", X, X + 1), X * (X + 1) + X)


@pytest.mark.parametrize("name", ["power", "local_power"])
def test_recursion_with_a_concrete_condition(name: str) -> None:
    function = to_jax(MODULE, name)
    assert float(function(np.int32(5), 2.0)) == 32.0
    assert float(jax.grad(function, argnums=1)(np.int32(5), jnp.float32(2.0))) == 80.0


@pytest.mark.parametrize("name", ["power", "local_power"])
def test_recursion_with_a_traced_condition(name: str) -> None:
    message = "calls itself under a condition that is known only when the compiled program runs"
    with pytest.raises(LoweringError, match=message):
        jax.jit(to_jax(MODULE, name))(jnp.int32(5), jnp.float32(2.0))


def test_an_operator_without_a_lowering() -> None:
    silent = Op(name="tests.silent", params=(), infer=lambda call: TensorType((), "float32"))
    module = IRModule.from_expr(make_function([], SeqExpr((), Call(silent, ()))))
    with pytest.raises(LoweringError, match=r"the operator tests.silent has no lowering"):
        to_jax(module, "main")()


def test_an_expression_without_a_value() -> None:
    """A variable of an operator's kind is nothing that a program computes."""
    silent = Op(name="tests.silent", params=(), infer=lambda call: TensorType((), "float32"))
    module = IRModule.from_expr(make_function([], SeqExpr((), silent)))
    with pytest.raises(LoweringError, match="an expression of kind Op has no value"):
        to_jax(module, "main")()


def test_an_unknown_function() -> None:
    with pytest.raises(ValueError, match=r"the module has no function `mpl`; .*did you mean `mlp`"):
        to_jax(MODULE, "mpl")


def test_it_composes_with_jax() -> None:
    loss = to_jax(MODULE, "loss")

    def reference(x: Any, w: Any, b: Any) -> Any:
        return jnp.sum(jax.nn.relu(x @ w + b[None]))

    expected = jax.grad(reference, argnums=(0, 1, 2))(X, W, B)
    chex.assert_trees_all_close(jax.jit(jax.grad(loss, argnums=(0, 1, 2)))(X, W, B), expected)
    mapped = jax.vmap(to_jax(MODULE, "mlp"), in_axes=(0, None, None))(np.stack([X, -X]), W, B)
    chex.assert_trees_all_close(mapped[0], run("mlp", X, W, B))
    tangent = jax.jvp(lambda x: loss(x, W, B), (X,), (np.ones_like(X),))[1]
    chex.assert_trees_all_close(tangent, expected[0].sum(), rtol=1e-6)


def test_it_can_be_exported_with_a_symbolic_batch() -> None:
    (b,) = jax.export.symbolic_shape("b")
    abstract = [jax.ShapeDtypeStruct(s, "float32") for s in ((b, 3), (3, 2), (2,))]
    exported = jax.export.export(jax.jit(to_jax(MODULE, "mlp")))(*abstract)
    chex.assert_trees_all_close(exported.call(X, W, B), run("mlp", X, W, B))


def test_compiled_programs_name_the_lines_they_come_from() -> None:
    text = jax.jit(to_jax(MODULE, "loss")).lower(X, W, B).as_text(debug_info=True)
    assert "mlp.h/relax.matmul/dot_general" in text
    assert "loss.total/relax.sum/reduce_sum" in text


def test_errors_name_the_line_of_the_user() -> None:
    module = parse_main(
        "z = R.matmul(x, y)\nreturn z", x='R.Tensor(dtype="float32")', y='R.Tensor(dtype="float32")'
    )
    with pytest.raises(TypeError) as caught:
        to_jax(module, "main")(X, X)
    assert "z = R.matmul(x, y)" in "".join(caught.value.__notes__)


def test_32_bit_programs_do_not_depend_on_the_setting_of_jax() -> None:
    """With 64-bit dtypes on, JAX would sum and count in int64."""
    module = parse_main(
        's = R.sum(x, axis=0)\nm = R.mean(R.astype(x, "float32"))\nreturn (s, m)',
        x='R.Tensor((2, 3), "int32")',
    )
    x = X.astype("int32")
    expected = to_jax(module, "main")(x)
    with jax.enable_x64(True):
        chex.assert_trees_all_equal_dtypes(to_jax(module, "main")(x), expected)
