"""Losses of the examples of jraph, diffrax, distrax and numpyro, at sizes for a CPU."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax_losses import Case, Draws

# They need not be installed where types are checked.
eqx: Any = import_module("equinox")
hk: Any = import_module("haiku")
jraph: Any = import_module("jraph")
diffrax: Any = import_module("diffrax")
distrax: Any = import_module("distrax")
numpyro: Any = import_module("numpyro")
dist: Any = import_module("numpyro.distributions")
infer: Any = import_module("numpyro.infer")

KEY = jax.random.key(0)


def network(graph: Any) -> Any:
    """A graph network of two steps, its parts updated by small networks."""

    @jraph.concatenated_args
    def updated(features: Any) -> Any:
        return hk.Sequential([hk.Linear(128), jax.nn.relu, hk.Linear(128)])(features)

    @jraph.concatenated_args
    def of_whole(features: Any) -> Any:
        return hk.Sequential([hk.Linear(128), jax.nn.relu, hk.Linear(2)])(features)

    graph = graph._replace(globals=jnp.zeros([graph.n_node.shape[0], 1]))
    into = jraph.GraphMapFeatures(hk.Linear(128), hk.Linear(128), hk.Linear(128))
    graph = into(graph)
    for of_globals in (updated, of_whole):
        graph = jraph.GraphNetwork(
            update_node_fn=updated, update_edge_fn=updated, update_global_fn=of_globals
        )(graph)
    return graph


def molecules(draw: Draws) -> Case:
    """examples/ogb_examples: graphs of molecules padded to one size, features of 128."""
    model = hk.without_apply_rng(hk.transform(network))
    graphs, nodes, edges = 64, 1024, 2560
    counts = np.full(graphs, nodes // graphs), np.full(graphs, edges // graphs)
    owner = np.repeat(np.arange(graphs), edges // graphs) * (nodes // graphs)
    ends = [jnp.asarray(owner + draw.random.integers(0, nodes // graphs, edges)) for _ in "sr"]
    graph = jraph.GraphsTuple(
        nodes=draw.normal(nodes, 9),
        edges=draw.normal(edges, 3),
        senders=ends[0],
        receivers=ends[1],
        n_node=jnp.asarray(counts[0]),
        n_edge=jnp.asarray(counts[1]),
        globals=None,
    )

    def loss(params: Any, graph: Any, labels: Any) -> Any:
        logs = jax.nn.log_softmax(model.apply(params, graph).globals)
        targets = jax.nn.one_hot(labels, 2)
        mask = jraph.get_graph_padding_mask(graph)
        value = -jnp.mean(logs * targets * mask[:, None])
        accuracy = jnp.sum((jnp.argmax(logs, 1) == labels) * mask) / jnp.sum(mask)
        return value, accuracy

    return Case(loss, model.init(KEY, graph), (graph, draw.ids(2, graphs)), has_aux=True)


def equation(draw: Draws) -> Case:
    """diffrax, neural ODE: a network of width 64 and depth 2, by Tsit5 to 100 times, batch 32."""
    mlp = eqx.nn.MLP(2, 2, 64, 2, activation=jax.nn.softplus, key=KEY)
    params, rest = eqx.partition(mlp, eqx.is_inexact_array)

    def solved(mlp: Any, times: Any, start: Any) -> Any:
        return diffrax.diffeqsolve(
            diffrax.ODETerm(lambda t, y, args: mlp(y)),
            diffrax.Tsit5(),
            t0=times[0],
            t1=times[-1],
            dt0=times[1] - times[0],
            y0=start,
            stepsize_controller=diffrax.PIDController(rtol=1e-3, atol=1e-6),
            saveat=diffrax.SaveAt(ts=times),
        ).ys

    def loss(params: Any, times: Any, wanted: Any) -> Any:
        mlp = eqx.combine(params, rest)
        found = jax.vmap(solved, in_axes=(None, None, 0))(mlp, times, wanted[:, 0])
        return jnp.mean((wanted - found) ** 2)

    return Case(loss, params, (jnp.linspace(0, 10, 100), draw.normal(32, 100, 2)))


class Field(eqx.Module):
    mlp: Any
    data: int
    hidden: int

    def __init__(self, data: int, hidden: int, width: int, key: Any) -> None:
        self.data, self.hidden = data, hidden
        self.mlp = eqx.nn.MLP(
            hidden,
            hidden * data,
            width,
            1,
            activation=jax.nn.softplus,
            final_activation=jax.nn.tanh,
            key=key,
        )

    def __call__(self, t: Any, y: Any, args: Any) -> Any:
        return self.mlp(y).reshape(self.hidden, self.data)


class Controlled(eqx.Module):
    initial: Any
    field: Any
    linear: Any

    def __init__(self, data: int, hidden: int, width: int, key: Any) -> None:
        first, second, third = jax.random.split(key, 3)
        self.initial = eqx.nn.MLP(data, hidden, width, 1, key=first)
        self.field = Field(data, hidden, width, second)
        self.linear = eqx.nn.Linear(hidden, 1, key=third)

    def __call__(self, times: Any, coefficients: Any) -> Any:
        control = diffrax.CubicInterpolation(times, coefficients)
        found = diffrax.diffeqsolve(
            diffrax.ControlTerm(self.field, control).to_ode(),
            diffrax.Tsit5(),
            times[0],
            times[-1],
            0.25,
            self.initial(control.evaluate(times[0])),
            saveat=diffrax.SaveAt(t1=True),
        )
        return jax.nn.sigmoid(self.linear(found.ys[-1]))[0]


def controlled(draw: Draws) -> Case:
    """diffrax, neural CDE: which way a spiral turns; width 128, batch 32, steps of 1/4."""
    params, rest = eqx.partition(Controlled(3, 8, 128, KEY), eqx.is_inexact_array)
    times = jnp.linspace(0, 4 * np.pi, 50)
    values = jnp.concatenate(
        [jnp.broadcast_to(times[:, None], (32, 50, 1)), draw.normal(32, 50, 2)], -1
    )
    coefficients = jax.vmap(diffrax.backward_hermite_coefficients, (None, 0))(times, values)

    def loss(params: Any, times: Any, coefficients: Any, labels: Any) -> Any:
        model = eqx.combine(params, rest)
        found = jax.vmap(model, in_axes=(None, 0))(times, coefficients)
        return -jnp.mean(labels * jnp.log(found) + (1 - labels) * jnp.log(1 - found))

    return Case(loss, params, (times, coefficients, draw.ids(2, 32).astype("float32")))


def flow_model(layers: int, hidden: int, bins: int) -> Any:
    """Masked couplings of rational-quadratic splines."""
    numbers = 3 * bins + 1

    def spline(params: Any) -> Any:
        return distrax.RationalQuadraticSpline(params, range_min=0.0, range_max=1.0)

    mask = jnp.arange(0, 784) % 2
    mask = jnp.reshape(mask, (28, 28, 1)).astype(bool)
    parts = []
    for _ in range(layers):
        conditioner = hk.Sequential(
            [
                hk.Flatten(preserve_dims=-3),
                hk.nets.MLP([hidden, hidden], activate_final=True),
                hk.Linear(784 * numbers, w_init=jnp.zeros, b_init=jnp.zeros),
                hk.Reshape((28, 28, 1, numbers), preserve_dims=-1),
            ]
        )
        parts.append(distrax.MaskedCoupling(mask=mask, bijector=spline, conditioner=conditioner))
        mask = jnp.logical_not(mask)
    flow = distrax.Inverse(distrax.Chain(parts))
    base = distrax.Independent(
        distrax.Uniform(low=jnp.zeros((28, 28, 1)), high=jnp.ones((28, 28, 1))),
        reinterpreted_batch_ndims=3,
    )
    return distrax.Transformed(base, flow)


def flow(draw: Draws) -> Case:
    """distrax, examples/flow: splines of 4 bins; 2 couplings of 128 instead of 8 of 500."""
    model = hk.without_apply_rng(
        hk.transform(lambda images: flow_model(2, 128, 4).log_prob(images))
    )

    def loss(params: Any, images: Any, key: Any) -> Any:
        noisy = (images + jax.random.uniform(key, images.shape)) / 256.0
        return -jnp.mean(model.apply(params, noisy))

    images = draw.ids(256, 32, 28, 28, 1).astype("float32")
    return Case(loss, model.init(KEY, images / 256), (images, jax.random.key(1)))


def covertypes(draw: Draws) -> Case:
    """numpyro, examples/covtype: Bayesian logistic regression, 54 features; 50,000 rows."""
    data, labels = draw.normal(50_000, 54), draw.ids(2, 50_000)

    def model(data: Any, labels: Any) -> Any:
        coefs = numpyro.sample("coefs", dist.Normal(jnp.zeros(54), jnp.ones(54)))
        numpyro.sample("obs", dist.Bernoulli(logits=jnp.dot(data, coefs)), obs=labels)

    def loss(params: Any, data: Any, labels: Any) -> Any:
        return infer.util.potential_energy(model, (data, labels), {}, params)

    return Case(loss, {"coefs": draw.normal(54, scale=0.1)}, (data, labels))


def bayesian_network(draw: Draws) -> Case:
    """numpyro, examples/bnn by SVI with a normal guide: two hidden layers, 64 units, 2,000 rows."""

    def model(x: Any, y: Any) -> Any:
        width = 64
        w1 = numpyro.sample("w1", dist.Normal(jnp.zeros((16, width)), jnp.ones((16, width))))
        w2 = numpyro.sample("w2", dist.Normal(jnp.zeros((width, width)), jnp.ones((width, width))))
        w3 = numpyro.sample("w3", dist.Normal(jnp.zeros((width, 1)), jnp.ones((width, 1))))
        mean = jnp.tanh(jnp.tanh(x @ w1) @ w2) @ w3
        precision = numpyro.sample("prec_obs", dist.Gamma(3.0, 1.0))
        with numpyro.plate("data", x.shape[0]):
            sigma = 1.0 / jnp.sqrt(precision)
            numpyro.sample("Y", dist.Normal(mean, sigma).to_event(1), obs=y)

    guide = infer.autoguide.AutoNormal(model)
    svi = infer.SVI(model, guide, numpyro.optim.Adam(1e-3), infer.Trace_ELBO())
    x, y = draw.normal(2000, 16), draw.normal(2000, 1)
    state = svi.init(KEY, x, y)
    params = svi.get_params(state)
    bound = infer.Trace_ELBO()

    def loss(params: Any, key: Any, x: Any, y: Any) -> Any:
        return bound.loss(key, svi.constrain_fn(params), model, guide, x, y)

    return Case(loss, params, (jax.random.key(1), x, y))


SCIENCE: dict[str, Callable[[Draws], Case]] = {
    "jraph: molecules": molecules,
    "diffrax: neural ODE": equation,
    "diffrax: neural CDE": controlled,
    "distrax: normalising flow": flow,
    "numpyro: cover types": covertypes,
    "numpyro: Bayesian network by SVI": bayesian_network,
}
