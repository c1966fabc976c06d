"""Programs whose gradients TVM 0.27 gets wrong or cannot write: one test for each such case.

Each gradient is compared with JAX's, and along a direction with finite differences.
"""

from typing import Any

import jax
import numpy as np
import pytest
from parsing import parse_functions

from relaxjax.ir import IRModule, well_formed
from relaxjax.lowering import to_jax
from relaxjax.passes import DecomposeOpsForTraining, Gradient
from relaxjax.testing.equations import run

# By the name of the case: the parameters beside `x`, the body, and the shapes of the arguments,
# of which those after `;` are of integers below 2.
X23, Y23 = 'x: R.Tensor((2, 3), "float64")', 'y: R.Tensor((2, 3), "float64")'
CASES = {
    "cumsum, exclusive": (
        'x: R.Tensor((2, 3), "float64"), w: R.Tensor((2, 3), "float64")',
        "loss = R.sum(R.multiply(R.cumsum(x, axis=1, exclusive=True), w))",
        "2,3 2,3",
    ),
    "take along a negative axis": (
        f'{X23}, w: R.Tensor((2, 2), "float64"), i: R.Tensor((2,), "int32")',
        "loss = R.sum(R.multiply(R.take(x, i, axis=-1), w))",
        "2,3 2,2 ; 2",
    ),
    "take with indices of two dimensions": (
        f'{X23}, w: R.Tensor((2, 2, 3), "float64"), i: R.Tensor((2, 2), "int32")',
        "loss = R.sum(R.multiply(R.take(x, i, axis=0), w))",
        "2,3 2,2,3 ; 2,2",
    ),
    "where with operands that broadcast": (
        'x: R.Tensor((3,), "float64"), ' + Y23 + ', c: R.Tensor((2, 1), "float64")',
        "loss = R.sum(R.multiply(R.where(R.greater(c, y), x, y), y))",
        "3 2,3 2,1",
    ),
    "where with a scalar": (
        'x: R.Tensor((), "float64"), y: R.Tensor((2, 3), "float64")',
        "loss = R.sum(R.multiply(R.where(R.greater(x, y), x, y), y))",
        " 2,3",
    ),
    "the value that fills": (
        'x: R.Tensor((), "float64"), y: R.Tensor((2, 3), "float64")',
        (
            'a = R.full(R.shape([2, 3]), x, "float64")\n'
            "b = R.full_like(y, x)\n"
            "loss = R.sum(R.multiply(R.multiply(a, b), y))"
        ),
        " 2,3",
    ),
    "the weights of nll_loss": (
        'x: R.Tensor((2, 3), "float64"), w: R.Tensor((3,), "float64"), t: R.Tensor((2,), "int64")',
        'loss = R.nn.nll_loss(R.nn.log_softmax(x), t, w, reduction="mean")',
        "2,3 3 ; 2",
    ),
    "triu": ('x: R.Tensor((3, 3), "float64")', "loss = R.sum(R.multiply(R.triu(x, 1), x))", "3,3"),
    "conv2d with dilation and padding": (
        'x: R.Tensor((1, 1, 6, 6), "float64"), w: R.Tensor((2, 1, 3, 3), "float64")',
        "y = R.nn.conv2d(x, w, strides=2, padding=1, dilation=2)\nloss = R.sum(R.multiply(y, y))",
        "1,1,6,6 2,1,3,3",
    ),
    "conv2d of NHWC": (
        'x: R.Tensor((1, 4, 4, 2), "float64"), w: R.Tensor((2, 2, 2, 3), "float64")',
        (
            'y = R.nn.conv2d(x, w, data_layout="NHWC", kernel_layout="HWIO")\n'
            "loss = R.sum(R.multiply(y, y))"
        ),
        "1,4,4,2 2,2,2,3",
    ),
    "max_pool2d with dilation": (
        'x: R.Tensor((1, 1, 5, 5), "float64")',
        (
            "y = R.nn.max_pool2d(x, pool_size=(2, 2), strides=(1, 1), dilation=(2, 2))\n"
            "loss = R.sum(R.multiply(y, y))"
        ),
        "1,1,5,5",
    ),
    "concat of what it flattens": (
        'x: R.Tensor((3,), "float64"), y: R.Tensor((2,), "float64"), w: R.Tensor((5,), "float64")',
        "loss = R.sum(R.multiply(R.concat((x, y), axis=None), w))",
        "3 2 5",
    ),
    "a symbolic batch in the shape that an operator is given": (
        'x: R.Tensor(("n", 2, 3), "float64"), b: R.Tensor((6,), "float64")',
        (
            "n = T.int64()\n"
            "f = R.reshape(x, R.shape([n, 6]))\n"
            "s = R.broadcast_to(b, R.shape([n, 6]))\n"
            'z = R.add(R.zeros(R.shape([n, 6]), "float64"), R.ones(R.shape([n, 6]), "float64"))\n'
            'c = R.add(z, R.full(R.shape([n, 6]), R.const(0.5, "float64"), "float64"))\n'
            "loss = R.sum(R.multiply(R.multiply(f, s), c))"
        ),
        "4,2,3 6",
    ),
    "means and variances over a symbolic dimension": (
        'x: R.Tensor(("n", 3), "float64"), w: R.Tensor((3,), "float64")',
        "m = R.multiply(R.mean(x, axis=0), w)\nloss = R.sum(R.multiply(m, R.variance(x, axis=0)))",
        "4,3 3",
    ),
    "cross entropy of a symbolic batch": (
        'x: R.Tensor(("n", 3), "float64"), y: R.Tensor(("n", 3), "float64")',
        "loss = R.nn.cross_entropy_with_logits(R.nn.log_softmax(x), y)",
        "4,3 4,3",
    ),
    "concat along a symbolic dimension": (
        'x: R.Tensor(("n", 3), "float64"), y: R.Tensor((2, 3), "float64")',
        "a = R.concat((x, y), axis=0)\nloss = R.sum(R.multiply(a, a))",
        "4,3 2,3",
    ),
    "conv2d of an image of symbolic size": (
        'x: R.Tensor((1, 1, "h", "w"), "float64"), k: R.Tensor((1, 1, 3, 3), "float64")',
        "y = R.nn.conv2d(x, k, padding=1)\nloss = R.sum(R.multiply(y, y))",
        "1,1,4,5 1,1,3,3",
    ),
}


def arrays(shapes: str) -> list[Any]:
    random = np.random.default_rng(0)
    floats, _, places = shapes.partition(";")

    def sizes(text: str) -> list[list[int]]:
        return [[int(n) for n in item.split(",") if n] for item in text.split(" ")]

    found: list[Any] = [random.uniform(0.5, 1.5, shape) for shape in sizes(floats.rstrip())]
    return found + [random.integers(0, 2, shape) for shape in sizes(places.strip()) if places]


def check(module: IRModule, args: list[Any]) -> None:
    """Compare the gradients by all floats with JAX's and with a finite difference."""
    adjoint = Gradient("main")(module)
    well_formed(adjoint)
    forward = to_jax(module, "main")
    places = [i for i, arg in enumerate(args) if arg.dtype == "float64"]
    with jax.enable_x64(True):
        args = [arg if i in places else arg.astype(_dtype(module, i)) for i, arg in enumerate(args)]
        _, gradients = run(to_jax(adjoint, "main_adjoint"), *args)
        expected = run(jax.grad(forward, places), *args)
        for place, other in zip(places, expected, strict=True):
            assert gradients[place].shape == args[place].shape
            np.testing.assert_allclose(gradients[place], other, rtol=1e-10, atol=1e-12)
        step = {i: 1e-6 * np.cos(np.arange(args[i].size)).reshape(args[i].shape) for i in places}
        ahead, behind = (
            run(forward, *(arg + sign * step.get(i, 0) for i, arg in enumerate(args)))
            for sign in (1, -1)
        )
        slope = sum(np.sum(gradients[i] * step[i]) for i in places)
        np.testing.assert_allclose((ahead - behind) / 2, slope, rtol=1e-5)


def _dtype(module: IRModule, index: int) -> str:
    return str(module["main"].params[index].ty.dtype)


@pytest.mark.parametrize("name", CASES)
def test_the_gradient_is_right(name: str) -> None:
    params, body, shapes = CASES[name]
    lines = "\n    ".join(body.splitlines())
    check(
        parse_functions(f"@R.function\ndef main({params}):\n    {lines}\n    return loss\n"),
        arrays(shapes),
    )


def test_a_private_function_that_is_called_has_a_gradient() -> None:
    """Ours is 2x; TVM's is silently zero."""
    module = parse_functions("""
@R.function(private=True)
def square(x: R.Tensor((4,), "float64")) -> R.Tensor((4,), "float64"):
    y = R.multiply(x, x)
    return y

@R.function
def main(x: R.Tensor((4,), "float64")) -> R.Tensor((), "float64"):
    y = Module.square(x)
    loss = R.sum(y)
    return loss
""")
    check(module, arrays("4"))


def test_layer_norm_over_leading_axes_is_the_same_when_it_is_decomposed() -> None:
    """TVM's decomposition takes gamma and beta for those of the last axes."""
    module = parse_functions("""
@R.function
def main(
    x: R.Tensor((2, 3, 3), "float64"),
    gamma: R.Tensor((3,), "float64"),
    beta: R.Tensor((3,), "float64"),
) -> R.Tensor((), "float64"):
    y = R.nn.layer_norm(x, gamma, beta, axes=[1])
    loss = R.sum(R.multiply(y, y))
    return loss
""")
    args = arrays("2,3,3 3 3")
    decomposed = DecomposeOpsForTraining("main")(module)
    assert "layer_norm" not in decomposed.script()
    with jax.enable_x64(True):
        whole, parts = (run(to_jax(m, "main"), *args) for m in (module, decomposed))
    np.testing.assert_allclose(parts, whole, rtol=1e-12)
    check(decomposed, args)
    check(module, args)
