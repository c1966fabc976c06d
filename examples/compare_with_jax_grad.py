"""Compare gradients that relaxjax writes as programs with those of jax.grad.

    python examples/compare_with_jax_grad.py

Each function is differentiated twice: by the pass Gradient, which gives a program, and by jax.grad
of the function itself as JAX sees it. JAX does not go back through a loop that a condition ends;
Gradient does, and jax.grad agrees once the loop is unrolled by hand.
"""

from typing import Any, no_type_check

import jax
import numpy as np

from relaxjax import to_jax
from relaxjax.passes import Gradient
from relaxjax.script import ir as I
from relaxjax.script import relax as R


@I.ir_module
class Model(I.Module):
    @R.function
    @no_type_check
    def network(
        w0: R.Tensor((8, 16), "float32"),
        w1: R.Tensor((16, 3), "float32"),
        x: R.Tensor((5, 8), "float32"),
    ) -> R.Tensor((), "float32"):
        with R.dataflow():
            hidden = R.nn.gelu(R.matmul(R.nn.softmax(x, axis=1), w0))
            loss = R.mean(R.max(R.nn.log_softmax(R.matmul(hidden, w1)), axis=1))
            R.output(loss)
        return loss

    @R.function
    @no_type_check
    def branch(x: R.Tensor((8,), "float32")) -> R.Tensor((), "float32"):
        if R.greater(R.sum(x), R.const(0.0, "float32")):  # noqa: SIM108  # it reads better so
            y = R.exp(x)
        else:
            y = R.multiply(x, x)
        loss = R.sum(y)
        return loss  # noqa: RET504  # the target of a gradient is a variable

    @R.function
    @no_type_check
    def loop(x: R.Tensor((8,), "float32")) -> R.Tensor((), "float32"):
        @R.function
        @no_type_check
        def short(y: R.Tensor((8,), "float32")) -> R.Tensor((), "bool"):
            return R.less(R.sum(R.multiply(y, y)), R.const(100.0, "float32"))

        @R.function
        @no_type_check
        def longer(y: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            return R.add(y, R.sinh(y))

        y = R.while_loop(short, longer, x, max_iter=20)
        loss = R.sum(y)
        return loss  # noqa: RET504  # likewise


def unrolled(x: Any) -> Any:
    """The loop in Python, which jax.grad follows."""
    while (x * x).sum() < 100:
        x = x + jax.numpy.sinh(x)
    return x.sum()


def difference(name: str, function: Any, *args: Any) -> float:
    """The largest difference between both gradients, relative to the largest entry."""
    _, found = to_jax(Gradient(name)(Model), f"{name}_adjoint")(*args)
    expected = jax.grad(function, argnums=tuple(range(len(args))))(*args)
    pairs = zip(map(np.asarray, found), map(np.asarray, expected), strict=True)
    return max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in pairs)


def main() -> float:
    """Print how far the gradients are apart; the largest of these numbers."""
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape).astype("float32") for shape in ((8, 16), (16, 3), (5, 8))]
    x = abs(arrays[2][0])
    given: dict[str, Any] = {name: to_jax(Model, name) for name in ("network", "branch", "loop")}
    try:
        jax.grad(given["loop"])(x)
    except ValueError as refusal:
        print(f"jax.grad of the loop: {str(refusal).partition('.')[0]}")
    cases = {"network": arrays, "branch": [x], "loop": [x]}
    functions = {**given, "loop": unrolled}
    found = {name: difference(name, functions[name], *args) for name, args in cases.items()}
    found["branch, the other way"] = difference("branch", functions["branch"], -x)
    for name, far in found.items():
        print(f"{name:22} differs by {far:.1e}")
    return max(found.values())


if __name__ == "__main__":
    main()
