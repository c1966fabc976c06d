"""What a program takes at least: never more than XLA counts of any plan, and told by line."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
import pytest

import relaxjax
from relaxjax import IRModule, memory
from relaxjax.passes.memory.planning.bound import Bound, least_bytes
from relaxjax.passes.memory.planning.plans_by_count import Chooser
from relaxjax.passes.memory.program.program import Program
from relaxjax.passes.memory.program.step import MemoryPlanError
from relaxjax.passes.memory.rematerialize import decided

ADJOINT = "loss_adjoint"
X = jnp.ones((256, 16))
IMAGES = jnp.ones((2, 16, 16, 4))


def product(w: Any) -> Any:
    scores = X @ w
    return jnp.mean(jnp.tanh(scores @ scores.T) ** 2)


LINE = product.__code__.co_firstlineno + 2  # of the product


def convolutions(w: Any) -> Any:
    hidden = IMAGES
    for _ in range(2):
        hidden = jax.nn.relu(jax.lax.conv_general_dilated(
            hidden, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")))  # fmt: skip
    return jnp.sum(hidden**2)


def loop(w: Any) -> Any:
    def step(carry: Any, _: Any) -> Any:
        new = jnp.tanh(carry @ w)
        return new, new.sum()

    last, sums = jax.lax.scan(step, X, None, length=5)
    return last.sum() + sums.sum()


def half(w: Any) -> Any:
    return jnp.mean(jax.nn.softmax((X.astype("bfloat16") @ w.astype("bfloat16")) * 2) ** 2)


LOSSES: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "a product": (product, jnp.eye(16)),
    "convolutions": (convolutions, jnp.ones((3, 3, 4, 4))),
    "a loop": (loop, jnp.eye(16)),
    "half precision": (half, jnp.eye(16)),
}


def adjoint(name: str) -> IRModule:
    loss, w = LOSSES[name]
    return relaxjax.value_and_grad(loss, memory_policy="none").module(w)


def bound_of(mod: IRModule) -> Bound:
    function: Any = mod[ADJOINT]
    return least_bytes(Program.of(function, mod, ADJOINT))


@pytest.mark.parametrize("name", LOSSES)
def test_no_plan_takes_less(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the batch whole."""
    monkeypatch.setattr("relaxjax.passes.memory.parts_of_batch.batches", lambda function: ())
    mod = adjoint(name)
    least = bound_of(mod).bytes
    counts = [memory(mod, ADJOINT, policy=policy).bytes_by_xla for policy in ("none", "minimal")]
    assert 0 < least <= min(counts)


def test_what_a_product_reads_and_gives_is_there_at_once() -> None:
    """An adjoint as large as the product, and two as large as the scores."""
    found = bound_of(adjoint("a product"))
    assert found.bytes == 4 * (256 * 256 + 2 * 256 * 16)
    assert found.step is not None
    assert found.step.span is not None
    assert found.step.span.line == LINE
    assert sorted(found.held.values()) == [4 * 256 * 16, 4 * 256 * 16, 4 * 256 * 256]


def test_results_have_room_for_other_values() -> None:
    """A gradient as large as the product has its memory until it is computed."""

    def loss(w: Any) -> Any:
        return jnp.sum(jnp.tanh(w @ w))

    mod = relaxjax.value_and_grad(loss, memory_policy="none").module(jnp.eye(32))
    assert bound_of(mod).bytes < 4 * 32 * 32 * 2


def test_a_gradient_that_waits_for_all_others_is_there() -> None:
    """Clipping by the norm of all needs each of them before it, and again behind it."""

    def loss(params: Any, batch: Any) -> Any:
        for w in params:
            batch = batch @ w
        return jnp.mean(batch**2)

    params, batch = [jnp.ones((64, 64))] * 4, jnp.ones((8, 64))
    bounds = []
    for tx in (optax.sgd(0.1), optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(0.1))):
        init, step = relaxjax.train_step(loss, tx, memory_policy="none")
        report = step.memory(jax.eval_shape(init, params), batch)
        bounds.append(least_bytes(report.planner.program).bytes)
        assert bounds[-1] <= report.bytes_by_xla
    assert bounds[1] >= 3 * 4 * 64 * 64 > bounds[0]


def test_a_budget_below_it_is_refused_before_any_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    mod, wanted = adjoint("a product"), bound_of(adjoint("a product"))
    monkeypatch.setattr(Chooser, "within", lambda *_: pytest.fail("a plan is tried"))
    with pytest.raises(MemoryPlanError) as caught:
        decided(mod, ADJOINT, wanted.bytes - 1)
    message = str(caught.value)
    assert "within 294,911 bytes, in whatever order: 294,912 bytes for `" in message
    assert f"test_bound.py:{LINE}, which takes, gives or carries `" in message
    assert message.endswith("; give at least that, or a smaller batch")


def adjoint_by_a_loop(steps: Any, others: list[Any], beside: Callable[[Any], Any]) -> IRModule:
    """By a rule that carries a gradient of 500 numbers and others, until so many `steps`."""

    @jax.custom_vjp
    def solved(w: Any) -> Any:
        return w[0] * 2

    def backward(w: Any, adjoint: Any) -> Any:
        def step(carry: Any) -> Any:
            number, total, others = carry
            return number + 1, total + adjoint, [jnp.sin(other + total[0]) for other in others]

        start = (0, jnp.zeros_like(w), others)
        end = jax.lax.while_loop(lambda carry: carry[0] < (steps or w[0]), step, start)
        return (end[1] + jnp.sum(jnp.concatenate(end[2])) + beside(w),)

    solved.defvjp(lambda w: (w[0] * 2, w), backward)
    return relaxjax.value_and_grad(solved, memory_policy="none").module(jnp.ones(500))


def test_a_loop_that_xla_knows_to_run_once_proves_nothing() -> None:
    """XLA does away with it, and with what it carries."""

    def beside(w: Any) -> Any:
        product = jnp.outer(w[:20], w[:20])
        return jnp.sum(jnp.tanh(product) @ jnp.tanh(product + 1))

    mod = adjoint_by_a_loop(1, [jnp.arange(3000.0)], beside)
    assert memory(mod, ADJOINT, policy="none").bytes_by_xla < bound_of(mod).bytes
    with pytest.raises(MemoryPlanError) as caught:
        decided(mod, ADJOINT, 1)
    assert "whatever order" not in str(caught.value)
    assert "at once" not in str(caught.value)


def test_where_nothing_is_proven_the_least_that_was_found_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "relaxjax.passes.memory.planning.decisions.least_bytes", lambda program: Bound()
    )
    with pytest.raises(MemoryPlanError) as caught:
        decided(adjoint("convolutions"), ADJOINT, 1)
    assert str(caught.value).endswith("; give at least that, or a smaller batch")


def test_one_above_it_that_no_plan_keeps_tells_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relaxjax.passes.memory.parts_of_batch.batches", lambda function: ())
    with pytest.raises(MemoryPlanError, match=r"the least that was found is .* is needed at once:"):
        decided(adjoint("convolutions"), ADJOINT, bound_of(adjoint("convolutions")).bytes)


def test_what_a_loop_of_unknown_length_carries_is_needed_at_once() -> None:
    """The gradients are results, which have memory of their own; the largest values are told."""
    others = [jnp.full((count,), 0.5) for count in range(300, 308)]
    mod = adjoint_by_a_loop(None, others, lambda w: 0.0)
    found = bound_of(mod)
    assert found.bytes == 4 * sum(range(300, 308))
    assert " of 1,216, `" in str(found)
    assert str(found).endswith(f", and {4 * (300 + 301 + 302) + 4:,} in 4 more")
    report = memory(mod, ADJOINT, policy="minimal")
    assert found.bytes <= report.bytes_by_xla
