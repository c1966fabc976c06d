"""Compiled programs say of each operation which binding of the IR, and which operator, it is of."""

import re

import numpy as np
from parsing import parse_flow, parse_functions

from relaxjax import Function, IRModule, build
from relaxjax.ir.printer import variable_names
from relaxjax.passes import Gradient

MODULE = parse_functions("""
@R.function
def main(x: R.Tensor((2, 4), "float32"), w: R.Tensor((4, 3), "float32")):
    y = R.matmul(x, w)
    y = R.nn.softmax(y)
    if R.less(R.max(y), R.const(1.0, "float32")):
        z = Module.helper(y)
    else:
        z = R.cos(y)
    @R.function
    def step(c: R.Tensor((2, 3), "float32"), v: R.Tensor((), "float32")):
        d = R.multiply(c, v)
        return d, R.sum(d)
    end = R.scan(step, z, R.const([1.0, 2.0], "float32"))
    return end

@R.function
def helper(p: R.Tensor((2, 3), "float32")):
    q = R.exp(p)
    return q
""")
ARGS = [np.ones((2, 4), "float32"), np.ones((4, 3), "float32")]


def places(mod: IRModule, name: str, legalized: bool) -> set[str]:
    """What the metadata of a compiled program names."""
    function = build(mod, legalized=legalized)[name]
    text = function.lowered(ARGS).compile().as_text()
    return set(re.findall(r'op_name="([^"]*)"', text))


def test_an_operation_names_its_binding_and_its_operator() -> None:
    found = places(MODULE, "main", legalized=False)
    assert "jit(main)/main.y/relax.matmul/dot_general" in found
    # The second `y` is printed as `y_1`.
    assert "jit(main)/main.y_1/relax.nn.softmax/exp" in found


def test_branches_calls_and_loops_are_part_of_the_place() -> None:
    text = "\n".join(places(MODULE, "main", legalized=False))
    assert re.search(r"main\.z/cond/.*/main\.z_else/relax\.cos/cos", text)
    assert re.search(r"main\.z_then/helper\.q/relax\.exp/exp", text)
    assert re.search(r"main\.end/relax\.scan/while/.*main\.step\.\w+/relax\.sum/reduce_sum", text)


def test_a_legalised_program_names_the_bindings_that_it_prints() -> None:
    found = places(MODULE, "main", legalized=True)
    assert "jit(main)/main.y/dot_general" in found
    exponential = next(p for p in found if p.startswith("jit(main)/main.y") and p.endswith("/exp"))
    binding = exponential.split("/")[1].removeprefix("main.")
    assert re.search(rf"{binding}: .* = L\.exp\(", build(MODULE).mod.script())


def test_the_backward_program_names_adjoints() -> None:
    mod = parse_flow("y = R.matmul(x, w)\nloss = R.sum(y)\nreturn loss", x=(2, 4), w=(4, 3))
    found = places(Gradient("main")(mod), "main_adjoint", legalized=False)
    assert any(re.search(r"main_adjoint\.w_adjoint\w*/relax\.matmul/", place) for place in found)


def test_every_variable_has_a_name_of_its_own() -> None:
    function = MODULE["main"]
    assert isinstance(function, Function)
    names = variable_names(function)
    assert len(set(names.values())) == len(names)
    assert {"x", "w", "y", "y_1", "z_then", "step", "c", "d"} <= set(names.values())
