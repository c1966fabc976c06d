"""What of a schedule is computed at all."""

from parsing import parse_functions

from relaxjax.passes.differentiation.gradient import function_of
from relaxjax.passes.memory.planning.planner import Planner
from relaxjax.passes.memory.program.program import Program
from relaxjax.passes.memory.storage.needed import needed

ADJOINT = "main_adjoint"


def test_a_part_of_a_tuple_needs_no_other() -> None:
    mod = parse_functions(f"""
        @R.function
        def {ADJOINT}(x: R.Tensor((3,), "float32")):
            with R.dataflow():
                a = R.exp(x)
                b = R.sin(x)
                unused = R.cos(b)
                pair = (a, b)
                c = pair[1]
                loss = R.sum(c)
                R.output(loss, c)
            return (loss, (c,))
        """)
    plan = Planner(Program.of(function_of(mod, ADJOINT), mod, ADJOINT)).none
    found = needed(plan.program, plan.tasks)
    names = {task.step.var.name: [var.name for var, _ in task.inputs] for task in found}
    assert names == {"b": ["x"], "c": ["b"], "loss": ["c"]}


def test_what_others_wait_for_is_needed() -> None:
    mod = parse_functions(f"""
        @R.function
        def {ADJOINT}(x: R.Tensor((3,), "float32")):
            with R.dataflow():
                moment = R.cos(x)
                late = R.grad.delay(x, moment)
                c = R.sin(late)
                loss = R.sum(c)
                R.output(loss, c)
            return (loss, (c,))
        """)
    plan = Planner(Program.of(function_of(mod, ADJOINT), mod, ADJOINT)).none
    waiting = [task for task in plan.tasks if task.waits]
    assert [wait.moment.name for task in waiting for wait in task.waits] == ["moment"]
    found = needed(plan.program, plan.tasks)
    assert "moment" in {task.step.var.name for task in found}
