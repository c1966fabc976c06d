"""The standing order of passes, and the levels from which they run."""

import chex
import numpy as np
import pytest
from parsing import parse_functions

from relaxjax.lowering import to_jax
from relaxjax.passes import Gradient, Pass, PassContext, Sequential, standard_pipeline
from relaxjax.passes.infrastructure.base import FACTORIES
from relaxjax.passes.standard import OPT_PASS_LEVEL
from relaxjax.testing.equations import run

MODEL = """
@R.function
def main(
    x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 4), "float32"), b: R.Tensor((4,), "float32")
):
    with R.dataflow():
        pair = R.nn.dropout(x, rate=0.5)
        d = pair[0]
        one = R.add(R.const(0.5, "float32"), R.const(0.5, "float32"))
        y = R.matmul(d, w)
        z = R.nn.bias_add(y, b)
        t = R.tanh(z)
        u = R.tanh(z)
        v = R.multiply(R.add(t, u), one)
        loss = R.sum(v)
        R.output(loss)
    return loss
"""


def ran(given: Pass, context: PassContext) -> set[str]:
    """The names of the passes in the table that run on the model."""
    seen: set[str] = set()
    context.trace = lambda mod, info, before: seen.add(info.name)
    with context:
        given(parse_functions(MODEL))
    return seen & set(OPT_PASS_LEVEL)


def test_passes_have_the_levels_of_the_table() -> None:
    levels = {name: FACTORIES[name].opt_level for name in OPT_PASS_LEVEL}
    assert levels == OPT_PASS_LEVEL


@pytest.mark.parametrize("opt_level", range(5))
def test_each_level_runs_the_passes_of_the_table_up_to_it(opt_level: int) -> None:
    expected = {name for name, level in OPT_PASS_LEVEL.items() if level <= opt_level}
    assert ran(standard_pipeline(opt_level), PassContext(opt_level)) == expected
    every = Sequential([FACTORIES[name]() for name in OPT_PASS_LEVEL])
    assert ran(every, PassContext(opt_level)) == expected


def test_a_pass_can_be_disabled() -> None:
    name = "EliminateCommonSubexpr"
    assert name in ran(standard_pipeline(3), PassContext(3))
    assert name not in ran(standard_pipeline(3), PassContext(3, disabled_pass=[name]))


@pytest.mark.parametrize("opt_level", range(5))
def test_every_level_keeps_the_results(opt_level: int) -> None:
    module = parse_functions(MODEL)
    adjoint = Gradient("main")(module)
    random = np.random.default_rng(0)
    args = [np.asarray(random.normal(size=p.ty.dims), "float32") for p in module["main"].params]
    for mod, name in ((module, "main"), (adjoint, "main_adjoint")):
        with PassContext(opt_level):
            changed = standard_pipeline(opt_level)(mod)
        found, wanted = (run(to_jax(m, name), *args) for m in (changed, mod))
        chex.assert_trees_all_close(found, wanted, atol=1e-3)
        assert "dropout" not in str(changed)


def test_there_are_five_levels() -> None:
    with pytest.raises(ValueError, match="`opt_level` must be 0, 1, 2, 3 or 4, found 5"):
        standard_pipeline(5)
