"""Checkpoint marks: what lies between them is computed again for the backward program."""

import chex
import jax
import jax.numpy as jnp
import numpy as np

from relaxjax.ir.module import IRModule
from relaxjax.lowering import to_jax
from relaxjax.passes.differentiation.gradient import Gradient
from relaxjax.script import from_source


def parse(body: str) -> IRModule:
    lines = "".join(f"            {line}\n" for line in body.strip().splitlines())
    module = from_source(
        "@I.ir_module\nclass Module:\n    @R.function\n"
        '    def main(x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32")):\n'
        f"        with R.dataflow():\n{lines}            R.output(loss)\n        return loss\n"
    )
    assert isinstance(module, IRModule)
    return module


def arrays() -> tuple[jax.Array, jax.Array]:
    random = np.random.default_rng(0)
    x, y = (jnp.asarray(random.uniform(0.5, 1.5, 3), jnp.float32) for _ in range(2))
    return x, y


BETWEEN = """
a = R.exp({x})
b = R.sin(a)
c = R.cos(b)
{end}
d = R.multiply({c}, y)
e = R.exp(d)
loss = R.sum(e)
"""

PLAIN = BETWEEN.format(x="x", end="", c="c").replace("\n\n", "\n")
MARKED = "x_scp = R.grad.start_checkpoint(x)" + BETWEEN.format(
    x="x_scp", end="c_ecp = R.grad.end_checkpoint(c)", c="c_ecp"
)


def names(module: IRModule) -> list[str]:
    return [binding.var.name for binding in module["main_adjoint"].body.bindings()]


def test_without_marks_nothing_is_computed_again() -> None:
    assert not [name for name in names(Gradient("main")(parse(PLAIN))) if "_cp" in name]


def test_between_marks_everything_needed_is_computed_again_once() -> None:
    """The marks themselves leave no trace; what comes after them is kept."""
    adjoint = Gradient("main")(parse(MARKED))
    assert [name for name in names(adjoint) if "_cp" in name] == ["a_cp", "b_cp", "c_cp"]
    assert "checkpoint" not in adjoint["main_adjoint"].script()
    assert names(adjoint).index("c_cp") > names(adjoint).index("loss_adjoint")


def test_marks_do_not_change_the_gradient() -> None:
    marked, plain = (Gradient("main")(parse(text)) for text in (MARKED, PLAIN))
    expected = to_jax(plain, "main_adjoint")(*arrays())
    chex.assert_trees_all_close(to_jax(marked, "main_adjoint")(*arrays()), expected, rtol=1e-6)


def test_a_segment_that_follows_another_starts_from_a_kept_value() -> None:
    module = parse(
        """
x_scp = R.grad.start_checkpoint(x)
a = R.exp(x_scp)
b = R.sin(a)
b_ecp = R.grad.end_checkpoint(b)
b_scp = R.grad.start_checkpoint(b_ecp)
c = R.exp(b_scp)
d = R.sin(c)
d_ecp = R.grad.end_checkpoint(d)
loss = R.sum(R.multiply(d_ecp, y))
"""
    )
    found = [name for name in names(Gradient("main")(module)) if "_cp" in name]
    assert sorted(found) == ["a_cp", "c_cp", "d_cp"]
