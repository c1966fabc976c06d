"""Tables of which batches read few rows, trained by these rows: as dense, or lazily as written."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from parsing import parse_backbone
from small_models import trainer_of

from relaxjax import TensorType, Trainer
from relaxjax.losses import MSELoss
from relaxjax.optim import (
    LAMB,
    SGD,
    Adagrad,
    Adam,
    Lazy,
    MomentumSGD,
    Optimizer,
    ScheduleFreeAdamW,
    from_optax,
)
from relaxjax.passes import SetupTrainer
from relaxjax.trainable.names import OPTIMIZER
from relaxjax.training import load_trainer

ROWS, WIDTH = 100, 3
Params = dict[str, Any]


def params() -> Params:
    random = np.random.default_rng(0)
    drawn = {"bias": (ROWS,), "table": (ROWS, WIDTH), "w": (WIDTH,)}
    return {name: random.normal(size=shape).astype("float32") for name, shape in drawn.items()}


def batches(count: int = 4) -> list[Any]:
    """Ids with repeats, some of them counted from the back, and targets."""
    random = np.random.default_rng(1)
    return [
        (
            np.concatenate([random.integers(-ROWS, ROWS, 5), [7, 7]]).astype("int32"),
            random.normal(size=7).astype("float32"),
        )
        for _ in range(count)
    ]


def loss(params: Params, batch: Any) -> Any:
    ids, targets = batch
    found = params["table"][ids] @ params["w"] + params["bias"][ids]
    return jnp.mean((found - targets) ** 2)


def goes_in_turns(optimizer: Optimizer, target: str) -> bool:
    """Whether states wait for the rows that are written before."""
    ids = 'ids: R.Tensor((7,), "int32")'
    lookup = parse_backbone("out = R.take(table, ids, axis=0)", ids, param_num=1, table=(ROWS, 3))
    types = [TensorType((7, 3), "float32")] * 2
    module = SetupTrainer(MSELoss(), optimizer, types, legalize=False, target=target)(lookup)
    return "R.grad.delay" in module[OPTIMIZER].script()


@pytest.mark.parametrize(
    ("optimizer", "target", "wanted"),
    [
        (Lazy(Adam(0.1)), "cpu", True),
        (Lazy(Adam(0.1)), "cuda", False),
        (Lazy(MomentumSGD(0.1, 0.9)), "cpu", False),
    ],
)
def test_several_states_are_updated_one_after_the_other_on_a_cpu(
    optimizer: Optimizer, target: str, wanted: bool
) -> None:
    assert goes_in_turns(optimizer, target) is wanted


def test_the_rows_of_adam_are_never_all_there_at_once() -> None:
    values = {"table": np.ones((4096, 64), "float32")}
    ids = np.arange(512, dtype="int32")

    def squares(values: Any, ids: Any) -> Any:
        return jnp.mean(values["table"][ids] ** 2)

    trainer = Trainer.from_jax(squares, values, Lazy(Adam(0.1)), ids)
    taken = trainer.temporary_bytes(ids)
    assert taken is not None
    assert taken < 4 * ids.size * 64 * 4  # of the gradient, both states, and what becomes of them


@functools.cache
def trained(optimizer: Any, given: Callable[..., Any] = loss, **options: Any) -> Trainer:
    trainer = Trainer.from_jax(given, params(), optimizer, batches()[0], **options)
    for batch in batches():
        trainer.update(batch)
    return trainer


def stepped(optimizer: Any, given: Callable[..., Any] = loss) -> Params:
    """The same by JAX and optax, with whole gradients."""
    values: Any = params()
    state = optimizer.init(values)
    for batch in batches():
        gradients = jax.grad(given)(values, batch)
        updates, state = optimizer.update(gradients, state, values)
        values = optax.apply_updates(values, updates)
    return dict(values)


def goes_by_rows(trainer: Trainer) -> bool:
    return "scatter" in trainer.mod[OPTIMIZER].script()


CLIPPED = optax.chain(optax.clip_by_global_norm(0.5), optax.sgd(0.1))
EXACT = {
    "sgd": (SGD(0.1), optax.sgd(0.1)),
    "adagrad": (Adagrad(0.1), optax.adagrad(0.1)),
    "clipped": (CLIPPED, CLIPPED),
}


@pytest.mark.parametrize(("optimizer", "dense"), EXACT.values(), ids=EXACT)
def test_what_leaves_other_rows_alone_is_exact(optimizer: Any, dense: Any) -> None:
    trainer = trained(optimizer)
    assert goes_by_rows(trainer)
    chex.assert_trees_all_close(trainer.params, stepped(dense), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "optimizer", [Adam(0.1), MomentumSGD(0.1, 0.9), SGD(0.1, weight_decay=0.1), optax.adam(0.1)]
)
def test_what_moves_all_rows_stays_dense(optimizer: Any) -> None:
    assert not goes_by_rows(Trainer.from_jax(loss, params(), optimizer, batches()[0]))


def test_a_norm_of_parameters_behind_one_of_gradients_is_that_of_the_whole_table() -> None:
    both = optax.chain(
        optax.clip_by_block_rms(0.1), optax.scale_by_param_block_rms(), optax.scale(-0.1)
    )
    trainer = trained(both)
    assert not goes_by_rows(trainer)
    chex.assert_trees_all_close(trainer.params, stepped(both), rtol=1e-5, atol=1e-6)


def by_rows(
    formula: Callable[..., tuple[Any, list[Any]]], states: int, **params_of: Any
) -> tuple[Params, set[int]]:
    """Training with a formula that is written out, of the rows that occur; which rows these are."""
    values = params()
    kept = {name: [np.zeros_like(array)] * states for name, array in values.items()}
    occurred: set[int] = set()
    for step, batch in enumerate(batches(), start=1):
        gradients = jax.tree.map(np.asarray, jax.grad(loss)(values, batch))
        rows = np.unique(batch[0] % ROWS)
        occurred |= set(rows.tolist())
        for name, old in values.items():
            at: Any = slice(None) if name == "w" else rows
            given = [state[at] for state in kept[name]]
            new, new_states = formula(step, old[at], gradients[name][at], *given)
            values[name] = old.copy()
            values[name][at] = new
            kept[name] = [state.copy() for state in kept[name]]
            for state, found in zip(kept[name], new_states, strict=True):
                state[at] = found
    return values, occurred


def adam(step: int, p: Any, g: Any, m: Any, v: Any) -> tuple[Any, list[Any]]:
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    size = np.sqrt(v / (1 - 0.999**step)) + 1e-8
    return p - 0.1 * m / (1 - 0.9**step) / size, [m, v]


def momentum(step: int, p: Any, g: Any, v: Any) -> tuple[Any, list[Any]]:
    v = 0.9 * v + g + 0.1 * p
    return p - 0.1 * v, [v]


def sparse_adam(step: int, p: Any, g: Any, m: Any, v: Any) -> tuple[Any, list[Any]]:
    """As PyTorch's SparseAdam documents it: `eps` is added before the means are corrected."""
    m, v = m + 0.1 * (g - m), v + 0.001 * (g * g - v)
    rate = 0.1 * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
    return p - rate * m / (np.sqrt(v) + 1e-8), [m, v]


LAZY: dict[str, tuple[Optimizer, Any, int]] = {
    "adam": (Adam(0.1), adam, 2),
    "SparseAdam": (Adam(0.1), sparse_adam, 2),
    "optax": (from_optax(optax.adam(0.1)), adam, 2),
    "momentum": (MomentumSGD(0.1, 0.9, weight_decay=0.1), momentum, 1),
}


@pytest.mark.parametrize(("optimizer", "formula", "states"), LAZY.values(), ids=LAZY)
def test_a_lazy_optimizer_is_its_formula_for_the_rows_that_occur(
    optimizer: Optimizer, formula: Any, states: int
) -> None:
    trainer = trained(Lazy(optimizer))
    wanted, occurred = by_rows(formula, states)
    chex.assert_trees_all_close(trainer.params, wanted, rtol=1e-4, atol=1e-5)
    others = [row for row in range(ROWS) if row not in occurred]
    np.testing.assert_array_equal(
        trainer.params["table"][jnp.array(others)], params()["table"][others]
    )


def test_lazy_adam_is_the_sparse_adam_of_pytorch() -> None:
    """Where PyTorch is installed: its lookups with sparse gradients, the same batches and steps."""
    torch = pytest.importorskip("torch")
    values = {name: torch.nn.Parameter(torch.tensor(p)) for name, p in params().items()}
    values["bias"] = torch.nn.Parameter(values["bias"].detach()[:, None])
    tables = torch.optim.SparseAdam([values["table"], values["bias"]], lr=0.1)
    rest = torch.optim.Adam([values["w"]], lr=0.1)
    for ids, targets in batches():
        places = torch.tensor(ids % ROWS).long()
        rows, bias = (
            torch.nn.functional.embedding(places, values[name], sparse=True)
            for name in ("table", "bias")
        )
        for optimizer in (tables, rest):
            optimizer.zero_grad()
        torch.mean((rows @ values["w"] + bias[:, 0] - torch.tensor(targets)) ** 2).backward()
        for optimizer in (tables, rest):
            optimizer.step()
    wanted = {name: p.detach().numpy() for name, p in values.items()}
    wanted["bias"] = wanted["bias"][:, 0]
    chex.assert_trees_all_close(trained(Lazy(Adam(0.1))).params, wanted, rtol=1e-4, atol=1e-5)


def test_lazy_clipping_takes_the_norm_of_summed_rows() -> None:
    """In the first step, in which momentum is of the gradients alone, it is as if dense."""
    optimizer = optax.chain(optax.clip_by_global_norm(0.5), optax.sgd(0.1, 0.9))
    batch, values = batches()[0], params()
    trainer = Trainer.from_jax(loss, values, Lazy(from_optax(optimizer)), batch)
    trainer.update(batch)
    gradients = jax.grad(loss)(values, batch)
    updates, _ = optimizer.update(gradients, optimizer.init(values), values)
    wanted = optax.apply_updates(values, updates)
    chex.assert_trees_all_close(trainer.params, wanted, rtol=1e-4, atol=1e-6)


def test_ids_of_two_axes() -> None:
    def given(params: Params, batch: Any) -> Any:
        ids, targets = batch
        found = params["table"][jnp.stack([ids, ids * 0])].sum(0) @ params["w"]
        return jnp.mean((found + params["bias"][0] - targets) ** 2)

    trainer = trained(SGD(0.1), given)
    assert goes_by_rows(trainer)
    wanted = stepped(optax.sgd(0.1), given)
    chex.assert_trees_all_close(trainer.params, wanted, rtol=1e-5, atol=1e-6)


def tied(params: Params, batch: Any) -> Any:
    ids, targets = batch
    scores = params["table"][ids] @ params["table"].T
    return jnp.mean((scores.sum(1) + params["w"].sum() - targets) ** 2)


def test_a_table_that_is_a_product_too_is_updated_whole() -> None:
    own = {name: value for name, value in params().items() if name != "bias"}
    trainer = Trainer.from_jax(tied, own, SGD(0.001), batches()[0])
    trainer.update(batches()[0])
    assert not goes_by_rows(trainer)
    gradients = jax.grad(tied)(own, batches()[0])
    wanted = jax.tree.map(lambda p, g: p - 0.001 * g, own, gradients)
    chex.assert_trees_all_close(trainer.params, wanted, rtol=1e-4, atol=1e-5)


REFUSED = {
    "no rows": (
        Lazy(Adam(0.1)),
        tied,
        "of no parameter only rows are read.*table, params_w have whole",
    ),
    "norms": (
        Lazy(LAMB(0.1)),
        loss,
        "its update of `params_bias` makes something for all rows at once",
    ),
    "norms behind one of gradients": (
        Lazy(from_optax(optax.adafactor(0.1))),
        loss,
        "its update of `params_bias` adds up rows that no gradient is for",
    ),
    "late": (Lazy(ScheduleFreeAdamW(0.1)), loss, "its state begins with the values"),
}


@pytest.mark.parametrize(("optimizer", "given", "said"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_lazy_is_refused(optimizer: Any, given: Any, said: str) -> None:
    own = params() if given is loss else {k: v for k, v in params().items() if k != "bias"}
    with pytest.raises(ValueError, match=said):
        Trainer.from_jax(given, own, optimizer, batches()[0])


def test_only_optimizers_can_be_lazy() -> None:
    not_ours: Any = optax.adam(0.1)
    with pytest.raises(TypeError, match=r"or from_optax\(optax.adagrad\(0.1\)\), but it was given"):
        Lazy(not_ours)


@pytest.mark.parametrize("optimizer", [SGD(0.1), Lazy(Adam(0.1))])
def test_the_rows_of_all_parts_of_a_batch_are_added_up(optimizer: Optimizer) -> None:
    parts, whole = fourteen(optimizer, accumulate=2), fourteen(optimizer)
    assert goes_by_rows(parts)
    chex.assert_trees_all_close(parts.params, whole.params, rtol=1e-5, atol=1e-6)


def test_parts_that_read_more_rows_than_a_table_has_give_a_whole_gradient() -> None:
    batch = tuple(np.concatenate(pair) for pair in zip(*batches(16), strict=True))
    assert len(batch[0]) > ROWS
    with pytest.raises(ValueError, match="of no parameter only rows are read"):
        Trainer.from_jax(loss, params(), Lazy(Adam(0.1)), batch, accumulate=2)


def fourteen(optimizer: Any, **options: Any) -> Trainer:
    batch = tuple(np.concatenate(pair) for pair in zip(*batches(2), strict=True))
    trainer = Trainer.from_jax(loss, params(), optimizer, batch, **options)
    trainer.update(batch)
    return trainer


def test_a_scaled_loss_gives_the_same_rows() -> None:
    scaled, plain = trained(SGD(0.1), loss_scale=1024.0), trained(SGD(0.1))
    assert goes_by_rows(scaled)
    chex.assert_trees_all_close(scaled.params, plain.params, rtol=1e-4, atol=1e-5)


def test_a_step_that_is_left_out_changes_no_row() -> None:
    lazy = Lazy(Adam(0.1))
    trainer = Trainer.from_jax(loss, params(), lazy, batches()[0], loss_scale="dynamic")
    ids, targets = batches()[0]
    trainer.update((ids, np.full_like(targets, np.inf)))
    chex.assert_trees_all_equal(trainer.params, jax.tree.map(jnp.asarray, params()))


def test_half_precision_has_masters_by_rows() -> None:
    half = jax.tree.map(lambda array: jnp.asarray(array, "bfloat16"), params())

    def given(params: Params, batch: Any) -> Any:
        return loss(jax.tree.map(lambda array: array.astype("float32"), params), batch)

    trainer = Trainer.from_jax(given, half, Lazy(Adam(0.1)), batches()[0])
    wide: Any = jax.tree.map(lambda array: array.astype("float32"), half)
    twin = Trainer.from_jax(loss, wide, Lazy(Adam(0.1)), batches()[0])
    for each in (trainer, twin):
        each.update(batches()[0])
    assert goes_by_rows(trainer)
    rounded = jax.tree.map(lambda array: array.astype("bfloat16"), twin.params)
    chex.assert_trees_all_close(trainer.params, rounded, rtol=2e-2, atol=1e-2)


def test_it_goes_on_from_a_file_as_it_would_have_gone_on(tmp_path: Path) -> None:
    whole = trained(Lazy(Adam(0.1)))
    half = Trainer.from_jax(loss, params(), Lazy(Adam(0.1)), batches()[0])
    for batch in batches()[:2]:
        half.update(batch)
    half.save(tmp_path / "half.safetensors")
    other = load_trainer(tmp_path / "half.safetensors")
    for ids, targets in batches()[2:]:
        other.update([ids, targets], [])
    chex.assert_trees_all_equal(
        list(other.export_params().values()), list(whole.export_params().values())
    )


def test_many_steps_of_a_call_are_the_same() -> None:
    trainer = Trainer.from_jax(loss, params(), Lazy(Adam(0.1)), batches()[0])
    trainer.fit(batches(), epochs=1, check_numerics=True)
    chex.assert_trees_all_close(trainer.params, trained(Lazy(Adam(0.1))).params, rtol=1e-6)


def test_batches_of_any_size_are_lazy_and_exported(tmp_path: Path) -> None:
    """In the first step from zero, lazy momentum is dense momentum."""
    body = "out = R.matmul(R.sum(R.take(table, ids, axis=0, mode='wrap'), axis=[1]), w)"
    params = 'ids: R.Tensor(("n", 3), "int32")'
    model = parse_backbone(body, params, param_num=2, table=(100, 3), w=(3, 2))
    ids = model["backbone"].params[0].ty
    assert isinstance(ids, TensorType)
    assert ids.dims is not None
    types = [TensorType((ids.dims[0], 2), "float32")] * 2
    trainer = trainer_of(model, MSELoss(), Lazy(MomentumSGD(0.1, 0.9)), *types)
    random = np.random.default_rng(0)
    values = [random.normal(size=shape).astype("float32") for shape in ((100, 3), (3, 2))]
    places, targets = np.array([[7, 7, -1], [99, 250, 0]], "int32"), np.ones((2, 2), "float32")

    def loss_of(table: Any, w: Any) -> Any:
        return jnp.mean((table[places % 100].sum(1) @ w - targets) ** 2)

    trainer.load_params(values)
    trainer.update(places, targets)
    gradients = jax.grad(loss_of, (0, 1))(*values)
    wanted = [value - 0.1 * g for value, g in zip(values, gradients, strict=True)]
    chex.assert_trees_all_close(list(trainer.export_params().values()), wanted, atol=1e-6)
    trainer.export(tmp_path)
    assert (tmp_path / "train_step.jax_export").exists()
