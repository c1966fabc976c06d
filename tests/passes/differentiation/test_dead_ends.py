"""What is named where no gradient comes through."""

from typing import Any

import pytest

from relaxjax.passes.training.check_trains import dead_ends
from relaxjax.script import from_source

SCRIPT = """
@R.function
def f(x: R.Tensor((3,), "float32"), w: R.Tensor((3,), "float32")):
    R.func_attr({"relax.force_pure": True})
    a = R.multiply(x, w)
    unused = R.sign(a)
    b = R.floor(a)
    c = R.greater(b, x)
    d = R.less(a, x)
    e = R.where(R.logical_and(c, d), b, x)
    loss = R.sum(e)
    return loss
"""


def test_each_is_named_once_with_its_line() -> None:
    function: Any = from_source(SCRIPT, file="model.py")
    x, w = function.params
    loss = function.body.body
    bindings = tuple(function.body.bindings())
    first, second = dead_ends(bindings, [loss], [w])
    assert first.startswith("  `b`: the derivative of relax.floor is zero\n  at model.py:7:5\n")
    assert second.startswith(
        '  `d`: it is a R.Tensor((3,), dtype="bool"), which has no derivative\n  at model.py:9:5'
    )
    assert not list(dead_ends(bindings, [bindings[0].var], [w]))
    assert len(list(dead_ends(bindings, [loss], [x]))) == 3


@pytest.mark.parametrize("branch", ["R.floor(a)", "R.sign(a)"])
def test_a_choice_is_named_as_a_whole(branch: str) -> None:
    function: Any = from_source(f"""
@R.function
def f(a: R.Tensor((), "float32"), c: R.Tensor((), "bool")):
    if c:
        y = {branch}
    else:
        y = R.ceil(a)
    return y
""")
    (end,) = dead_ends(tuple(function.body.bindings()), [function.body.body], function.params[:1])
    assert end.startswith("  `y`: its derivative is zero")
