"""Programs of JAX read into IR, which must compute the same, print, and parse back."""

import os
from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import export, lax
from jax.experimental import checkify
from jax_reading import abstract, read_function, read_module

import relaxjax
from relaxjax import Call, Constant, Function, TensorType, TupleType, from_source, to_jax
from relaxjax.ir import Op, SymbolicVar, assert_structural_equal
from relaxjax.ir.walk import post_order
from relaxjax.ops.lax import UnsupportedPrimitiveError

X = np.random.default_rng(0).normal(size=(4, 3)).astype("float32")
W = np.random.default_rng(1).normal(size=(3, 5)).astype("float32")
INDICES = np.array([2, 0, 1], "int32")
SQUARE = X.T @ X + 2 * np.eye(3, dtype="float32")


@jax.custom_vjp
def _doubled(x: Any) -> Any:
    return x * 2


_doubled.defvjp(lambda x: (x * 2, None), lambda _, g: (g * 2,))

FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "softmax": (jax.nn.softmax, (X,)),
    "log_softmax": (jax.nn.log_softmax, (X,)),
    "gelu": (jax.nn.gelu, (X,)),
    "relu": (jax.nn.relu, (X,)),
    "silu": (jax.nn.silu, (X,)),
    "softplus": (jax.nn.softplus, (X,)),
    "logsumexp": (lambda x: jax.nn.logsumexp(x, axis=1), (X,)),
    "one_hot": (lambda i: jax.nn.one_hot(i, 4, dtype="float32"), (INDICES,)),
    "matmul": (jnp.matmul, (X, W)),
    "einsum": (lambda x, w: jnp.einsum("ij,jk->ki", x, w), (X, W)),
    "attention": (
        lambda q: jax.nn.dot_product_attention(q, q, q, is_causal=True),
        (X.reshape(1, 2, 2, 3),),
    ),
    "convolution": (
        lambda x: lax.conv_general_dilated(x, x, (1, 1), "SAME", rhs_dilation=(2, 1)),
        (X.reshape(1, 1, 4, 3),),
    ),
    "max pooling": (
        lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (1, 1), "VALID"),
        (X,),
    ),
    "gradient of max pooling": (
        jax.grad(lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (2, 2), "SAME").sum()),
        (X,),
    ),
    "mean and variance": (lambda x: (jnp.mean(x, 0), jnp.var(x, 1)), (X,)),
    "take": (lambda x, i: jnp.take(x, i, axis=0), (X, INDICES)),
    "gather at the borders": (lambda x, i: x.at[i].get(mode="clip"), (X, INDICES + 2)),
    "scatter": (lambda x, i: x.at[i].set(0.0), (X, INDICES)),
    "scatter-add": (lambda x, i: x.at[i].add(1.0), (X, INDICES)),
    "scatter-multiply": (lambda x, i: x.at[i].multiply(2.0), (X, INDICES)),
    "scatter-max": (lambda x, i: x.at[i].max(0.5), (X, INDICES)),
    "sort": (lambda x: jnp.sort(x, axis=0)[::-1], (X,)),
    "argsort": (lambda x: jnp.argsort(x, axis=1), (X,)),
    "top_k": (lambda x: lax.top_k(x, 2), (X,)),
    "argmax": (lambda x: jnp.argmax(x, axis=1), (X,)),
    "cumsum": (lambda x: jnp.cumsum(x, axis=0), (X,)),
    "where": (lambda x: jnp.where(x > 0, x, -x), (X,)),
    "logic": (lambda x: jnp.logical_not((x > 0) & (x < 1) | (x == 2)), (X,)),
    "cast": (lambda x: x.astype("bfloat16").astype("int32"), (X,)),
    "bits": (lambda i: (i << 1) ^ (i & 1) | ~i, (INDICES,)),
    "pad": (lambda x: lax.pad(x, 0.0, ((1, 0, 1), (0, -1, 0))), (X,)),
    "dynamic slice": (lambda x: lax.dynamic_slice(x, (1, 0), (2, 2)), (X,)),
    "split and stack": (lambda x: jnp.stack(jnp.split(x, 2)), (X,)),
    "fft": (lambda x: jnp.fft.fft(x).real, (X,)),
    "complex": (lambda x: jnp.abs(lax.complex(x, x)), (X,)),
    "searchsorted": (lambda x: jnp.searchsorted(jnp.sort(x), x), (X[:, 0],)),
    "solve": (jnp.linalg.solve, (SQUARE, X[0])),
    "cholesky": (jnp.linalg.cholesky, (SQUARE,)),
    "eigh": (lambda x: jnp.linalg.eigh(x)[0], (SQUARE,)),
    "svd": (lambda x: jnp.linalg.svd(x, compute_uv=False), (X,)),
    "qr": (lambda x: jnp.abs(jnp.linalg.qr(x)[1]), (X,)),
    "determinant": (jnp.linalg.det, (SQUARE,)),
    "checkpoint": (jax.checkpoint(lambda x: jnp.sin(jnp.cos(x))), (X,)),
    "nested jit": (jax.jit(lambda x: jax.jit(jnp.tanh)(x) * 2), (X,)),
    "custom vjp": (lambda x: _doubled(x) + 1, (X,)),
    "gradient": (jax.grad(lambda x: (jax.nn.gelu(x) @ x.T).sum()), (X,)),
    "vmap": (jax.vmap(lambda x: jnp.dot(x, x)), (X,)),
    "constant tensor": (lambda x: x + np.arange(12, dtype="float32").reshape(4, 3), (X,)),
    "several results": (lambda x: {"a": x, "b": (x * 2, jnp.sum(x))}, (X,)),
    "no arguments": (lambda: jnp.arange(3), ()),
    "optimization barrier": (lambda x: lax.optimization_barrier((x, x * 2)), (X,)),
    "scan": (lambda x: lax.scan(lambda c, y: (c + y, c * 2), x[0], x), (X,)),
    "scan backwards": (
        lambda x, w: lax.scan(lambda c, y: (c @ w[:, :3], c), x[0], x, reverse=True),
        (X, W),
    ),
    "gradient of scan": (
        jax.grad(lambda x: lax.scan(lambda c, y: (jnp.sin(c) * y, None), x[0], x)[0].sum()),
        (X,),
    ),
    "fori_loop": (lambda x: lax.fori_loop(0, 3, lambda i, c: c * x + i, x), (X,)),
    "while_loop": (lambda x: lax.while_loop(lambda c: c.sum() < 99, lambda c: c + 1, x), (X,)),
    "reduce": (
        lambda x: lax.reduce(
            (x, x * 2), (x[0, 0], x[0, 1]), lambda a, b: (a[0] + b[0], a[1] * b[1]), (1,)
        ),
        (X,),
    ),
    "cond": (lambda x: lax.cond(x.sum() > 0, jnp.sin, lambda y: y * x, x), (X,)),
    "switch": (lambda x, i: lax.switch(i[0], [jnp.sin, jnp.cos, jnp.exp], x), (X, INDICES)),
    "by platform": (lambda x: lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos), (X,)),
    "normal": (lambda key: jax.random.normal(jax.random.split(key)[0], (3,)), (jax.random.key(1),)),
    "fold_in": (lambda key: jax.random.uniform(jax.random.fold_in(key, 3)), (jax.random.key(1),)),
    "own key": (lambda x: x + jax.random.uniform(jax.random.key(3), x.shape), (X,)),
    "old key": (lambda: jax.random.bernoulli(jax.random.PRNGKey(3), 0.5, (4,)), ()),
    "rbg": (lambda: jax.random.bits(jax.random.key(3, impl="rbg"), (2,)), ()),
    "dropout": (
        lambda x, key: jnp.where(jax.random.bernoulli(key, 0.5, x.shape), x / 0.5, 0.0),
        (X, jax.random.key(0)),
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_read_into_ir_computes_the_same(name: str) -> None:
    """And its text parses back to the same program."""
    function, args = FUNCTIONS[name]
    module = read_module(function, *args)
    expected = jax.tree.leaves(jax.jit(function)(*args))
    found = jax.tree.leaves(jax.jit(to_jax(module, "main"))(*args))
    chex.assert_trees_all_equal_dtypes(found, expected)
    chex.assert_trees_all_close(found, expected, rtol=1e-5, atol=1e-5)
    assert_structural_equal(from_source(module.script()), module)


def _transformer(params: Any, x: Any) -> Any:
    h = jax.nn.standardize(x) @ params["embed"]
    scores = jax.nn.softmax(h @ h.T / np.float32(2.0))
    return jnp.sum(jax.nn.gelu(scores @ h @ params["out"]))


def test_a_model_and_its_gradient() -> None:
    params = {"embed": W[:, :4], "out": W[:, 2:4].reshape(2, 3).T[:, :2].repeat(2, 0)[:4]}
    leaves, tree = jax.tree.flatten(params)

    def step(x: Any, *flat: Any) -> Any:
        return jax.value_and_grad(_transformer)(jax.tree.unflatten(tree, flat), x)

    run = jax.jit(to_jax(read_module(step, X, *leaves), "main"))
    expected = jax.tree.leaves(jax.jit(step)(X, *leaves))
    chex.assert_trees_all_close(run(X, *leaves), tuple(expected), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "optimizer",
    [
        optax.sgd(0.1, momentum=0.9, nesterov=True),
        optax.adamw(1e-3),
        optax.chain(optax.clip_by_global_norm(1.0), optax.adam(optax.cosine_decay_schedule(1, 9))),
        optax.lion(1e-3),
        optax.contrib.muon(1e-3),
    ],
    ids=["sgd", "adamw", "clipped", "lion", "muon"],
)
def test_an_optimizer_of_optax(optimizer: Any) -> None:
    params = {"w": jnp.asarray(X), "b": jnp.asarray(W[0])}
    inputs = (params, optimizer.init(params), params)
    leaves, tree = jax.tree.flatten(inputs)

    def update(*flat: Any) -> Any:
        return jax.tree.leaves(optimizer.update(*jax.tree.unflatten(tree, flat)))

    # Optax itself mixes integers and floats.
    with jax.numpy_dtype_promotion("standard"):
        expected = jax.jit(update)(*leaves)
        module = read_module(update, *leaves)
    found = jax.jit(to_jax(module, "main"))(*leaves)
    chex.assert_trees_all_close(list(found), expected, rtol=1e-4, atol=1e-6)


def test_dimensions_stay_symbolic() -> None:
    """One program for every batch, in terms of one symbol, even where its size is a value."""
    (b,) = export.symbolic_shape("b")

    def centred(x: Any) -> Any:
        return jnp.reshape(x - jnp.mean(x, 0, keepdims=True) + x.shape[0], (-1,))

    module = read_module(centred, *abstract((b, 3)))
    (param,), ret = module["main"].params, module["main"].ret_ty
    symbol = param.ty.dims[0]
    assert isinstance(symbol, SymbolicVar)
    assert ret == TensorType((symbol * 3,), "float32")
    assert "L.dim_as_value(dim=b" in module.script()
    for size in (1, 4):
        x = np.resize(X, (size, 3))
        chex.assert_trees_all_close(to_jax(module, "main")(x), centred(x), rtol=1e-5)
    assert_structural_equal(from_source(module.script()), module)


def test_a_scan_over_a_symbolic_length() -> None:
    (b,) = export.symbolic_shape("b")

    def total(x: Any) -> Any:
        return lax.scan(lambda c, y: (c + y, c), jnp.zeros(x.shape[1:], x.dtype), x)

    module = read_module(total, *abstract((b, 3)))
    chex.assert_trees_all_close(to_jax(module, "main")(X), total(X), rtol=1e-6)


def test_bindings_come_from_the_users_lines() -> None:
    function = read_function(lambda x: jnp.sin(x) + 1, X)
    spans = [binding.span for binding in function.body.bindings()]
    assert all(span is not None and os.path.samefile(span.file, __file__) for span in spans)
    assert spans[0] is not None
    assert "jnp.sin(x) + 1" in spans[0].source_line()


def test_bindings_without_lines() -> None:
    function = read_function(jnp.sin, X, spans=False)
    assert [binding.span for binding in function.body.bindings()] == [None, None]


def test_what_no_result_needs_is_left_out() -> None:
    """Through calls of other functions too: only the cosine is wanted of `both`."""
    both = jax.jit(lambda x, y: (jnp.sin(x), jnp.cos(y)))
    function = read_function(lambda x: both(jnp.exp(x), x)[1], X)
    assert _operators(function) == ["lax.cos"]


def test_a_loop_gives_what_is_used_of_it_only() -> None:
    """What it carries for that stays: here the first sum, which the second is made of."""

    def function(x: Any, unused: Any) -> Any:
        def step(carry: Any, row: Any) -> Any:
            one, two, other, _ = carry
            carry = one + row[0], two + one, other * row[1], jnp.sin(row[0])
            return carry, (one, jnp.exp(other), two)

        start = (x[0], x[1], x[2], x[3])
        (_, _, _, last), (_, _, twos) = lax.scan(step, start, (x, unused))
        return last, twos

    module = read_module(function, X, X)
    bodies = [value for value in post_order(module["main"]) if isinstance(value, Function)]
    (body,) = (one for one in bodies if one is not module["main"])
    assert len(body.params) == 4  # both sums, the last sine, which nothing reads, and a row
    assert isinstance(body.ret_ty, TupleType)
    assert len(body.ret_ty.fields) == 4
    assert "L.exp" not in module.script()
    chex.assert_trees_all_close(to_jax(module, "main")(X, X), function(X, X), rtol=1e-6)


def test_conversions_to_the_same_dtype_are_left_out() -> None:
    """JAX writes them to say that a type is no longer weak; types are never weak here."""
    assert _operators(read_function(lambda x: jnp.asarray(x, "float32") * 2, 1.0)) == ["lax.mul"]


def test_names_follow_the_hint() -> None:
    function = read_function(lambda x: jnp.exp(jnp.sin(x)), X, hint=lambda name: f"y_{name}")
    assert [b.var.name for b in function.body.bindings()] == ["y_sin", "y_exp", "gv"]


def test_a_platform_decides() -> None:
    def function(x: Any) -> Any:
        return lax.platform_dependent(x, cpu=jnp.sin, cuda=jnp.cos, default=jnp.tan)

    def chosen(platform: str | None) -> list[str]:
        return _operators(read_function(function, X, platform=platform))

    assert [chosen("cpu"), chosen("cuda"), chosen("tpu")] == [["lax.sin"], ["lax.cos"], ["lax.tan"]]
    assert chosen(None) == ["lax.platform_dependent"]


def test_results_of_one_equation_form_a_tuple() -> None:
    function = read_function(lambda x: lax.top_k(x, 2)[1], X)
    first = next(iter(function.body.bindings()))
    assert first.var.ty == TupleType((TensorType((4, 2), "float32"), TensorType((4, 2), "int32")))


def test_a_constant_is_kept_once() -> None:
    table = np.arange(30, dtype="float32")
    function = read_function(lambda i: (jnp.take(table, i), jnp.asarray(table)[i]), INDICES)
    constants = {
        id(e.data) for e in post_order(function) if isinstance(e, Constant) and e.data.ndim
    }
    assert len(constants) == 1


def test_a_key_from_around_a_function_with_a_rule_is_a_constant() -> None:
    key = jax.random.key(3)

    @jax.custom_vjp
    def noisy(x: Any) -> Any:
        return x * jax.random.normal(key, x.shape)

    noisy.defvjp(lambda x: (noisy(x), None), lambda _, g: (noisy(g),))
    gradient = relaxjax.grad(lambda x: jnp.sum(noisy(x)))
    chex.assert_trees_all_equal(jax.jit(gradient)(X), jax.random.normal(key, X.shape))


def test_side_effects_are_refused() -> None:
    def function(x: Any) -> Any:
        jax.debug.print("{}", x)
        return x

    message = r"has side effects .* hold\. relaxjax\.value_and_grad prints what stands in a loss"
    with pytest.raises(UnsupportedPrimitiveError, match=message) as caught:
        read_function(function, X)
    assert 'jax.debug.print("{}", x)' in "".join(caught.value.__notes__)


def test_parameters_without_a_written_form_are_refused() -> None:
    def function(x: Any) -> Any:
        return jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    message = "`pure_callback` has no form in the IR: its parameter `callback` is of type .* an arg"
    with pytest.raises(UnsupportedPrimitiveError, match=message):
        read_function(function, X)


def test_programs_of_several_devices_are_refused() -> None:
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("i",))
    rows = jax.sharding.PartitionSpec("i")
    mapped = jax.shard_map(jnp.sin, mesh=mesh, in_specs=rows, out_specs=rows)
    message = "its parameter `mesh` is of type Mesh.*Take the gradient inside the function that"
    with pytest.raises(UnsupportedPrimitiveError, match=message):
        read_function(mapped, X)


def test_what_is_put_on_a_device_is_refused() -> None:
    message = "its parameter `devices` is of type .*Put arrays on devices outside of what is read"
    with pytest.raises(UnsupportedPrimitiveError, match=message):
        read_function(lambda x: jax.device_put(x, jax.devices()[0]), X)


HELD = jax.new_ref(jnp.zeros(3))


_with_a_rule_for_vmap = jax.custom_batching.custom_vmap(jnp.sin)
_with_a_rule_for_vmap.def_vmap(lambda size, batched, x: (jnp.sin(x), batched[0]))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x + HELD[...].sum(), r"a reference from around, Ref.*as an argument, and"),
        (lambda x: jax.new_ref(x)[...], r"\(InternalMutableArrayEffect\).*`x.at\[places\].set"),
        (
            lambda x: checkify.check(x[0, 0] > 0, "no"),
            r"\(ErrorEffect\).*checkify\(loss\), and ret",
        ),
        (_with_a_rule_for_vmap, "rule is for what jax.vmap maps: take the grad"),
    ],
)
def test_what_has_no_form_here_is_refused_with_what_to_do(function: Any, message: str) -> None:
    with pytest.raises(UnsupportedPrimitiveError, match=message):
        read_function(function, X)


def test_a_reference_from_around_a_loss_is_refused_with_what_to_do() -> None:
    """Where what is around becomes an argument, and where it is one."""

    def loss(x: Any, held: Any = HELD) -> Any:
        held[...] += lax.stop_gradient(x[0])
        return x.sum()

    message = r"`get` .*\(ReadEffect\).*Hand in what it holds as an argument"
    for given in ((X,), (X, HELD)):
        with pytest.raises(UnsupportedPrimitiveError, match=message):
            relaxjax.grad(loss)(*given)


def test_a_rule_of_less_memory_is_read_as_its_forward_half() -> None:
    doubled = jax.custom_vjp(lambda x: 2 * x)
    doubled.defvjp(lambda x: (2 * x, x), lambda x, g: (2 * x * g,), optimize_remat=True)

    def function(x: Any) -> Any:
        value, pull = jax.vjp(doubled, x)
        return value, *pull(x)

    module = read_module(function, X)
    chex.assert_trees_all_close(to_jax(module, "main")(X), function(X))


def test_functions_of_what_is_at_some_places_are_refused() -> None:
    """They were taken for the zeros that JAX writes with them."""
    message = r"`scatter` has no form in the IR: .*: write `x.at\[places\].set\(f\(x\[places\]\)\)`"
    with pytest.raises(UnsupportedPrimitiveError, match=message):
        read_function(lambda x: x.at[0].apply(jnp.sin), X)


def _operators(function: Function) -> list[str]:
    return [
        binding.value.op.name
        for binding in function.body.bindings()
        if isinstance(binding.value, Call) and isinstance(binding.value.op, Op)
    ]
