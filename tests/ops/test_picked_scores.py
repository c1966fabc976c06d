"""The loss of many scores: those of the targets are picked before the powers take their memory."""

import chex
import jax.numpy as jnp
import numpy as np
import pytest
from applying import gradient
from parsing import parse_functions

from relaxjax import IRModule, to_jax
from relaxjax.ir import Expr, const
from relaxjax.lowering.memory import temporary_bytes
from relaxjax.ops.emit import call
from relaxjax.passes import (
    CanonicalizeBindings,
    EliminateCommonSubexpr,
    Gradient,
    LegalizeOps,
    SimplifyGradient,
)

ROWS, WIDTH = 32, 16


def adjoint(classes: int, target: str = "cpu") -> IRModule:
    mod = parse_functions(f"""
        @R.function
        def main(
            x: R.Tensor(({ROWS}, {WIDTH}), "float32"),
            w: R.Tensor(({WIDTH}, {classes}), "float32"),
            t: R.Tensor(({ROWS},), "int32"),
        ):
            with R.dataflow():
                scores = R.matmul(x, w)
                loss = R.nn.nll_loss(R.nn.log_softmax(scores), t)
                R.output(loss)
            return loss
        """)
    params = mod["main"].params[:2]
    mod = SimplifyGradient()(Gradient("main", params, lazy=True)(mod))
    return CanonicalizeBindings()(EliminateCommonSubexpr()(LegalizeOps(target)(mod)))


def test_powers_take_the_memory_of_the_scores() -> None:
    """The form of other platforms shows what a CPU would take else."""
    mod, late = (adjoint(8192, target).without_attr("platform") for target in ("cpu", "cuda"))
    size = ROWS * 8192 * 4
    assert temporary_bytes(mod, "main_adjoint") < 1.5 * size
    assert temporary_bytes(late, "main_adjoint") >= 2 * size
    random = np.random.default_rng(0)
    x, w = (jnp.asarray(random.normal(size=s), jnp.float32) for s in ((ROWS, WIDTH), (WIDTH, 8192)))
    targets = jnp.asarray([-100, *range(ROWS - 1)], jnp.int32)
    results = [to_jax(m, "main_adjoint")(x, w, targets) for m in (mod, late)]
    chex.assert_trees_all_close(*results, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("classes", "target"), [(10, "cpu"), (8192, "cuda")])
def test_few_scores_and_those_of_other_platforms_are_picked_where_they_are_needed(
    classes: int, target: str
) -> None:
    assert "L.scatter" in adjoint(8192).script()
    assert "L.scatter" not in adjoint(classes, target).script()


@pytest.mark.parametrize("name", ["nll_loss", "softmax_nll_loss"])
def test_ignored_samples_take_no_adjoint(name: str) -> None:
    """Not even NaN, as of a loss that leaves them out after it has been squared."""
    logits = np.asarray([[-1.0, -2.0], [-3.0, -4.0]], "float32")
    targets, weights = np.asarray([1, -100], "int64"), np.ones(2, "float32")

    def build(x: Expr, t: Expr, w: Expr) -> Expr:
        losses = call(f"nn.{name}", x, t, w, "none")
        return call("sum", losses * const([1.0, np.nan], "float32"))

    to_logits, _, to_weights = gradient(build, logits, targets, weights)
    chex.assert_tree_all_finite((to_logits, to_weights))
    chex.assert_trees_all_equal(to_logits[1], jnp.zeros(2))
