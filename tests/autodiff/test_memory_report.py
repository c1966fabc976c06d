"""Where the bytes of the gradients of a loss in JAX go, beside those of JAX's own."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import optax
import pytest

import relaxjax


def loss(params: Any, batch: Any, *, scale: float = 1.0) -> Any:
    hidden = batch
    for weight in params:
        hidden = jax.nn.gelu(hidden @ weight)
    return scale * jnp.mean(hidden * hidden)


PARAMS = [jnp.ones((64, 64)) for _ in range(3)]
BATCH = jnp.ones((512, 64))


def temporary(step: Any) -> int:
    analysis = jax.jit(step).lower(PARAMS, BATCH).compile().memory_analysis()
    assert analysis is not None
    return int(analysis.temp_size_in_bytes)


def test_all_is_kept_unless_asked() -> None:
    report = relaxjax.value_and_grad(loss).memory(PARAMS, BATCH, scale=2.0)
    assert report.recomputed == ()
    assert {row.span.file for row in report.rows if row.span} == {__file__}


def test_large_programs_are_planned_unless_told_otherwise() -> None:
    """From 28 MiB on, by the plan of "free", before by a lighter one; the gradients stay."""
    params = [jnp.full((64, 64), 0.1) for _ in range(6)]
    small, middle, large = (jnp.ones((2**size, 64)) for size in (8, 12, 14))

    def compiled(batch: Any, policy: str | None) -> Any:
        step = relaxjax.value_and_grad(loss, memory_policy=policy)
        return jax.jit(step).lower(params, batch).compile()

    def taken(batch: Any, policy: str | None) -> int:
        return int(compiled(batch, policy).memory_analysis().temp_size_in_bytes)

    assert taken(small, None) == taken(small, "none") > taken(small, "free")
    assert taken(middle, "free") <= taken(middle, None) <= 0.8 * taken(middle, "none")
    assert taken(large, None) == taken(large, "free") <= 0.6 * taken(large, "none")
    found, kept = (compiled(large, policy)(params, large) for policy in (None, "none"))
    chex.assert_trees_all_close(found, kept, rtol=1e-5)
    assert relaxjax.value_and_grad(loss).memory(params, large).recomputed


@pytest.mark.parametrize("options", [{"memory_policy": "free"}, {"memory_budget": "70%"}])
def test_a_plan_is_that_of_the_step(options: dict[str, Any]) -> None:
    step = relaxjax.value_and_grad(loss, **options)
    report = step.memory(PARAMS, BATCH)
    assert report.recomputed
    assert report.bytes_by_xla == pytest.approx(temporary(step), rel=0.05)
    assert report.bytes_by_xla < report.bytes_by_xla_of_all_kept


def test_beside_jax() -> None:
    report = relaxjax.value_and_grad(loss, memory_policy="free").memory(PARAMS, BATCH)
    found = report.compared_with_jax()
    assert found.bytes == report.bytes_by_xla
    assert found.bytes_of_jax == pytest.approx(temporary(jax.value_and_grad(loss)), rel=0.05)
    assert found.share == found.bytes / found.bytes_of_jax
    assert str(found).endswith(f"by jax.value_and_grad: {found.share:.2f} of it, by XLA's count")


def test_beside_jax_with_what_no_program_holds() -> None:
    def with_mode(params: Any, batch: Any, mode: str) -> Any:
        return loss(params, batch) if mode == "train" else 0.0, {"mode": mode}

    report = relaxjax.value_and_grad(with_mode, has_aux=True).memory(PARAMS, BATCH, "train")
    wanted = temporary(jax.value_and_grad(loss))
    assert report.compared_with_jax().bytes_of_jax == pytest.approx(wanted, rel=0.05)


def test_beside_jax_in_the_precision_of_the_call() -> None:
    with jax.enable_x64(True):
        params = [weight.astype("float64") for weight in PARAMS]
        report = relaxjax.value_and_grad(loss).memory(params, BATCH.astype("float64"))
    wanted = 2 * temporary(jax.value_and_grad(loss))
    assert report.compared_with_jax().bytes_of_jax == pytest.approx(wanted, rel=0.05)


def test_shapes_alone_are_enough_to_plan_and_not_to_run() -> None:
    params, batch = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), (PARAMS, BATCH))
    gradients = relaxjax.value_and_grad(loss, memory_policy="free")
    wanted = gradients.memory(PARAMS, BATCH)
    assert gradients.memory(params, batch).to_json() == wanted.to_json()
    assert gradients.module(params, batch).script() == gradients.module(PARAMS, BATCH).script()
    message = (
        r"`params\[0\]` is a jax.ShapeDtypeStruct, which has no numbers .* `\.memory\(\.\.\.\)`"
    )
    with pytest.raises(TypeError, match=message):
        gradients(params, BATCH)
    with pytest.raises(TypeError, match=r"`batch` is a jax\.ShapeDtypeStruct"):
        gradients(PARAMS, batch)


def test_shapes_of_a_state_are_enough_to_plan_a_step() -> None:
    init, step = relaxjax.train_step(loss, optax.sgd(0.1), memory_policy="free")
    state, batch = jax.eval_shape(init, PARAMS), jax.ShapeDtypeStruct(BATCH.shape, BATCH.dtype)
    assert step.memory(state, batch).to_json() == step.memory(init(PARAMS), BATCH).to_json()
    with pytest.raises(TypeError, match=r"batch is a jax\.ShapeDtypeStruct, which has"):
        step(init(PARAMS), batch)
    with pytest.raises(TypeError, match=r"state\.params\[0\] is a jax\.ShapeDtypeStruct"):
        step(state, BATCH)
    with pytest.raises(TypeError, match=r"params\[0\] is a jax\.ShapeDtypeStruct"):
        init(state.params)
