"""The cheapest cut of a program, against all cuts there are."""

from itertools import chain, combinations

import pytest
from parsing import parse_functions

from relaxjax.ir.expr import Var
from relaxjax.passes.memory.program.cuts import Boundaries, cheapest_cut
from relaxjax.passes.memory.program.program import Program
from relaxjax.passes.memory.program.step import Step

MOD = parse_functions("""
    @R.function
    def main_adjoint(x: R.Tensor((1024, 8), "float32"), w: R.Tensor((8, 8), "float32")):
        with R.dataflow():
            a = R.matmul(x, w)
            b = R.tanh(a)
            c = R.astype(b, "float16")
            d = R.sum(c, axis=[1], keepdims=True)
            e = R.add(d, c)
            f = R.exp(e)
            loss = R.sum(f)
            g = R.multiply(f, c)
            h = R.sum(R.astype(g, "float32"))
            k = R.add(h, R.sum(b))
            R.output(loss, k)
        return (loss, (k,))
    """)
PROGRAM = Program.of(MOD["main_adjoint"], MOD, "main_adjoint")


def is_fusible(step: Step) -> bool:
    return step.fusible or step.is_view


def suffices(kept: frozenset[Var]) -> bool:
    """Whether the backward part can have all it needs from these."""
    known = set(kept)
    for step in PROGRAM.forward:
        needed = [v for v in step.inputs if v in PROGRAM.step_of]
        if is_fusible(step) and all(v in known for v in needed):
            known.add(step.var)
    return all(step.var in known for step in PROGRAM.residuals)


def cost(kept: frozenset[Var]) -> int:
    return sum(max(1, -(-PROGRAM.step_of[var].size // 1024)) for var in kept)


def test_no_other_cut_is_cheaper() -> None:
    variables = [step.var for step in PROGRAM.forward]
    subsets = chain.from_iterable(combinations(variables, n) for n in range(5))
    best = min(cost(frozenset(s)) for s in subsets if suffices(frozenset(s)))
    cut = cheapest_cut(PROGRAM, is_fusible)
    assert suffices(cut)
    assert cost(cut) == best


@pytest.mark.parametrize("again", [lambda step: False, lambda step: True])
def test_what_may_not_be_computed_again_is_kept(again: object) -> None:
    cut = cheapest_cut(PROGRAM, again)  # type: ignore[arg-type]  # a lambda has no types
    assert cut == (frozenset() if again(PROGRAM.steps[0]) else {s.var for s in PROGRAM.residuals})  # type: ignore[operator]


def test_what_crosses_each_place() -> None:
    boundaries = Boundaries(PROGRAM)
    crossing = [boundaries.crossing(place) for place in range(len(PROGRAM.forward))]
    names = [{var.name for var in found} for found in crossing]
    assert names == [{"a"}, {"b"}, {"c"}, {"c", "d"}, {"e"}, {"f"}, set()]
    sizes = [sum(PROGRAM.step_of[var].size for var in found) for found in crossing]
    assert list(boundaries.widths) == sizes


def test_tensors_beyond_all_memory_are_cut_too() -> None:
    """What a program takes is told of any size."""
    huge = str(MOD.script()).replace("(1024, ", f"({2**36}, ")
    mod = parse_functions(huge[huge.index("    @R.function") :])
    program = Program.of(mod["main_adjoint"], mod, "main_adjoint")
    names = [{var.name for var in cheapest_cut(one, is_fusible)} for one in (program, PROGRAM)]
    assert names[0] == names[1]
