"""What a program like another knows of it."""

from parsing import parse_functions

from relaxjax.passes.memory.program.program import Program

MOD = parse_functions("""
    @R.function
    def main_adjoint(x: R.Tensor((4, 8), "float32")):
        @R.function
        def step(carry: R.Tensor((8,), "float32"), row: R.Tensor((8,), "float32")):
            total = R.add(carry, row)
            return (total, total)
        first = R.sum(x, axis=[0])
        run = R.scan(step, first, x)
        rows = run[1]
        loss = R.sum(rows)
        return (loss, (x,))
    """)


def test_only_what_a_closure_has_a_part_in_is_read_anew() -> None:
    before = Program.of(MOD["main_adjoint"], MOD, "main_adjoint")
    after = Program.of(MOD["main_adjoint"], MOD, "main_adjoint", like=before)
    same = {step.var.name for step in after.steps if step is before.step_of[step.var]}
    assert same == {"step", "first", "rows", "loss"}
    assert after.step_of.keys() == before.step_of.keys()
    run = next(step for step in after.steps if step.var.name == "run")
    assert run.flops == before.step_of[run.var].flops == 32
