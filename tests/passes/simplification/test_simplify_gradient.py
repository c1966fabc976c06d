"""Backward programs made smaller, computing the same."""

import chex
import jax.numpy as jnp
import numpy as np
from parsing import parse_flow, parse_functions, parse_module

from relaxjax.ir import IRModule, assert_structural_equal
from relaxjax.lowering import to_jax
from relaxjax.passes import Gradient, PassContext, PassInfo, SimplifyGradient, pass_instrument

# What goes on until it finds nothing more.
ENDS = ("FoldConstant", "SimplifyExpr")


MSE = parse_flow(
    "y = R.matmul(x, w)\nd = R.subtract(y, t)\nloss = R.mean(R.multiply(d, d))\nreturn loss",
    x=(4, 3),
    w=(3, 2),
    t=(4, 2),
)

SIMPLE = parse_functions("""
    @R.function
    def main_adjoint(
        x: R.Tensor((4, 3), "float32"),
        w: R.Tensor((3, 2), "float32"),
        t: R.Tensor((4, 2), "float32"),
    ):
        with R.dataflow():
            y = R.matmul(x, w)
            d = R.subtract(y, t)
            lv = R.multiply(d, d)
            loss = R.mean(lv)
            d_adjoint = R.multiply(d, R.const(0.25, "float32"))
            lv4 = R.permute_dims(x, axes=[1, 0])
            w_adjoint_out = R.matmul(lv4, d_adjoint)
            R.output(loss, w_adjoint_out)
        return (loss, (w_adjoint_out,))
""")


def arrays() -> list[jnp.ndarray]:
    random = np.random.default_rng(0)
    return [jnp.asarray(random.normal(size=s), jnp.float32) for s in ((4, 3), (3, 2), (4, 2))]


def test_the_backward_program_of_a_mean_square_is_what_one_would_write() -> None:
    adjoint = Gradient("main", require_grads="w")(MSE)
    simple = SimplifyGradient()(adjoint)
    assert_structural_equal(simple["main_adjoint"], SIMPLE["main_adjoint"])
    expected = to_jax(adjoint, "main_adjoint")(*arrays())
    chex.assert_trees_all_close(to_jax(simple, "main_adjoint")(*arrays()), expected, rtol=1e-5)


def test_no_product_is_computed_twice_and_none_is_added() -> None:
    adjoint = Gradient("main")(MSE)
    simple = SimplifyGradient()(adjoint)
    counts = [m["main_adjoint"].script().count("R.matmul") for m in (adjoint, simple)]
    assert counts[1] <= counts[0] == 3


def test_a_simple_module_stays_the_same() -> None:
    simple = SimplifyGradient()(Gradient("main")(MSE))
    assert SimplifyGradient()(simple) is simple


def test_a_step_that_leaves_the_module_is_not_tried_on_it_again() -> None:
    """What the last change has made is seen by each step once, or by all others."""
    runs: list[tuple[str, bool]] = []

    @pass_instrument
    class Notes:
        def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
            self.before = mod

        def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
            runs.append((info.name, mod is not self.before))

    adjoint = Gradient("main", require_grads="w")(MSE)
    with PassContext(instruments=[Notes()]):
        SimplifyGradient()(adjoint)
    rounds = runs[: [name for name, _ in runs].index("DeadCodeElimination")]
    last = max(place for place, (_, changed) in enumerate(rounds) if changed)
    behind = [name for name, _ in rounds[last + 1 :]]
    assert len(behind) == len(set(behind)) == (4 if rounds[last][0] in ENDS else 5)


def test_private_functions_stay_too() -> None:
    """Simplifying is not sweeping: what nobody calls yet may be called later."""
    module = parse_module(
        "@I.ir_module\nclass Module:\n    @R.function(private=True)\n"
        '    def helper(x: R.Tensor((3,), "float32")):\n        y = R.exp(x)\n        return y\n'
    )
    assert SimplifyGradient()(module) is module
