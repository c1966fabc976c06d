"""Indices of narrow dtypes, along axes that are longer than what they can count."""

from typing import Any

import chex
import jax.numpy as jnp
import numpy as np
import pytest
from applying import gradient, var
from operator_evaluation import evaluate

from relaxjax.ir.expr import PrimExpr
from relaxjax.ops.emit import call

CLASSES = 300
NARROW = [("uint8", [5, 200]), ("int8", [5, 100]), ("uint16", [5, 299]), ("uint32", [5, 299])]


def value(name: str, *arrays: Any, **attrs: Any) -> Any:
    variables = [var(array) for array in arrays]
    return evaluate(call(name, *variables, **attrs), dict(zip(variables, arrays, strict=True)))


@pytest.mark.parametrize(("dtype", "indices"), [*NARROW, ("int8", [5, -3])])
def test_one_hot_has_one_place(dtype: str, indices: list[int]) -> None:
    places = np.asarray(indices, dtype)
    v = var(places)
    found = evaluate(call("one_hot", v, PrimExpr(1.0), PrimExpr(0.0), CLASSES), {v: places})
    hit = np.asarray(indices)[:, None] == np.arange(CLASSES)
    chex.assert_trees_all_equal(np.asarray(found), hit.astype(found.dtype))


@pytest.mark.parametrize("name", ["nn.nll_loss", "nn.softmax_nll_loss"])
@pytest.mark.parametrize(("dtype", "targets"), NARROW)
def test_losses_of_picked_classes(dtype: str, targets: list[int], name: str) -> None:
    """As for int32, of which all the numbers that say a class are known."""
    random = np.random.default_rng(0)
    scores = random.normal(size=(2, CLASSES)).astype("float32")
    weights = random.uniform(1, 2, CLASSES).astype("float32")
    found, expected = (
        (
            value(name, scores, np.asarray(targets, kind), weights),
            gradient(lambda *args: call(name, *args), scores, np.asarray(targets, kind), weights),
        )
        for kind in (dtype, "int32")
    )
    chex.assert_trees_all_equal(found, expected)


def test_a_class_that_is_ignored() -> None:
    scores, targets = np.zeros((2, 256), "float32"), np.asarray([156, 255], "uint8")
    losses = value("nn.nll_loss", scores - 1, targets, reduction="none", ignore_index=255)
    chex.assert_trees_all_equal(losses, jnp.asarray([1.0, 0.0]))


@pytest.mark.parametrize("mode", ["fast", "clip", "wrap", "nan"])
@pytest.mark.parametrize(("dtype", "indices"), NARROW)
def test_slices_that_are_taken(dtype: str, indices: list[int], mode: str) -> None:
    x, places = np.arange(CLASSES, dtype="float32"), np.asarray(indices, dtype)
    chex.assert_trees_all_equal(value("take", x, places, axis=0, mode=mode), x[indices])
    to_x, _ = gradient(lambda x, i: call("take", x, i, axis=0, mode=mode), x, places)
    chex.assert_trees_all_equal(np.flatnonzero(to_x), np.asarray(indices))


@pytest.mark.parametrize(("dtype", "indices"), [("int8", [5, -3]), ("uint8", [5, 200])])
def test_elements_that_are_read_and_written(dtype: str, indices: list[int]) -> None:
    x, v = np.zeros(CLASSES, "float32"), np.asarray([1.0, 2.0], "float32")
    places = np.asarray(indices, dtype)
    x[indices] = v
    variables = [var(x), var(places), var(v)]
    data, i, updates = variables
    values = dict(zip(variables, map(jnp.asarray, (x, places, v)), strict=True))
    read = evaluate(call("index_tensor", data, (i,)), values)
    chex.assert_trees_all_equal(read, jnp.asarray(v))
    put = evaluate(call("index_put", call("zeros_like", data), (i,), updates), values)
    chex.assert_trees_all_equal(put, jnp.asarray(x))
    to_updates = gradient(
        lambda x, i, u: call("scatter_nd", x, call("reshape", i, (2, 1)), u), x, places, v
    )[2]
    chex.assert_trees_all_equal(to_updates, jnp.ones(2))
