"""Scalars of the host beside tensors, and where they stand for what they cannot be."""

import chex
import numpy as np
import pytest
from parsing import parse_main

from relaxjax.lowering import VirtualMachine, build
from relaxjax.passes import Gradient
from relaxjax.script.errors import ScriptError

X = 'x: R.Tensor((3,), "float32")'
XS = np.array([1.0, -2.0, 3.0], "float32")


@pytest.mark.parametrize(
    ("params", "value", "given", "wanted"),
    [
        (X, "R.add(x, R.prim_value(T.float32(2)))", (XS,), XS + 2),
        (X, "R.less(T.float32(0), x)", (XS,), XS > 0),
        (f'{X}, v: R.Prim("float32")', "R.multiply(x, v)", (XS, 0.5), XS / 2),
        (f'{X}, v: R.Prim("float32")', "R.subtract(v, x)", (XS, np.inf), np.inf - XS),
        ('x: R.Tensor((2,), "int64"), n: R.Prim("int64")', "R.add(n, x)", ([1, 2], 4), [5, 6]),
        ('x: R.Tensor(("n",), "int64")', "R.multiply(x, R.prim_value(n))", ([1, 2],), [2, 4]),
        ('x: R.Tensor((2,), "bool")', "R.logical_or(x, T.bool(True))", ([True, False],), [1, 1]),
    ],
)
def test_a_scalar_of_the_host_is_an_operand(
    params: str, value: str, given: tuple[object, ...], wanted: object
) -> None:
    declared = "n = T.int64()\n" if '"n"' in params else ""
    mod = parse_main(f"{declared}y = {value}\nreturn y", params)
    args = [np.array(one) if isinstance(one, list) else one for one in given]
    found = VirtualMachine(build(mod))["main"](*args)
    np.testing.assert_array_equal(np.asarray(found), wanted)


def test_its_dtype_is_that_of_the_tensor() -> None:
    with pytest.raises(ScriptError, match="`x1` is float32 and `x2` is int64"):
        parse_main("y = R.add(x, R.prim_value(2))\nreturn y", X)


def test_the_gradient_is_that_of_the_tensor() -> None:
    mod = parse_main("y = R.sum(R.power(x, v))\nreturn y", x=(3,), v='R.Prim("float32")')
    adjoint = Gradient("main", require_grads=[mod["main"].params[0]])(mod)
    _, (gradient,) = VirtualMachine(build(adjoint))["main_adjoint"](XS, 2.0)
    chex.assert_trees_all_close(np.asarray(gradient), 2 * XS)


REFUSED = {
    "scalars alone": (
        'a: R.Prim("float32"), b: R.Prim("float32")',
        "R.add(a, b)",
        r'one operand must be a tensor, but `a` and `b` are .* type R.Tensor\(\(\), "float32"\)',
    ),
    "a flag": (
        'x: R.Tensor((2,), "bool"), c: R.Prim("bool")',
        "R.logical_and(x, c)",
        r'`c` is a flag of the host .* a parameter of type R.Tensor\(\(\), "bool"\)',
    ),
    "a size": (
        'k: R.Prim("int64")',
        'R.zeros(R.shape([k, 3]), "float32")',
        r'`k` is no dimension: sizes come from types, as `n` of `s: R.Shape\(\["n"\]\)`',
    ),
    "a size among others": (
        'k: R.Prim("int64")',
        'R.full((k, 3), R.const(1.0), "float32")',
        r"`shape` must be a shape such as \(2, n\), .*: `k` is a value, and sizes come from types",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_it_cannot_be(name: str) -> None:
    params, value, message = REFUSED[name]
    with pytest.raises(ScriptError, match=message):
        parse_main(f"y = {value}\nreturn y", params)


def test_a_shape_brings_the_sizes_that_a_scalar_cannot() -> None:
    """As the refusals say."""
    body = "n = T.int64()\ny = R.arange(0, n + 1, 1, dtype='int64')\nreturn y"
    mod = parse_main(body, s='R.Shape(["n"])')
    found = VirtualMachine(build(mod))["main"]((3,))
    np.testing.assert_array_equal(np.asarray(found), np.arange(4))
