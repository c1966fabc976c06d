"""`value_and_grad` and `train_step` on a mesh: a process of its own has eight devices."""

from several_devices import printed_lines

HEAD = """
import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import NamedSharding, PartitionSpec as P

import relaxjax
from relaxjax.optim import Adam

jax.config.update("jax_disable_most_optimizations", True)
MIXED = {"data": 4, "model": 2}
SPLIT = {"layers/*/w": (None, "model"), "params_out": ("model",)}
WAYS = (
    {"devices": 8},
    {"mesh": {"data": 8}, "sharding": "fsdp"},
    {"mesh": jax.make_mesh((4, 2), ("data", "model")), "sharding": SPLIT},
)
rng = np.random.default_rng(0)
captured = rng.normal(size=(7, 3)).astype("f")
params = {
    "b": np.zeros(32, "f"),
    "layers": [{"w": rng.normal(size=(16, 32)).astype("f")}],
    "out": rng.normal(size=(32, 8)).astype("f"),
}
batch = rng.normal(size=(24, 16)).astype("f"), rng.normal(size=(24, 8)).astype("f")


def loss(params, batch):
    x, y = batch
    hidden = jnp.tanh(x @ params["layers"][0]["w"] + params["b"]) * jnp.mean(captured)
    return jnp.mean((hidden @ params["out"] - y) ** 2)


def specs(tree):
    return [tuple(leaf.sharding.spec) for leaf in jax.tree.leaves(tree)]


def told(run):
    try:
        run()
    except (ValueError, TypeError) as error:
        print(error)
    else:
        raise AssertionError("no error")
"""

GRADIENTS = (
    HEAD
    + """
expected = jax.value_and_grad(loss)(params, batch)
for options in WAYS:
    found = jax.jit(relaxjax.value_and_grad(loss, **options))(params, batch)
    chex.assert_trees_all_close(found, expected, rtol=1e-4, atol=1e-5)
    print(*specs(found[1]))
again = relaxjax.grad(loss, devices=8, sharding="fsdp", memory_policy="minimal")
again = jax.jit(again)(params, batch)
print(*specs(again))
chex.assert_trees_all_close(again, expected[1], rtol=1e-4, atol=1e-5)


def by_both(bias, batch, weight):
    return loss({**params, "layers": [{"w": weight}], "b": bias}, batch)


args, axes = (params["b"], batch, params["layers"][0]["w"]), ("data", "model")
several = relaxjax.grad(by_both, (0, 2), mesh=MIXED, sharding={"weight": P(None, axes)})
found = jax.jit(several)(*args)
product = relaxjax.grad(jnp.vdot, devices=2, sharding="fsdp")
at_once = product(np.ones(4, "f"), np.ones(4, "f"))
print(*specs(at_once), at_once)
chex.assert_trees_all_close(found, jax.grad(by_both, (0, 2))(*args), rtol=1e-4, atol=1e-5)
print(*specs(found))
"""
)


SEVERAL = ["('data',) [1. 1. 1. 1.]", "() (None, ('data', 'model'))"]


def test_gradients_lie_where_their_parameters_are_placed() -> None:
    rows = printed_lines(GRADIENTS, 8)
    fully = "('data',) (None, 'data') ('data',)"
    mixed = "() (None, 'model') ('model',)"
    assert rows == ["() () ()", fully, mixed, fully, *SEVERAL]


STEPS = (
    HEAD
    + """
def noisy(params, means, batch, key):
    hidden = jnp.tanh(batch[0] @ params["layers"][0]["w"] + params["b"])
    kept = jnp.where(jax.random.bernoulli(key, 0.9, hidden.shape), hidden, 0)
    loss = jnp.mean((kept @ params["out"] - batch[1]) ** 2) + jnp.sum(captured) * 0
    return loss, (means * 0.9 + hidden.mean(0) * 0.1, {"sum": hidden.sum()})


def trained(optimizer, **options):
    init, step = relaxjax.train_step(noisy, optimizer, has_aux=True, **options)
    state = init(params, jnp.zeros(32), jax.random.key(0))
    first, found = [leaf.sharding for leaf in jax.tree.leaves(state)], []
    for _ in range(3):
        state, value = step(state, batch)
        found.append(value)
    for leaf, where in zip(jax.tree.leaves(state), first, strict=True):
        assert leaf.sharding.is_equivalent_to(where, leaf.ndim), (leaf.sharding, where)
    return [found, state.params, state.model_state, state.opt_state], state, step


clipped = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(0.01))
for optimizer, ways in ((clipped, WAYS), (Adam(0.01), WAYS[1:2])):
    expected, _, _ = trained(optimizer)
    for options in ways:
        found, state, step = trained(optimizer, **options)
        chex.assert_trees_all_close(found, expected, rtol=1e-3, atol=1e-5)
        print(*specs(state.params), *specs(state.model_state), len({*specs(state.opt_state)}))

alone = relaxjax.train_step(loss, optax.sgd(0.1))
init, step = relaxjax.train_step(loss, optax.sgd(0.1), devices=8, sharding="fsdp")
value = alone[1](alone[0](params), batch)[1]
traced, found = jax.jit(step)(init(params), batch)
print(specs(traced.params), bool(jnp.isclose(found, value, rtol=1e-5)))
abstract = jax.eval_shape(init, params)
is_stated = "mesh" in step.module(abstract, batch).attrs
print(step.memory(abstract, batch).bytes_by_xla > 0, is_stated)
fewer = step.temporary_bytes(init(params), batch)
print(fewer < alone[1].temporary_bytes(alone[0](params), batch))
"""
)


def test_steps_on_a_mesh_are_those_of_one_device() -> None:
    *rows, traced, planned, fewer = printed_lines(STEPS, 8)
    fully = "('data',) (None, 'data') ('data',) ('data',) 3"
    mixed = "() (None, 'model') ('model',) () 3"
    assert rows == ["() () () () 1", fully, mixed, fully]
    assert traced == "[('data',), (None, 'data'), ('data',)] True"
    assert (planned, fewer) == ("True True", "True")


REFUSED = (
    HEAD
    + """
told(lambda: relaxjax.value_and_grad(loss, sharding="fsdp"))
told(lambda: relaxjax.value_and_grad(loss, mesh=MIXED, devices=8))
told(lambda: relaxjax.value_and_grad(loss, devices=2, sharding="fsd"))
told(lambda: relaxjax.value_and_grad(loss, devices=2, memory_budget="1MiB"))
told(lambda: relaxjax.value_and_grad(loss, devices=16)(params, batch))
told(lambda: relaxjax.value_and_grad(loss, devices=5)(params, batch))
told(lambda: relaxjax.grad(loss, devices=2, sharding={"layer/*": ("data",)})(params, batch))
odd = {"data": 1, "model": 5}
told(lambda: relaxjax.grad(loss, mesh=odd, sharding={"out": ("model",)})(params, batch))
init, step = relaxjax.train_step(loss, optax.sgd(0.1), mesh=odd, sharding={"out": ("model",)})
told(lambda: init(params))
init, step = relaxjax.train_step(loss, optax.sgd(0.1), devices=5)
told(lambda: step(init(params), batch))
told(lambda: relaxjax.train_step(loss, optax.sgd(0.1), mesh=[8]))

AUTO, EXPLICIT = (jax.sharding.AxisType.Auto,), (jax.sharding.AxisType.Explicit,)
explicit = jax.make_mesh((8,), ("rows",), axis_types=EXPLICIT)
there = jax.device_put(batch, NamedSharding(explicit, P("rows")))
told(lambda: jax.jit(relaxjax.grad(loss, devices=8))(params, there))
inside = jax.shard_map(
    relaxjax.grad(loss, devices=8), mesh=jax.make_mesh((8,), ("rows",), axis_types=AUTO),
    in_specs=(P(), P("rows")), out_specs=P(),
)
told(lambda: jax.jit(inside)(params, batch))
"""
)

SAID = """\
`sharding` says how a training is on several devices, 'fsdp', but not on which: give `mesh`, such \
as {"data": 4}, or `devices`, such as 4
give `mesh` or `devices`, which is short for a mesh of one axis, but not both
there is no sharding `fsd`: it is "data", "fsdp", or a mapping from patterns for names of \
parameters to specs; did you mean `fsdp`?
a `memory_budget` here is for one device, without `mesh` or `devices`: give a `memory_policy`, or \
take `relaxjax.train_step`, whose budget is for each device
the mesh {"data": 16} takes 16 devices, but JAX has 8 here: give a smaller mesh, or on a CPU make \
more of it, before JAX is first used, by jax.config.update("jax_num_cpu_devices", 16)
a batch has 24 samples, which the axis `data` of 5 devices does not divide: give batches of 20 or \
25, such as by drop_last=True of the loader
the pattern 'layer/*' of `sharding` is for none of the parameters b, layers/0/w, out; did you \
mean `layers/0/w`?
dimension 0 of `params_out` is 32, which the axis `model` of 5 devices does not divide: 1, 2, 4, \
8, 16, 32 would; or keep that dimension whole, by None in its spec
dimension 0 of `params_out` is 32, which the axis `model` of 5 devices does not divide: 1, 2, 4, \
8, 16, 32 would; or keep that dimension whole, by None in its spec
a batch has 24 samples, which the axis `data` of 5 devices does not divide: give batches of 20 or \
25, such as by drop_last=True of the loader
a mesh is a jax.sharding.Mesh, or the sizes of its axes such as {"data": 4}, but it is [8]
`mesh` places arrays, but the type float32[24@rows,16] of one says already where it lies, on a \
mesh with explicit axes: leave out `mesh`, and the program goes by these types
`mesh` places whole arrays, but inside jax.shard_map each device has its part of them: leave out \
`mesh` there
"""


def test_what_cannot_be_placed_is_refused_by_name() -> None:
    assert printed_lines(REFUSED, 8) == SAID.splitlines()
