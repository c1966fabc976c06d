"""The loss of a product's scores, some tokens at a time, against that of all scores."""

from functools import partial
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from relaxjax.ir import TensorType, Var
from relaxjax.ir.op import get_op
from relaxjax.ops.declare import OpError
from relaxjax.ops.emit import call
from relaxjax.ops.nn import product_loss
from relaxjax.ops.nn.product_loss import ELSEWHERE, ON_CPU, tokens_at_a_time
from relaxjax.ops.platform import lowering_for


@pytest.mark.parametrize(
    ("tokens", "weight", "length"),
    [
        (4096, (512, 32000), 512),
        (4096, (2048, 32000), 512),  # 524 at most, and as many each time
        (4096, (64, 32000), 128),
        (4096, ("k", 32000), 128),
        (256, (64, 16384), 256),
        (257, (64, 16384), 129),
        (100, (64, 10**6), 50),
        (10, (64, 10**9), 10),
        ("n", (64, 32000), "n"),
        (4096, (64, "n"), 4096),
    ],
)
def test_how_many_tokens_are_taken_at_a_time(
    tokens: Any, weight: tuple[Any, Any], length: Any
) -> None:
    assert tokens_at_a_time(tokens, weight, ON_CPU) == length


def test_more_of_them_elsewhere() -> None:
    assert tokens_at_a_time(4096, (512, 32000), ELSEWHERE) == 1024
    given = [jax.ShapeDtypeStruct(shape, "float32") for shape in ((4096, 2), (2, 32000))]
    attrs = {"transposed": False, "reduction": "mean", "ignore_index": 0}
    targets = jax.ShapeDtypeStruct((4096,), "int32")
    for where, steps in (("cpu", 32), ("cuda", 4)):
        with lowering_for(where):
            found = jax.make_jaxpr(partial(lowering("nn.product_nll_loss"), bias=None, **attrs))(
                *given, targets=targets
            )
        [loop] = [eqn for eqn in found.eqns if eqn.primitive.name == "scan"]
        assert loop.params["length"] == steps


def lowering(name: str) -> Any:
    return get_op(f"relax.{name}").lower


def _drawn(*shape: int, seed: int = 0) -> Any:
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), "float32")


def _all_at_once(transposed: bool, reduction: str, x: Any, w: Any, b: Any, t: Any) -> Any:
    scores = x @ (w.T if transposed else w) + (0 if b is None else b[None])
    logs = jax.nn.log_softmax(scores)
    counted = t != 2
    losses = jnp.where(counted, -jnp.take_along_axis(logs, t[:, None], 1)[:, 0], 0.0)
    if reduction == "none":
        return losses
    return jnp.sum(losses) / (jnp.sum(counted, dtype="float32") if reduction == "mean" else 1.0)


@pytest.mark.parametrize(
    ("transposed", "reduction", "has_bias"),
    [(False, "mean", True), (True, "sum", False), (True, "none", True)],
)
def test_tokens_in_chunks(
    transposed: bool, reduction: str, has_bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last chunk is not full, one class is ignored. The backward operator has adjoints, too."""
    monkeypatch.setattr(product_loss, "tokens_at_a_time", lambda *_: 4)
    x, w, b = _drawn(11, 3), _drawn(*((5, 3) if transposed else (3, 5)), seed=1), _drawn(5, seed=2)
    bias = b if has_bias else None
    t = jnp.asarray(np.random.default_rng(3).integers(0, 5, 11), "int32")
    attrs = {"transposed": transposed, "reduction": reduction, "ignore_index": 2}
    forward = partial(lowering("nn.product_nll_loss"), **attrs)
    backward = partial(lowering("grad.product_nll_loss_backward"), **attrs)
    plain = partial(_all_at_once, transposed, reduction)
    active = (x, w, b) if has_bias else (x, w)

    def plain_backward(*active: Any) -> Any:
        loss, pullback = jax.vjp(lambda x, w, b=None: plain(x, w, b, t), *active)
        return (loss, *pullback(jnp.cos(loss)))

    def ours(*active: Any) -> Any:
        x, w, b = (*active, None)[:3]
        return backward(jnp.cos(forward(x, w, t, b)), x, w, t, b)

    np.testing.assert_allclose(forward(x, w, t, bias), plain(x, w, bias, t), rtol=1e-5)
    found, pullback = jax.vjp(jax.jit(ours), *active)
    wanted, plain_pullback = jax.vjp(jax.jit(plain_backward), *active)
    chex.assert_trees_all_close(found, wanted, rtol=1e-4, atol=1e-5)
    gs = jax.tree.map(jnp.sin, wanted)
    chex.assert_trees_all_close(pullback(gs), plain_pullback(gs), rtol=1e-3, atol=1e-4)


def test_half_precision_is_added_up_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """What many tokens add to the matrix is not lost one by one."""
    monkeypatch.setattr(product_loss, "tokens_at_a_time", lambda *_: 1)
    x, w = jnp.ones((600, 1), "bfloat16"), jnp.zeros((1, 2), "bfloat16")
    backward = lowering("grad.product_nll_loss_backward")
    given = jnp.ones((), "bfloat16"), x, w, jnp.zeros(600, "int32"), None
    _, _, to_weight = backward(*given, transposed=False, reduction="sum", ignore_index=-100)
    np.testing.assert_allclose(to_weight.astype("float32"), [[-300, 300]], rtol=1e-2)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((4, 3, 1), (3, 5), (4,)), "`data` must have 2 dimensions, found 3"),
        (((4, 3), (3,), (4,)), "`weight` must have 2 dimensions, found 1"),
        (((4, 3), (3, 5), (4,), (1, 5)), "`bias` must have 1 dimension, found 2"),
        (
            ((4, 3), (5, 3), (4,)),
            "`weight` must have a dimension of 3 to be multiplied with the rows of `data`, found 5",
        ),
        (
            ((4, 3), (3, 5), (4,), (3,)),
            "`bias` must have an element for each of 5 classes, found 3",
        ),
        (((4, 3), (3, 5), (2,)), r"`targets` must have shape \(4\)"),
    ],
)
def test_refusals(shapes: Any, message: str) -> None:
    dtypes = ["float32", "float32", "int32", "float32"]
    args = [Var("x", TensorType(*given)) for given in zip(shapes, dtypes, strict=False)]
    with pytest.raises(OpError, match=message):
        call("nn.product_nll_loss", *args)
