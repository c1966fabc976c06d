"""A product and its loss as one operator: where it is done, and that it computes the same."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from parsing import parse_main

import relaxjax
from relaxjax import IRModule, to_jax
from relaxjax.frontends import traced
from relaxjax.passes import (
    FoldConstant,
    FuseProductLoss,
    Gradient,
    RaiseOps,
    ShareProductLoss,
    SimplifyGradient,
)
from relaxjax.passes.operators import fuse_product_loss

PARAMS = (
    'x: R.Tensor((2, 3, 4), "float32"), r: R.Tensor((6, 4), "float32"), '
    'w: R.Tensor((4, 5), "float32"), e: R.Tensor((5, 4), "float32"), '
    'b: R.Tensor((5,), "float32"), c: R.Tensor((6, 1), "float32"), '
    't: R.Tensor((6,), "int32"), v: R.Tensor((5,), "float32")'
)
FUSED = "R.nn.product_nll_loss("


def _module(*lines: str, returns: str = "loss") -> IRModule:
    return parse_main("\n".join([*lines, f"return {returns}"]), PARAMS)


def _values() -> list[Any]:
    random = np.random.default_rng(0)
    shapes = [(2, 3, 4), (6, 4), (4, 5), (5, 4), (5,), (6, 1)]
    drawn = [random.normal(size=shape).astype("float32") for shape in shapes]
    return [*drawn, random.integers(0, 5, 6).astype("int32"), np.ones(5, "float32")]


REWRITTEN = {
    "scores": ["s = R.matmul(r, w)", "loss = R.nn.softmax_nll_loss(s, t)"],
    "a bias, a table and texts": [
        "s = R.add(b, R.matmul(x, R.permute_dims(e)))",
        "p = R.reshape(R.nn.log_softmax(s), (6, 5))",
        "loss = R.nn.nll_loss(p, t, ignore_index=2)",
    ],
    "a bias of one row, losses of tokens": [
        "s = R.add(R.matmul(r, w), R.reshape(b, (1, 5)))",
        'l = R.nn.nll_loss(R.nn.log_softmax(s), t, reduction="none")',
        "loss = R.sum(R.multiply(l, l))",
    ],
}
LEFT = {
    "weights of classes": (["loss = R.nn.softmax_nll_loss(R.matmul(r, w), t, v)"], "loss"),
    "scores that are used": (
        ["s = R.matmul(r, w)", "loss = R.nn.softmax_nll_loss(s, t)"],
        "(loss, s)",
    ),
    "logarithms that are used": (
        ["p = R.nn.log_softmax(R.matmul(r, w))", "loss = R.nn.nll_loss(p, t)"],
        "(loss, p)",
    ),
    "no bias of words": (
        ["s = R.add(R.matmul(r, w), c)", "loss = R.nn.softmax_nll_loss(s, t)"],
        "loss",
    ),
    "another dtype": (
        [
            's = R.matmul(R.astype(r, "float16"), R.astype(w, "float16"), out_dtype="float32")',
            "loss = R.nn.softmax_nll_loss(s, t)",
        ],
        "loss",
    ),
    "rows of other words": (
        [
            "s = R.reshape(R.matmul(R.permute_dims(w), R.permute_dims(r)), (6, 5))",
            "loss = R.nn.softmax_nll_loss(s, t)",
        ],
        "loss",
    ),
}


@pytest.mark.parametrize("name", REWRITTEN)
def test_it_computes_the_same_and_so_does_its_adjoint(name: str) -> None:
    """Where one backward program has both, the loss is taken from where its adjoints are made."""
    before = _module(*REWRITTEN[name])
    after = FuseProductLoss(many=30)(before)
    assert FUSED in after.script()
    assert "R.matmul" not in after.script()
    params = ["x", "r", "w", "e", "b"]
    both = [SimplifyGradient()(Gradient("main", params)(mod)) for mod in (before, after)]
    results = [to_jax(mod, "main_adjoint")(*_values()) for mod in both]
    chex.assert_trees_all_close(*results, rtol=1e-5, atol=1e-6)
    adjoint = str(both[1]["main_adjoint"])
    assert adjoint.count("R.grad.product_nll_loss_backward(") == 1
    assert (FUSED in adjoint) == ("R.multiply(l, l)" in REWRITTEN[name][-1])


@pytest.mark.parametrize("name", LEFT)
def test_what_stays_as_it_is(name: str) -> None:
    lines, returns = LEFT[name]
    module = _module(*lines, returns=returns)
    assert FuseProductLoss(many=30)(module) is module


def test_few_scores_stay_as_they_are() -> None:
    module = _module(*REWRITTEN["scores"])
    assert FuseProductLoss(many=31)(module) is module
    assert FuseProductLoss()(module) is module


def test_a_loss_that_its_own_adjoint_needs_is_computed_before_it() -> None:
    module = _module(
        "loss = R.nn.product_nll_loss(r, w, t)",
        "g = R.exp(loss)",
        "both = R.grad.product_nll_loss_backward(g, r, w, t)",
        returns="(loss, both)",
    )
    assert ShareProductLoss()(module) is module


def test_what_depends_on_the_loss_comes_behind_it() -> None:
    module = _module(
        "loss = R.nn.product_nll_loss(r, w, t)",
        "shown = R.exp(loss)",
        "g = R.sum(b)",
        "both = R.grad.product_nll_loss_backward(g, r, w, t)",
        returns="(loss, shown, both)",
    )
    after = ShareProductLoss()(module)
    assert FUSED not in after.script()
    results = [to_jax(mod, "main")(*_values()) for mod in (module, after)]
    chex.assert_trees_all_close(*results, rtol=1e-5, atol=1e-6)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few scores are many."""
    monkeypatch.setattr(fuse_product_loss, "MANY", 30)


@pytest.mark.usefixtures("few")
def test_losses_in_jax() -> None:
    """With labels outside of the classes too, which give NaN."""
    x, _, w, _, b, *_ = _values()

    def loss(w: Any, b: Any, x: Any, t: Any) -> Any:
        scores = x @ w + jnp.broadcast_to(b, (2, 3, 5))
        picked = jnp.take_along_axis(scores, t[..., None], -1)[..., 0]
        return jnp.mean(jax.nn.logsumexp(scores, -1) - picked)

    step = relaxjax.value_and_grad(loss, (0, 1, 2))
    t = np.asarray([[0, 1, 4], [2, 2, 0]], "int32")
    program = traced(loss, [w, b, x, t], ["w", "b", "x", "t"], name="loss").module
    assert FUSED in FuseProductLoss()(RaiseOps()(FoldConstant()(program))).script()
    wanted = jax.value_and_grad(loss, (0, 1, 2))(w, b, x, t)
    chex.assert_trees_all_close(step(w, b, x, t), wanted, rtol=1e-5, atol=1e-6)
    assert np.isnan(step(w, b, x, t + 3)[0])
