"""Policies that take a batch in parts where that saves memory: which, and what they compute."""

import re
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from parsing import parse_main

import relaxjax
from relaxjax.ir.module import IRModule
from relaxjax.ops.platform import chosen_platform, has_several_cpus
from relaxjax.passes import MemoryPlanError, Rematerialize
from relaxjax.passes.memory import parts_of_batch
from relaxjax.passes.memory.batch.choosing import (
    Parts,
    batches,
    counts,
    counts_to_one,
    most_quick,
)
from relaxjax.passes.memory.parts_of_batch import split_as
from relaxjax.passes.memory.planning import kept_counts
from relaxjax.passes.memory.rematerialize import decided

pytestmark = pytest.mark.skipif(
    chosen_platform() != "cpu" or has_several_cpus(), reason="it is for one CPU"
)

ADJOINT = "loss_adjoint"
WIDTH, LAYERS, SAMPLES = 128, 8, 1024


def loss(params: Any, x: Any, y: Any) -> Any:
    for weight in params:
        x = x + jnp.tanh(x @ weight)
    return ((x - y) ** 2).mean()


def normed(params: Any, x: Any, y: Any) -> Any:
    """Each layer takes the mean of the batch."""
    for weight in params:
        x = x + jnp.tanh(x @ weight)
        x = x - x.mean(0, keepdims=True)
    return ((x - y) ** 2).mean()


def arguments() -> Any:
    rng = np.random.default_rng(0)
    params = [0.1 * rng.normal(size=(WIDTH, WIDTH)).astype("float32") for _ in range(LAYERS)]
    x, y = rng.normal(size=(2, SAMPLES, WIDTH)).astype("float32")
    return params, x, y


@pytest.fixture(autouse=True)
def _no_plans_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_counts, "plans_folder", lambda: None)


@pytest.mark.parametrize("policy", ["balanced", "minimal"])
def test_a_batch_is_taken_in_parts(policy: str) -> None:
    made = relaxjax.value_and_grad(loss, memory_policy=policy)
    given = arguments()
    script = made.module(*given).script()
    assert "length=4" in script
    assert f'R.Tensor(({SAMPLES}, {WIDTH}), dtype="float32") = L.tanh' not in script
    chex.assert_trees_all_close(
        jax.jit(made)(*given), jax.value_and_grad(loss)(*given), rtol=1e-4, atol=1e-6
    )


def test_memory_falls() -> None:
    given = arguments()

    def taken(policy: str | None) -> int:
        made = jax.jit(relaxjax.value_and_grad(loss, memory_policy=policy))
        memory = made.lower(*given).compile().memory_analysis()
        assert memory is not None
        return int(memory.temp_size_in_bytes)

    assert taken("balanced") < 0.5 * taken("free")


def test_a_budget_that_no_plan_keeps_is_kept_in_parts() -> None:
    given = arguments()
    made = jax.jit(relaxjax.value_and_grad(loss, memory_budget="1500KiB"))
    memory = made.lower(*given).compile().memory_analysis()
    assert memory is not None
    assert memory.temp_size_in_bytes <= 1500 * 2**10
    with pytest.raises(MemoryPlanError, match="cannot be computed within"):
        jax.jit(relaxjax.value_and_grad(loss, memory_budget="100KiB")).lower(*given)


def test_within_a_budget_a_part_may_be_one_sample() -> None:
    """Of four samples, whose rows are not apart."""

    def rowed(params: Any, x: Any, y: Any) -> Any:
        for weight in params:
            x = x + jnp.tanh(x @ weight)
            x = x - x.mean(1, keepdims=True)
        return ((x - y) ** 2).mean()

    rng = np.random.default_rng(0)
    params = [0.1 * rng.normal(size=(8, 8)).astype("float32") for _ in range(4)]
    given = params, *rng.normal(size=(2, 4, 512, 8)).astype("float32")
    made = relaxjax.value_and_grad(rowed, memory_budget="30%")
    assert "length=4" in made.module(*given).script()
    chex.assert_trees_all_close(
        jax.jit(made)(*given), jax.value_and_grad(rowed)(*given), rtol=1e-4, atol=1e-6
    )


def test_how_many_single_samples_are_tried() -> None:
    """Of a hundred and some, where more parts of several samples are not."""
    assert counts_to_one(4) == [2, 4]
    assert counts_to_one(128) == [2, 4, 8, 16, 32, 64, 128]
    assert counts_to_one(1024)[-1] == 64


def test_gradients_of_large_matrices_are_within_a_budget_of_one_sample() -> None:
    """Each part of more samples would have its gradient of a matrix beside the sum."""

    def loss(params: Any, x: Any) -> Any:
        for weight in params:
            x = jnp.tanh(x @ weight)
        return (x**2).mean()

    rng = np.random.default_rng(0)
    params = [0.1 * rng.normal(size=(96, 96)).astype("float32") for _ in range(4)]
    given = params, rng.normal(size=(80, 96)).astype("float32")
    made = relaxjax.value_and_grad(loss, memory_budget="20KiB")
    assert "length=80" in made.module(*given).script()
    chex.assert_trees_all_close(
        jax.jit(made)(*given), jax.value_and_grad(loss)(*given), rtol=1e-4, atol=1e-6
    )


def test_samples_that_are_compared_are_computed_twice_within_a_budget() -> None:
    def contrastive(params: Any, x: Any) -> Any:
        for weight in params:
            x = x + jnp.tanh(x @ weight)
        rows = x[:, :8]
        return -jnp.diagonal(jax.nn.log_softmax(rows @ rows.T)).mean()

    params, x, _ = arguments()
    given = params, x[:256].repeat(2, 1)[:, :WIDTH]
    made = relaxjax.value_and_grad(contrastive, memory_budget="900KiB")
    assert "length=" in made.module(*given).script()
    compiled = jax.jit(made).lower(*given).compile()
    memory = compiled.memory_analysis()
    assert memory is not None
    assert memory.temp_size_in_bytes <= 900 * 2**10
    chex.assert_trees_all_close(
        compiled(*given), jax.value_and_grad(contrastive)(*given), rtol=1e-4, atol=1e-6
    )


def test_a_budget_too_small_for_parts_tells_what_they_take() -> None:
    """A budget of that is kept, and less than it is not."""
    mod = relaxjax.value_and_grad(loss, memory_policy="none").module(*arguments())
    with pytest.raises(MemoryPlanError, match="with the batch in parts; give at least") as caught:
        decided(mod, ADJOINT, 1000)
    (least,) = re.findall(r"found is ([\d,]+) bytes", str(caught.value))
    assert decided(mod, ADJOINT, int(least.replace(",", ""))).parts is not None


def test_only_the_most_parts_are_looked_at_where_they_do_not_keep_a_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    split: list[int] = []

    def watched(mod: IRModule, name: str, parts: Parts) -> IRModule:
        split.append(parts.number)
        return split_as(mod, name, parts)

    monkeypatch.setattr(parts_of_batch, "split_as", watched)
    mod = relaxjax.value_and_grad(loss, memory_policy="none").module(*arguments())
    with pytest.raises(MemoryPlanError, match="cannot be computed within 999 bytes"):
        decided(mod, ADJOINT, 999)
    most = max(counts(SAMPLES, fewest=1))
    assert set(split) == {most}


def test_a_whole_step_takes_it_in_parts() -> None:
    params, *batch = arguments()
    results = []
    for policy in ("balanced", "none"):
        init, step = relaxjax.train_step(
            lambda params, batch: loss(params, *batch), optax.adam(1e-2), memory_policy=policy
        )
        state = init(params)
        for _ in range(2):
            state, value = step(state, batch)
        results.append((state.params, value))
    chex.assert_trees_all_close(*results, rtol=1e-3, atol=1e-4)


def test_the_report_tells_of_the_parts() -> None:
    mod = relaxjax.value_and_grad(loss, memory_policy="none").module(*arguments())
    report = relaxjax.memory(mod, ADJOINT, policy="balanced")
    whole = relaxjax.memory(mod, ADJOINT, policy="none")
    assert report.peak < 0.5 * whole.peak
    assert "parts" in str(report)


def test_so_are_checkpointed_layers() -> None:
    """What is computed again in them waits for the adjoint, of which each part has its own."""

    def checkpointed(params: Any, x: Any, y: Any) -> Any:
        layer = jax.checkpoint(lambda x, weight: (x + jnp.tanh(x @ weight), None))
        return ((jax.lax.scan(layer, x, jnp.stack(params))[0] - y) ** 2).mean()

    given = arguments()
    made = relaxjax.value_and_grad(checkpointed, memory_policy="balanced")
    script = made.module(*given).script()
    assert "def part(" in script
    assert f'R.Tensor(({SAMPLES}, {WIDTH}), dtype="float32") = L.tanh' not in script
    chex.assert_trees_all_close(
        jax.jit(made)(*given), jax.value_and_grad(checkpointed)(*given), rtol=1e-4, atol=1e-6
    )


def test_samples_that_are_mixed_stay_together() -> None:
    made = relaxjax.value_and_grad(normed, memory_policy="balanced")
    assert "R.scan" not in made.module(*arguments()).script()


def test_what_somebody_decides_is_of_whole_values() -> None:
    mod = relaxjax.value_and_grad(loss, memory_policy="none").module(*arguments())
    name = next(b.var.name for b in mod[ADJOINT].body.bindings() if "tanh" in str(b.value))
    kept = Rematerialize(ADJOINT, policy="balanced", must_keep=[name])(mod)
    assert "R.scan" not in kept.script()


def test_a_plan_in_parts_is_kept_on_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    mod = relaxjax.value_and_grad(loss, memory_policy="none").module(*arguments())
    monkeypatch.setattr("relaxjax.passes.memory.planning.kept_plans.plans_folder", lambda: tmp_path)
    first = Rematerialize(ADJOINT, policy="balanced")(mod)
    monkeypatch.setattr("relaxjax.passes.memory.rematerialize.in_parts", None)  # not asked again
    again = Rematerialize(ADJOINT, policy="balanced")(mod)
    assert first.script() == again.script()
    assert "length=4" in again.script()


def test_on_a_mesh_the_batch_is_in_parts_already() -> None:
    mesh = jax.make_mesh((1,), ("data",))
    mod = relaxjax.value_and_grad(loss, memory_policy="none").module(*arguments())
    with jax.sharding.set_mesh(mesh):
        assert "R.scan" not in Rematerialize(ADJOINT, policy="balanced")(mod).script()


def test_several_devices_may_have_their_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    mod = relaxjax.value_and_grad(loss, memory_policy="none").module(*arguments())
    monkeypatch.setattr("relaxjax.passes.memory.parts_of_batch.has_several_cpus", lambda: True)
    assert "R.scan" not in Rematerialize(ADJOINT, policy="balanced")(mod).script()


def test_which_axes_may_be_those_of_a_batch() -> None:
    """What has no gradient, the last first; then second axes."""
    mod = parse_main(
        "s = L.reduce_sum(x, axes=[0, 1])\nreturn s, (w,)", w=(4, 3), m=(5,), x=(4, 6), y=(4, 6)
    )
    found = [{var.name: axis for var, axis in axes.items()} for axes in batches(mod["main"])]
    assert found == [{"x": 0, "y": 0}, {"m": 0}, {"x": 1, "y": 1}]


def test_how_many_parts_there_may_be() -> None:
    assert list(counts(64)) == [2, 4, 8, 16, 32]
    assert list(counts(12)) == [2, 3, 4, 6]
    assert list(counts(4)) == [2]  # a part has two samples
    assert list(counts(2)) == []
    assert list(counts(4, fewest=1)) == [2, 4]


def test_a_part_of_few_bytes_takes_long() -> None:
    function = parse_main("return x", x=(4, 6))["main"]
    assert most_quick(function, 7 * 2**20) == 7
    assert most_quick(function, 2**30) == 8


def test_long_loops_are_taken_in_two_parts() -> None:
    def recurrent(weight: Any, x: Any) -> Any:
        def step(state: Any, row: Any) -> Any:
            return jnp.tanh(row + state @ weight), None

        return jax.lax.scan(step, jnp.zeros_like(x[0]), x)[0].mean()

    x = jnp.zeros((16, 64, 8))
    mod = relaxjax.value_and_grad(recurrent).module(jnp.eye(8), x)
    assert most_quick(mod[ADJOINT], 100 * 2**20) == 2
