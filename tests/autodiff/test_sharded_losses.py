"""`value_and_grad` on several devices against JAX's own: a process of its own has four."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

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
    chex.assert_trees_all_close(found, expected, rtol=1e-5, atol=1e-6)
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
chex.assert_trees_all_close(planned, expected, rtol=1e-5, atol=1e-6)
""",
    "constraints in the loss": """
def constrained(params, x, y):
    def layer(x, _):
        hidden = jax.lax.with_sharding_constraint(jnp.tanh(x @ params["w0"]), place("rows"))
        return jax.lax.with_sharding_constraint(hidden @ params["w0"].T, place(None, "rows")), None

    return loss(params, jax.lax.scan(layer, x, None, length=3)[0], y)

batch = jax.device_put((x, y), place("rows"))
check(lambda grad: jax.jit(grad(constrained)), jax.device_put(params, place("rows")), *batch)
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
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM + CASES[case]],
        env={
            **os.environ,
            "XLA_FLAGS": flags,
            "JAX_PLATFORMS": "cpu",
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *sys.path]),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
