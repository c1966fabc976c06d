"""Another batch size."""

import numpy as np
import pytest
from parsing import parse_functions

from relaxjax.ir import IRModule, assert_structural_equal
from relaxjax.lowering import to_jax
from relaxjax.passes import BindSymbolicVars, ChangeBatch, Gradient
from relaxjax.testing.equations import run

MODEL = """
@R.function
def main(
    x: R.Tensor(({n}, 3, 4), "float32"),
    w: R.Tensor((12, 5), "float32"),
    y: R.Tensor((5, {n}), "float32"),
):
    with R.dataflow():
        a = R.reshape(x, R.shape([{n}, 12]))
        b = R.matmul(a, w)
        c = R.broadcast_to(R.expand_dims(b, axis=0), R.shape([2, {n}, 5]))
        d = R.permute_dims(c, [1, 0, 2])
        e = R.reshape(d, R.shape([{twice}, 5]))
        f = R.add(e, R.zeros(R.shape([5]), "float32"))
        g = R.matmul(f, y)
        h = R.add(g, R.ones(R.shape([{n}]), "float32"))
        loss = R.sum(h)
        R.output(loss)
    return loss
"""


def model(size: int) -> IRModule:
    return parse_functions(MODEL.format(n=size, twice=2 * size))


def test_shapes_inside_follow() -> None:
    changed = ChangeBatch({"x": 0, "y": 1}, 7)(model(6))
    assert str(changed) == str(model(7))
    assert ChangeBatch({"x": 0, "y": 1}, 7)(changed) is changed


def test_the_backward_program_changes_too() -> None:
    text = """
@R.function
def main(x: R.Tensor(({n}, 3, 4), "float32"), w: R.Tensor((12, 5), "float32")):
    a = R.reshape(x, R.shape([{n}, 12]))
    b = R.matmul(a, w)
    c = R.nn.log_softmax(b)
    d = R.sum(c, axis=1)
    e = R.multiply(d, R.ones(R.shape([{n}]), "float32"))
    loss = R.sum(e)
    return loss
"""
    adjoint = Gradient("main")(parse_functions(text.format(n=6)))
    changed = ChangeBatch({"x": 0}, 7)(adjoint)
    expected = Gradient("main")(parse_functions(text.format(n=7)))
    assert str(changed) == str(expected)
    random = np.random.default_rng(0)
    args = [np.asarray(random.normal(size=p.ty.dims), "float32") for p in expected["main"].params]
    found = run(to_jax(changed, "main_adjoint"), *args)
    wanted = run(to_jax(expected, "main_adjoint"), *args)
    for one, other in zip(found[1], wanted[1], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_a_parameter_can_be_given_as_a_variable() -> None:
    module = model(6)
    x, _, y = module["main"].params
    assert str(ChangeBatch({x: 0, y: -1}, 7)(module)) == str(model(7))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"x": 0, "y": 1, "q": 0}, "no function has a parameter `q`"),
        ({"xx": 0, "y": 1}, r"no function has a parameter `xx`; did you mean `x`\?"),
        ({"x": 3}, r"`x` is of type .*: it has no axis 3"),
        ({"x": 0, "y": 0}, r"one number for all parameters, found \['5', '6'\]"),
    ],
)
def test_what_has_no_batch(data: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ChangeBatch(data, 7)(model(6))


def test_a_symbolic_batch_is_bound_otherwise() -> None:
    module = parse_functions(
        '@R.function\ndef main(x: R.Tensor(("n",), "float32")):\n    return x\n'
    )
    with pytest.raises(ValueError, match="found \\['n'\\]: BindSymbolicVars gives a dimension"):
        ChangeBatch({"x": 0}, 7)(module)


def test_a_size_that_two_dimensions_have() -> None:
    """It cannot be told which one a shape means: the message says how to tell, and that helps."""
    text = """
@R.function
def main(x: R.Tensor(({batch}, 3), "float32")):
    z = R.zeros(R.shape([3]), "float32")
    y = R.add(x, z)
    return y
"""
    with pytest.raises(ValueError, match=r"relax.zeros: the shape .* names 3, which is the batch"):
        ChangeBatch({"x": 0}, 7)(parse_functions(text.format(batch=3)))
    with pytest.raises(ValueError, match=r'size by BindSymbolicVars\(\{"batch": 7\}\)'):
        ChangeBatch({"x": 0}, 7)(parse_functions(text.format(batch=3)))
    named = parse_functions(text.format(batch='"batch"'))
    changed = BindSymbolicVars({"batch": 7})(named)
    assert_structural_equal(changed, parse_functions(text.format(batch=7)))


def test_elements_that_come_apart() -> None:
    """The batch is neither the first part of an axis nor all of it."""
    text = (
        '@R.function\ndef main(x: R.Tensor((4, 6), "float32")):\n'
        "    y = R.reshape(x, R.shape([3, 8]))\n    return y\n"
    )
    with pytest.raises(ValueError, match=r"the axis of size 4 in \(4, 6\) is no part of an axis"):
        ChangeBatch({"x": 0}, 5)(parse_functions(text))
