"""`value_and_grad` of losses by models of libraries on JAX, where one is installed."""

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import relaxjax

# A loss with something beside it, and its arguments.
Case: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...]]

KEY = jax.random.PRNGKey(0)
IMAGES = np.sin(np.arange(4 * 8 * 8 * 3, dtype="float32")).reshape(4, 8, 8, 3)
WORDS = np.arange(2 * 12).reshape(2, 12) * 7 % 20


def flax_convolutions() -> Case:
    """With running statistics beside the loss, and dropout by a key."""
    nn = pytest.importorskip("flax.linen")
    layers = [
        nn.Conv(8, (3, 3), use_bias=False),
        nn.BatchNorm(use_running_average=False),
        nn.relu,
        lambda x: nn.max_pool(x, (2, 2), (2, 2)).reshape(len(x), -1),
        nn.Dropout(0.3, deterministic=False),
        nn.Dense(5),
    ]
    model = nn.Sequential(layers)
    variables = model.init({"params": KEY, "dropout": KEY}, IMAGES)

    def loss(params: Any, stats: Any, x: Any, key: Any) -> Any:
        given = {"params": params, "batch_stats": stats}
        scores, new = model.apply(given, x, mutable=["batch_stats"], rngs={"dropout": key})
        return cross_entropy(scores, jnp.arange(4)), new

    return loss, (variables["params"], variables["batch_stats"], IMAGES, KEY)


def flax_transformer() -> Case:
    """Layers that are computed again, in a loop over stacked parameters; shared embeddings."""
    nn = pytest.importorskip("flax.linen")

    class Block(nn.Module):  # type: ignore[name-defined,misc]  # known only where it is installed
        @nn.compact  # type: ignore[untyped-decorator]
        def __call__(self, x: Any, _: Any) -> tuple[Any, None]:
            mask = nn.make_causal_mask(x[..., 0])
            x = x + nn.MultiHeadDotProductAttention(2, use_bias=False)(nn.LayerNorm()(x), mask=mask)
            return x + nn.Dense(8)(nn.gelu(nn.LayerNorm()(x))), None

    class Model(nn.Module):  # type: ignore[name-defined,misc]
        @nn.compact  # type: ignore[untyped-decorator]
        def __call__(self, words: Any) -> Any:
            again = nn.remat(Block, prevent_cse=False)
            axes, keys = {"params": 0}, {"params": True}
            layers = nn.scan(again, variable_axes=axes, split_rngs=keys, length=3)()
            table = nn.Embed(20, 8)
            return table.attend(layers(table(words), None)[0])

    model = Model()
    params = model.init(KEY, WORDS[:, :-1])
    return lambda p, w: (cross_entropy(model.apply(p, w[:, :-1]), w[:, 1:]), None), (params, WORDS)


def flax_modules_with_state() -> Case:
    """What an nnx module keeps is split off before the loss, and merged inside it."""
    nnx = pytest.importorskip("flax.nnx")
    keys = nnx.Rngs(0)
    layers = [nnx.Linear(3, 8, rngs=keys), nnx.BatchNorm(8, rngs=keys), nnx.Dropout(0.2, rngs=keys)]
    definition, params, rest = nnx.split(nnx.Sequential(*layers), nnx.Param, ...)

    def loss(params: Any, rest: Any, x: Any) -> Any:
        model = nnx.merge(definition, params, rest, copy=True)
        value = jnp.mean(jnp.tanh(model(x)) ** 3)
        return value, nnx.split(model, nnx.Param, ...)[2]

    return loss, (params, rest, IMAGES[:, 0, 0])


def equinox_modules() -> Case:
    """Mapped over a batch, layers computed again, a scan over steps."""
    eqx = pytest.importorskip("equinox")
    layers = (
        eqx.nn.Conv2d(3, 4, 3, key=KEY),
        eqx.nn.GroupNorm(2, 4),
        eqx.nn.LSTMCell(4, 4, key=KEY),
        eqx.nn.MLP(4, 1, 8, 2, activation=jax.nn.mish, key=KEY),
    )
    params, fixed = eqx.partition(layers, eqx.is_inexact_array)

    def loss(params: Any, x: Any) -> Any:
        convolution, norm, cell, mlp = eqx.combine(params, fixed)

        def one(image: Any) -> Any:
            steps = jnp.mean(norm(convolution(image)), axis=1).T
            state = (jnp.zeros(4), jnp.zeros(4))
            (last, _), _ = jax.lax.scan(lambda c, step: (cell(step, c), None), state, steps)
            return eqx.filter_checkpoint(mlp)(last)

        return jnp.mean(jax.vmap(one)(x) ** 2), None

    return loss, (params, IMAGES.transpose(0, 3, 1, 2))


def haiku_functions() -> Case:
    hk = pytest.importorskip("haiku")

    def forward(x: Any) -> Any:
        x = hk.BatchNorm(True, True, 0.9)(hk.Conv2D(4, 3)(x), is_training=True)
        steps = (
            hk.avg_pool(jax.nn.relu(x), (2, 2, 1), (2, 2, 1), "VALID")
            .reshape(4, 16, 4)
            .swapaxes(0, 1)
        )
        cell = hk.LSTM(4)
        found, _ = hk.dynamic_unroll(cell, steps, cell.initial_state(4))
        return hk.dropout(hk.next_rng_key(), 0.1, found)

    model = hk.transform_with_state(forward)
    params, state = model.init(KEY, IMAGES)

    def loss(params: Any, state: Any, x: Any) -> Any:
        value, new = model.apply(params, state, KEY, x)
        return jnp.mean(value**2), new

    return loss, (params, state, IMAGES)


def numpyro_densities() -> Case:
    """A model of several levels, whose standard deviations are positive by bijections."""
    numpyro = pytest.importorskip("numpyro")
    dist, infer = numpyro.distributions, pytest.importorskip("numpyro.infer.util")

    def model(seen: Any) -> None:
        mean = numpyro.sample("mean", dist.Normal(0, 5))
        scale = numpyro.sample("scale", dist.HalfCauchy(5))
        with numpyro.plate("groups", 4):
            rate = numpyro.sample("rate", dist.LogNormal(mean, scale))
            numpyro.sample("seen", dist.Gamma(rate, 2.0), obs=seen)

    found = infer.initialize_model(KEY, model, model_args=(jnp.array([0.3, 1.0, 2.5, 4.0]),))
    return lambda given: (found.potential_fn(given), None), (found.param_info.z,)


def diffrax_solutions() -> Case:
    """By loops with checkpoints, whose rules refuse to be asked about times and buffers."""
    diffrax = pytest.importorskip("diffrax")
    times = diffrax.SaveAt(ts=jnp.linspace(0.0, 1.0, 3))
    adaptive = diffrax.PIDController(rtol=1e-3, atol=1e-6)

    def field(t: Any, y: Any, params: Any) -> Any:
        return jnp.tanh(params["w"] @ y + params["b"]) * jnp.cos(t)

    def loss(params: Any, start: Any) -> Any:
        total = jnp.zeros(())
        for adjoint in (diffrax.RecursiveCheckpointAdjoint(), diffrax.BacksolveAdjoint()):
            found = diffrax.diffeqsolve(
                diffrax.ODETerm(field),
                diffrax.Heun(),
                *(0.0, 1.0, 0.1, start, params),
                adjoint=adjoint,
                saveat=times,
                stepsize_controller=adaptive,
                max_steps=64,
            )
            total += jnp.sum(found.ys**2)
        return total, None

    return loss, ({"w": np.sin(np.arange(9.0)).reshape(3, 3), "b": np.ones(3)}, np.arange(3.0))


def diffrax_solutions_of_a_batch() -> Case:
    """Their rule gives a gradient of the weights for each sample."""
    diffrax, equinox = pytest.importorskip("diffrax"), pytest.importorskip("equinox")
    network = equinox.nn.MLP(2, 2, 32, 2, activation=jnp.tanh, key=jax.random.key(0))
    params, static = equinox.partition(network, equinox.is_array)

    def solved(params: Any, start: Any) -> Any:
        found = diffrax.diffeqsolve(
            diffrax.ODETerm(lambda t, y, network: network(y)),
            diffrax.Tsit5(),
            *(0.0, 1.0, 0.1, start, equinox.combine(params, static)),
            stepsize_controller=diffrax.PIDController(rtol=1e-3, atol=1e-6),
            max_steps=64,
        )
        return found.ys

    def loss(params: Any, starts: Any) -> Any:
        return jnp.mean(jax.vmap(solved, (None, 0))(params, starts) ** 2), None

    return loss, (params, np.sin(np.arange(64.0)).reshape(32, 2))


def cross_entropy(scores: Any, classes: Any) -> Any:
    return optax.softmax_cross_entropy_with_integer_labels(scores, classes).mean()


@pytest.fixture
def _as_libraries_expect() -> Iterator[None]:
    """The promotions that JAX allows by default."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


CASES = pytest.mark.parametrize(
    "case",
    [
        flax_convolutions,
        flax_transformer,
        flax_modules_with_state,
        equinox_modules,
        haiku_functions,
        numpyro_densities,
        diffrax_solutions,
        diffrax_solutions_of_a_batch,
    ],
)


@pytest.mark.usefixtures("_as_libraries_expect")
@CASES
def test_gradients_are_those_of_jax(case: Callable[[], Case]) -> None:
    loss, args = case()
    (value, aux), gradients = jax.jit(relaxjax.value_and_grad(loss, has_aux=True))(*args)
    (expected, new), theirs = jax.jit(jax.value_and_grad(loss, has_aux=True))(*args)
    assert any(np.any(np.asarray(leaf)) for leaf in jax.tree.leaves(theirs))
    chex.assert_trees_all_close(value, expected, rtol=1e-5)
    chex.assert_trees_all_close(
        (gradients, numbers(aux)), (theirs, numbers(new)), rtol=1e-4, atol=1e-5
    )


@pytest.mark.usefixtures("_as_libraries_expect")
def test_solutions_of_a_batch_take_no_gradient_for_each_sample() -> None:
    loss, args = diffrax_solutions_of_a_batch()
    sizes: list[Any] = [
        jax.jit(gradient(loss, has_aux=True)).lower(*args).compile().memory_analysis()
        for gradient in (relaxjax.value_and_grad, jax.value_and_grad)
    ]
    ours, theirs = (size.temp_size_in_bytes for size in sizes)
    assert ours < 32 * 32 * 32 * 4 < theirs


@pytest.mark.usefixtures("_as_libraries_expect")
@CASES
def test_whole_steps_are_those_of_jax(case: Callable[[], Case]) -> None:
    loss, (params, *batch) = case()
    optimizer = optax.sgd(1e-2)

    def of_batch(params: Any, batch: Any) -> Any:
        return loss(params, *batch)

    init, step = relaxjax.train_step(of_batch, optimizer, has_aux=True)
    state, (value, _) = step(init(params), batch)

    @jax.jit
    def by_jax(params: Any) -> Any:
        (value, _), gradients = jax.value_and_grad(of_batch, has_aux=True)(params, batch)
        updates, _ = optimizer.update(gradients, optimizer.init(params), params)
        return optax.apply_updates(params, updates), value

    expected = by_jax(params)
    chex.assert_trees_all_close((state.params, value), expected, rtol=1e-4, atol=1e-5)


def numbers(tree: Any) -> Any:
    """The tree with the keys of random numbers as what they consist of."""

    def of(leaf: Any) -> Any:
        is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        return jax.random.key_data(leaf) if is_key else leaf

    return jax.tree.map(of, tree)
