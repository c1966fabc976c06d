"""What a trainer does on several devices beside its steps: a process of its own has four."""

import pytest
from full import FULL
from several_devices import printed_lines

HEAD = """
import tempfile
import chex
import jax
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from spread_models import MODELS, SAMPLES
from relaxjax import Trainer, VirtualMachine, build
from relaxjax.training import Checkpoints, Lines, load_trainer

jax.config.update("jax_disable_most_optimizations", True)
quiet = Lines(lambda line: None)
MIXED = {"data": 2, "model": 2}


def told(run):
    try:
        run()
    except (ValueError, TypeError) as error:
        print(error)
    else:
        raise AssertionError("no error")
"""

FIT = (
    HEAD
    + """
model = MODELS["layers"]("float32")
batches, found = model.batches[:6], []
for options in ({}, {"devices": 4}, {"mesh": MIXED, "sharding": "fsdp"}):
    trainer = model.trainer(**options)
    reports = trainer.fit(
        batches, 2, batches[:2], quiet, metrics=["accuracy"], steps_per_call=4, prefetch=1
    )
    x, y = batches[0]
    few = trainer.evaluate(x, y)
    found.append([reports.numbers("loss"), reports.numbers("eval_loss"), trainer.predict(x), few])
chex.assert_trees_all_close(found[0], found[1], rtol=1e-4, atol=1e-5)
chex.assert_trees_all_close(found[0], found[2], rtol=1e-4, atol=1e-5)
losses = trainer.update_many(*map(np.stack, zip(*batches)), count=3)
print([bool(loss) for loss in losses if loss], tuple(trainer.export_params()["w0"].sharding.spec))

with tempfile.TemporaryDirectory() as folder:
    def saved(options, epochs):
        trainer = model.trainer(**options)
        run = Checkpoints(folder, sharded=epochs == 2)
        trainer.fit(batches, epochs, None, quiet, checkpoints=run, resume=epochs > 1)
        return trainer

    first = saved({"devices": 4, "sharding": "fsdp"}, 1)
    other = saved({"mesh": MIXED, "sharding": model.mixed}, 2)
    shards = f"{folder}/step-000000012"
    first.load(shards)
    alone = load_trainer(f"{shards}/index.safetensors", "cpu:1")
    for again in (first, load_trainer(shards), alone):
        chex.assert_trees_all_equal(again.export_params(), other.export_params())
        chex.assert_trees_all_equal(*(t._export(t.layout.optimizer) for t in (again, other)))
    last = saved({}, 3)
    whole = model.trainer()
    whole.fit(batches, 3, None, quiet)
    chex.assert_trees_all_close(last.export_params(), whole.export_params(), rtol=1e-3, atol=1e-5)
    other.save(f"{folder}/other")
    again, alone = load_trainer(f"{folder}/other"), load_trainer(f"{folder}/other", "cpu:1")
    print(again.device.size, alone.device)
    losses = [t.update(*batches[0]) for t in (other, again, alone)]
    np.testing.assert_allclose(losses[1:], losses[:1] * 2, rtol=1e-5)
    again.export(f"{folder}/exported")
"""
)


def test_fit_checkpoints_and_predictions_are_those_of_one_device() -> None:
    assert printed_lines(FIT, 4) == ["[True, True, True] (None, ('data', 'model'))", "4 cpu:1"]


SCALED = (
    HEAD
    + """
from relaxjax.training.numerics import NumericsError

model = MODELS["layers"]("float32")
x, y = model.batches[0]
spoilt = x.copy()
spoilt[1, 0] = np.inf
found = []
for options in ({}, {"devices": 4}, {"mesh": MIXED, "sharding": "fsdp"}):
    trainer = model.trainer(loss_scale="dynamic", **options)
    found.append([float(trainer.update(x, y)) for _ in range(3)])
    before = jax.tree.map(np.asarray, trainer.export_params())
    trainer.update(spoilt, y)
    chex.assert_trees_all_equal(jax.tree.map(np.asarray, trainer.export_params()), before)
    try:
        trainer.check_numerics(spoilt, y)
    except NumericsError as error:
        print(trainer.loss_scale, "1 of its" in str(error))
chex.assert_trees_all_close(found[1:], found[:1] * 2, rtol=1e-4)
"""
)


def test_a_scaled_loss_skips_what_is_not_finite_on_all_devices() -> None:
    assert printed_lines(SCALED, 4) == ["16384.0 True"] * 3


GIVEN = (
    HEAD
    + """
def loss(params, state, batch, key):
    value = jax.numpy.mean((batch @ params) ** 2) * jax.random.uniform(key)
    return value, (0.9 * state, None)

batch = np.ones((8, 4), "float32")
for key in (jax.random.key(1), jax.random.PRNGKey(1)):
    params, state = jax.numpy.ones(4), jax.numpy.ones(3)
    trainer = Trainer.from_jax(
        loss, params, optax.sgd(0.1), batch, model_state=state, key=key, devices=4
    )
    trainer.update(batch)
    first, follows, later = jax.numpy.zeros(4), jax.numpy.zeros(3), jax.random.key(2)
    trainer.load_params([first])
    trainer.load_states([follows, later])
    trainer.update(batch)
    given = (key, params, state, first, follows, later)
    print([array.is_deleted() for array in given])
"""
)


def test_a_step_on_several_devices_leaves_alone_what_was_given() -> None:
    """JAX keeps the memory of one device where all are to have an array."""
    assert printed_lines(GIVEN, 4) == [str([False] * 6)] * 2


STACKED = (
    HEAD
    + """
numbers = np.random.default_rng(0)
layers = {str(n): numbers.normal(0, 0.2, (8, 8)).astype("float32") for n in range(4)}
batch = numbers.normal(size=(8, 8)).astype("float32")

def loss(params, x):
    for n in range(4):
        x = x + jax.numpy.tanh(x @ params[str(n)])
    return jax.numpy.mean(x * x)

found = []
with tempfile.TemporaryDirectory() as folder:
    for options in ({}, {"devices": 4, "sharding": "fsdp"}):
        made = lambda: Trainer.from_jax(
            loss, layers, optax.adamw(0.01), batch, roll_blocks=True, **options
        )
        trainer = made()
        losses = [float(trainer.update(batch)) for _ in range(2)]
        place = f"{folder}/{len(options)}.safetensors"
        trainer.save(place)
        again = made()
        again.load(f"{folder}/0.safetensors")
        found.append((losses, trainer.params, float(again.update(batch))))
    states = trainer._state.optimizer
    print([(x.shape, tuple(x.sharding.spec)) for x in states if x.ndim])
chex.assert_trees_all_close(*found, rtol=1e-5, atol=1e-6)
"""
)


def test_layers_are_rolled_with_an_optimizer_of_optax_on_several_devices() -> None:
    assert printed_lines(STACKED, 4) == [
        "[((4, 8, 8), (None, 'data')), ((4, 8, 8), (None, 'data'))]"
    ]


REFUSED = (
    HEAD
    + """
layers, gpt = MODELS["layers"]("float32"), MODELS["gpt"]("float32")
told(lambda: layers.trainer(devices=8))
told(lambda: layers.trainer(devices=3))
told(lambda: layers.trainer(devices=2, mesh=MIXED))
told(lambda: layers.trainer(sharding="fsdp"))
told(lambda: layers.trainer(devices=2, sharding="fsd"))
told(lambda: layers.trainer(mesh={"data": 2, "model": 2}, sharding={"v0": ("model",)}))
told(lambda: layers.trainer(mesh={"data": 1, "model": 3}, sharding={"w0": (None, "model")}))
told(lambda: layers.trainer(mesh=MIXED, sharding={"w0": ("modell",)}))
told(lambda: layers.trainer(mesh=MIXED, sharding={"b0": (None, "model")}))
told(lambda: layers.trainer(mesh=MIXED, sharding={"w0": ("model", "model")}))
told(lambda: layers.trainer(mesh=MIXED, sharding={"w0": "model"}))
told(lambda: layers.trainer(mesh=[4]))
told(lambda: layers.trainer(mesh={"data": 0}))
one = {"blocks/0/widen": (None, "model")}
told(lambda: gpt.trainer(mesh=MIXED, sharding=one))
told(lambda: gpt.trainer(mesh=MIXED, sharding={"blocks/*/wide": ("model",)}))
trainer = layers.trainer(devices=2)
mesh = Mesh(np.array(jax.devices()), ("data",))
told(lambda: Trainer(trainer.mod, trainer.vm, mesh))
"""
)

SAID = """\
the mesh {"data": 8} takes 8 devices, but JAX has 4 here: give a smaller mesh, or on a CPU make \
more of it, before JAX is first used, by jax.config.update("jax_num_cpu_devices", 8)
a batch has 16 samples, which the axis `data` of 3 devices does not divide: give batches of 15 or \
18, such as by drop_last=True of the loader
give `mesh` or `devices`, which is short for a mesh of one axis, but not both
`sharding` says how a training is on several devices, 'fsdp', but not on which: give `mesh`, such \
as {"data": 4}, or `devices`, such as 4
there is no sharding `fsd`: it is "data", "fsdp", or a mapping from patterns for names of \
parameters to specs; did you mean `fsdp`?
the pattern 'v0' of `sharding` matches no parameter: there are `w0`, `b0`, `w1`, `b1`
dimension 1 of `w0` is 32, which the axis `model` of 3 devices does not divide: 1, 2, 4, 8, 16, \
32 would; or keep that dimension whole, by None in its spec
what matches 'w0' is split along the axis `modell`, but the mesh has `data`, `model`; did you \
mean `model`?
`b0` is of type R.Tensor((32,), dtype="float32"), but the spec for it splits its dimension 1
what matches 'w0' is split along the axis `model` twice: an axis splits one dimension of an array
what matches 'w0' is split by a jax.sharding.PartitionSpec or a tuple such as (None, "model"), \
with an entry for each dimension, but 'model' was given
SetupTrainer: the option `mesh` must be Mesh or a dict from str to int or None, but [4] of type \
list was given
the axis `data` of the mesh must have 1 device or more: 0
"""


def test_what_cannot_be_is_refused_by_name() -> None:
    found = printed_lines(REFUSED, 4)
    assert found[:13] == SAID.splitlines()
    assert "belong to equal layers that are rolled into one loop" in found[13]
    assert found[14].startswith("the pattern 'blocks/*/wide' of `sharding` is for none of the")
    assert found[15].startswith("the trainer is to be on a mesh of {'data': 4}, but its module")


COMMUNICATION = (
    HEAD
    + """
import jax.numpy as jnp
from relaxjax.lowering.collectives import collectives_of

rng = np.random.default_rng(0)
params = {name: rng.normal(size=size).astype("f") for name, size in
          {"up": (8, 32), "bias": 32, "down": (32, 8)}.items()}
batch = rng.normal(size=(16, 8)).astype("f"), rng.normal(size=(16, 8)).astype("f")
optimizer = optax.adam(0.01)


def loss(params, batch):
    x, y = batch
    h = x + jnp.tanh(x @ params["up"] + params["bias"]) @ params["down"]
    return jnp.mean((h - y) ** 2)


def by_hand(mesh, specs, axes):
    there = jax.tree.map(lambda spec: NamedSharding(mesh, spec), specs)
    whole = NamedSharding(mesh, P())
    given = jax.device_put(params, there)
    state = optimizer.init(given)
    of_state = optax.tree_utils.tree_map_params(
        optimizer, lambda _, one: one, state, there, transform_non_params=lambda _: whole
    )

    def step(params, state, batch):
        value, gradients = jax.value_and_grad(loss)(params, batch)
        updates, state = optimizer.update(gradients, state, params)
        return value, optax.apply_updates(params, updates), state

    jitted = jax.jit(step, donate_argnums=(0, 1), out_shardings=(whole, there, of_state))
    split = jax.device_put(batch, NamedSharding(mesh, P(axes)))
    text = jitted.lower(given, jax.device_put(state, of_state), split).compile().as_text()
    return sorted((one.kind, one.bytes) for one in collectives_of(text))


mixed = {"up": P(None, "model"), "bias": P("model"), "down": P("model")}
for options in ({"devices": 4}, {"mesh": MIXED, "sharding": mixed}):
    trainer = Trainer.from_jax(loss, params, optimizer, batch, **options)
    report = trainer.communication()
    arrays = trainer.export_params()
    specs = {name: arrays[f"params_{name}"].sharding.spec for name in params}
    expected = by_hand(trainer.device, specs, "data")
    assert sorted((one.kind, one.bytes) for one in report.exchanges) == expected, report
    assert report.to_json()["by_kind"] == report.by_kind
    assert "params_up_adjoint_out" in report._repr_html_()
    for one in report.exchanges:
        line = None if one.span is None else one.span.source_line().strip().split(" ")[0]
        print(one.kind, one.bytes, one.times, one.axes, one.part, line, one.is_overlapped)
plain, whole = loss, NamedSharding(trainer.device, P())


def loss(params, batch):
    return plain(jax.lax.with_sharding_constraint(params, whole), batch)


fully = Trainer.from_jax(plain, params, optimizer, batch, devices=4, sharding="fsdp")
arrays = fully.export_params()
specs = {name: arrays[f"params_{name}"].sharding.spec for name in params}
whole, found = NamedSharding(fully.device, P()), fully.communication()
expected = by_hand(fully.device, specs, "data")
assert sorted((one.kind, one.bytes) for one in found.exchanges) == expected, found
print(found.by_kind)
print(Trainer.from_jax(plain, params, optimizer, batch).communication())
print(repr(report))
"""
)


def test_what_devices_exchange_is_what_they_do_in_plain_jax() -> None:
    *rows, fully, alone, report = printed_lines(COMMUNICATION, 4)
    assert fully == "{'all-gather': 2176, 'all-reduce': 2180}"
    assert rows == [
        "all-reduce 1024 1 ('data',) backward h None",
        "all-reduce 1024 1 ('data',) backward h None",
        "all-reduce 128 1 ('data',) backward h None",
        "all-reduce 4 1 ('data',) forward return None",
        "all-reduce 512 1 ('data',) backward h None",
        "all-reduce 512 1 ('data',) backward h None",
        "all-reduce 256 1 ('model',) forward h None",
        "all-reduce 64 1 ('data',) backward h None",
        "all-reduce 4 1 ('data',) forward return None",
    ]
    assert alone == "the training is on one device, which tells nobody anything"
    assert report.startswith(
        "<CommunicationReport: 1.3 KiB a step and device on a mesh of data 2 x"
    )


ROLLED = (
    HEAD
    + """
report = MODELS["gpt"]("float32").trainer(devices=4, sharding="fsdp").communication()
for one in report.exchanges:
    if one.kind == "all-gather":
        print(one.part, one.bytes, one.times)
"""
)


def test_a_loop_over_layers_gathers_one_layer_at_a_time() -> None:
    layers = 4 * 2 * 16 * (48 + 16 + 64 + 64)
    assert printed_lines(ROLLED, 4) == [
        f"forward {layers} 8",
        f"backward {layers} 8",
        f"forward {4 * 32 * 16} 1",
    ]


BUDGET = (
    HEAD
    + """
import jax.numpy as jnp

x = np.cos(np.arange(512 * 16, dtype="f")).reshape(512, 16)
params = [np.cos(np.arange(256, dtype="f") + n).reshape(16, 16) for n in range(8)]


def loss(params, batch):
    for w in params:
        batch = batch + jnp.sin(jnp.tanh(batch @ w))
    return jnp.mean(batch**2)


def bytes_of(**options):
    trainer = Trainer.from_jax(loss, params, optax.sgd(0.1), x, **options)
    trainer.update(x)
    return trainer.temporary_bytes(x)


jax.config.update("jax_disable_most_optimizations", False)
kept = bytes_of(devices=4, memory_policy="none")
print(bytes_of(devices=4, memory_budget=kept * 3 // 4) <= kept * 3 // 4)
print(kept < bytes_of(memory_policy="none") / 2)
"""
)


@pytest.mark.skipif(not FULL, reason="a budget is compiled for many times: RELAXJAX_FULL=1")
def test_a_budget_is_for_each_device() -> None:
    assert printed_lines(BUDGET, 4) == ["True", "True"]
