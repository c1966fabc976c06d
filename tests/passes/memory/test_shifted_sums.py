"""Sums of many shifts of a tensor, which plans of "free" do not compute again."""

import pytest
from parsing import parse_functions

from relaxjax.ir.module import IRModule
from relaxjax.passes import Gradient, LegalizeOps, SimplifyGradient
from relaxjax.passes.memory.cuts import cheapest_cut
from relaxjax.passes.memory.planning import Planner
from relaxjax.passes.memory.program import Program
from relaxjax.passes.memory.shifted_sums import dear_sums


def adjoint(size: int) -> IRModule:
    """That of a depthwise convolution with such a kernel, whose result it needs, legalised."""
    attrs = f'padding={size // 2}, groups=4, data_layout="NHWC"'
    kernel = 4, 1, size, size
    module = parse_functions(f"""
    @R.function
    def main(x: R.Tensor((4, 8, 8, 4), "float32"), w: R.Tensor({kernel}, "float32")):
        with R.dataflow():
            y = R.nn.conv2d(x, w, {attrs})
            z = R.sum(R.exp(R.multiply(R.sin(y), R.cos(y))))
            R.output(z)
        return z
    """)
    return LegalizeOps("cpu")(SimplifyGradient()(Gradient("main", ["w"])(module)))


@pytest.mark.parametrize(("size", "is_dear"), [(3, False), (5, True)])
def test_what_adds_up_many_shifts_is_not_computed_again(size: int, is_dear: bool) -> None:
    module = adjoint(size)
    program = Program.of(module["main_adjoint"], module, "main_adjoint")
    dear = dear_sums(program.forward)
    kept = cheapest_cut(program, Planner(program).is_free)
    assert bool(dear) is bool(kept & dear) is is_dear
    whole = 4 * 8 * 8 * 4 * 4  # bytes of the result
    assert any(program.step_of[var].size == whole for var in kept) is is_dear
