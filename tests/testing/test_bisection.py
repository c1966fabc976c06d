"""Which binding has a wrong gradient, found by running ever smaller parts of a program."""

import numpy as np
import pytest
from cubes import cube_operator, right, wrong
from parsing import parse_functions

from relaxjax.ir import BlockBuilder, Expr, TensorType, Var
from relaxjax.ir.op import OPS
from relaxjax.testing import GradientCheckError, check_gradients
from relaxjax.testing.bisection import Bisection

BRANCHED = """
@R.function(private=True)
def waves(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
    n = T.int64()
    a = R.sin(x)
    b = R.test_cube(a)
    c = R.cos(R.reshape(b, R.shape([n])))
    return c

@R.function
def main(x: R.Tensor(("n",), "float32"), c: R.Tensor((), "bool")):
    n = T.int64()
    @R.function
    def twice(z: R.Tensor((n,), "float32")) -> R.Tensor((n,), "float32"):
        o = R.multiply(z, R.exp(x))
        return o
    y = twice(x)
    with R.dataflow():
        h = R.sin(y)
        i = R.astype(R.multiply(h, R.const(3.0, "float32")), "int32")
        k = R.multiply(R.astype(i, "float32"), y)
        R.output(h, k)
    if R.logical_not(c):
        s = R.sin(h)
        t = Module.waves(s)
        r = R.multiply(t, k)
    else:
        r = R.exp(h)
    loss = R.sum(r)
    return loss
"""


@pytest.mark.usefixtures("own_operators")
def test_a_fault_is_found_inside_a_branch_of_a_function_that_is_called() -> None:
    cube_operator("relax.test_cube", wrong, lambda t, y, x: right(t[0], y, x))
    module = parse_functions(BRANCHED)
    args = np.asarray([0.3, 0.7], "float32"), np.asarray(False)
    with pytest.raises(GradientCheckError) as caught:
        check_gradients(module, args=args)
    message = str(caught.value)
    assert message.count("rule of") == 1
    assert "the gradient rule of relax.test_cube is wrong: found" in message
    assert "b = R.test_cube(a)" in message
    check_gradients(module, args=(args[0], np.asarray(True)))


@pytest.mark.usefixtures("own_operators")
def test_it_is_found_by_halving() -> None:
    """Of 64 bindings 12 runs are tried beside the whole, two at each depth."""
    cube = cube_operator("relax.test_cube", wrong, lambda t, y, x: right(t[0], y, x))
    builder, x = BlockBuilder(), Var("x", TensorType((3,), "float32"))
    with builder.function("main", [x]):
        value: Expr = x
        for index in range(64):
            value = builder.emit(cube(value) if index == 41 else OPS["relax.sin"](value))
        builder.emit_func_output(value)
    search = Bisection(builder.get())
    (line,) = search.function(builder.get()["main"], [np.asarray([0.3, 0.5, 0.8], "float32")])
    assert line.startswith("the gradient rule of relax.test_cube is wrong")
    assert search.tried == 13
