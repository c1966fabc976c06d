"""A plan that is asked for again is the one that was found, where that is wanted."""

from parsing import parse_functions

from relaxjax import IRModule, memory
from relaxjax.passes import Gradient, Rematerialize
from relaxjax.passes.memory.planning.remembered import plans_remembered

LOSS = """
@R.function
def main(x: R.Tensor((4, 4), "float32")):
    with R.dataflow():
        a = R.exp(x)
        b = R.sin(a)
        y = R.sum(R.multiply(a, b))
        R.output(y)
    return y
"""


def _adjoint() -> IRModule:
    return Gradient("main")(parse_functions(LOSS))


def test_a_report_has_the_plan_of_the_pass() -> None:
    mod = _adjoint()
    with plans_remembered():
        Rematerialize("main_adjoint", policy="free")(mod)
        first, again = (memory(mod, "main_adjoint", policy="free") for _ in range(2))
        assert first.planner is again.planner
        assert memory(mod, "main_adjoint", policy="none").planner is not first.planner
        assert memory(_adjoint(), "main_adjoint", policy="free").planner is not first.planner
    assert memory(mod, "main_adjoint", policy="free").planner is not first.planner


def test_programs_are_not_held_afterwards() -> None:
    mod = _adjoint()
    one, other = (memory(mod, "main_adjoint", policy="free") for _ in range(2))
    assert one.planner is not other.planner
    assert one.plan.peak == other.plan.peak
