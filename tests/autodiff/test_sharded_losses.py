"""`value_and_grad` on several devices against JAX's own: a process of its own has four."""

import pytest
from several_devices import printed_lines

PROGRAM = """
import chex
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

import relaxjax

mesh = Mesh(np.array(jax.devices()), ("rows",))


def place(*axes):
    return NamedSharding(mesh, P(*axes))


def loss(params, x, y):
    hidden = jax.nn.relu(x @ params["w0"] + params["b0"])
    scores = jax.nn.log_softmax(hidden @ params["w1"])
    return -jnp.mean(jnp.take_along_axis(scores, y[:, None], 1))


params = {
    "w0": jnp.sin(jnp.arange(96.0)).reshape(12, 8),
    "b0": jnp.zeros(8),
    "w1": jnp.cos(jnp.arange(32.0)).reshape(8, 4),
}
x, y = np.cos(np.arange(96, dtype="float32")).reshape(8, 12), np.arange(8) % 4


def check(make, *args):
    found, expected = make(relaxjax.value_and_grad)(*args), make(jax.value_and_grad)(*args)
    chex.assert_trees_all_close(found, expected, rtol=1e-4, atol=1e-5)
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert ours.sharding.is_equivalent_to(theirs.sharding, ours.ndim), (ours, theirs)
    return found

"""

CASES = {
    "copies of the parameters": """
batch = jax.device_put((x, y), place("rows"))
check(lambda grad: jax.jit(grad(loss)), jax.device_put(params, place()), *batch)
check(lambda grad: grad(loss), jax.device_put(params, place()), *batch)
""",
    "parts of the parameters": """
batch = jax.device_put((x, y), place("rows"))
parts = jax.device_put(params, place("rows"))
expected = check(lambda grad: jax.jit(grad(loss)), parts, *batch)
planned = jax.jit(relaxjax.value_and_grad(loss, memory_policy="minimal"))(parts, *batch)
chex.assert_trees_all_close(planned, expected, rtol=1e-4, atol=1e-5)
""",
    "constraints in the loss": """
def constrained(params, x, y):
    def layer(x, _):
        hidden = jax.lax.with_sharding_constraint(jnp.tanh(x @ params["w0"] / 8), place("rows"))
        return jax.lax.with_sharding_constraint(hidden @ params["w0"].T, place(None, "rows")), None

    return loss(params, jax.lax.scan(layer, x, None, length=3)[0], y)

batch = jax.device_put((x, y), place("rows"))
check(lambda grad: jax.jit(grad(constrained)), jax.device_put(params, place("rows")), *batch)
""",
    "explicit axes": """
mesh = jax.make_mesh((4,), ("rows",), axis_types=(jax.sharding.AxisType.Explicit,))

def parted(params, x, y):
    whole = {name: jax.sharding.reshard(param, P()) for name, param in params.items()}
    return loss(whole, x, y), {"hidden": x @ whole["w0"], "size": jnp.sum(whole["w1"] ** 2)}

with jax.set_mesh(mesh):
    batch = jax.device_put((x, y), P("rows"))
    check(lambda grad: jax.jit(grad(loss)), jax.device_put(params, P()), *batch)
    check(lambda grad: jax.jit(grad(loss)), jax.tree.map(np.asarray, params), *batch)
    args = jax.device_put(params, P("rows")), *batch
    found = check(lambda grad: jax.jit(grad(parted, has_aux=True)), *args)
    assert jax.typeof(found[1]["w0"]).sharding.spec[0] == "rows"
    squared = lambda grad: lambda *args: jnp.sum(grad(loss)(*args)[1]["w1"] ** 2)
    check(lambda grad: jax.jit(jax.grad(squared(grad))), jax.device_put(params, P()), *batch)
""",
    "inside of shard_map": """
def mapped(loss, *specs, has_aux=False, outs=P()):
    def mean(grad):
        def step(*args):
            results, gradients = grad(loss, has_aux=has_aux)(*args)
            return jax.lax.pmean(results, "rows"), gradients

        specs_of_results = (P(), outs)
        return jax.jit(jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=specs_of_results))

    return mean

def deep(params, x, y):
    def layer(x, _):
        return jax.nn.softplus(jnp.tanh(x @ params["w0"]) @ params["w0"].T), x[0]

    last, firsts = jax.lax.scan(jax.checkpoint(layer), x, None, length=3)
    kept = jnp.where(jax.random.bernoulli(jax.random.key(0), 0.5, last.shape), last, 0)
    right = jnp.sum(params["w0"]) > 0
    value = jax.lax.cond(right, lambda: loss(params, kept, y), lambda: jnp.mean(last))
    return value, {"size": jnp.sum(params["w1"] ** 2), "first": firsts, "found": params["w0"] > 0}

def of_parameters(params, x):
    return jnp.sum(params["w0"] ** 2)

check(mapped(loss, P(), P("rows"), P("rows")), params, x, y)
check(mapped(deep, P(), P("rows"), P("rows"), has_aux=True), params, x, y)
check(mapped(loss, P("rows"), P(), P(), outs=P("rows")), {
    "w0": jnp.tile(params["w0"], (4, 1)), "b0": jnp.ones(32), "w1": jnp.tile(params["w1"], (4, 1))
}, x, y)
check(mapped(of_parameters, P(), P("rows")), params, x)

def squared(grad):
    def step(*args):
        return jax.grad(lambda *args: jnp.sum(grad(loss)(*args)[1]["w1"] ** 2))(*args)

    specs = P(), P("rows"), P("rows")
    return jax.jit(jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=P()))

check(squared, params, x, y)

def refused(loss, grad=relaxjax.value_and_grad):
    try:
        mapped(loss, P(), P("rows"), P("rows"))(grad)(params, x, y)
    except (NotImplementedError, ValueError) as error:
        return str(error)

message = refused(lambda params, x, y: jax.lax.pmean(loss(params, x, y), "rows"))
assert "Combine the results and gradients of relaxjax.value_and_grad, inside of" in message, message

def reduced(loss, has_aux):
    def step(params, *args):
        return relaxjax.value_and_grad(loss)(jax.lax.pcast(params, "rows", to="reduced"), *args)

    return step

message = refused(loss, reduced)
assert "leaves a sum over ['rows'] to be made" in message, message
""",
    "a mapped function": """
def mean(grad):
    def step(params, x, y):
        return jax.lax.pmean(grad(loss)(params, x, y), "rows")

    return jax.pmap(step, "rows", in_axes=(None, 0, 0))

check(mean, params, x.reshape(4, 2, 12), y.reshape(4, 2))
""",
}


@pytest.mark.parametrize("case", CASES)
def test_gradients_lie_where_those_of_jax_do(case: str) -> None:
    printed_lines(PROGRAM + CASES[case], 4)
