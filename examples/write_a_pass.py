"""Write a pass of your own: a function from function to function that others may follow.

    python examples/write_a_pass.py

People write `x * sigmoid(x)`, which is one operator: silu. The pass finds it through the bindings.
In a Sequential dead code goes after it; what Gradient then writes is shorter too. A pass that
changes what is computed, as from relu to gelu, must run before Gradient: after it, the forward half
alone would change, and the gradients would stay those of relu.
"""

from itertools import permutations
from typing import Any, no_type_check

import numpy as np

from relaxjax import Call, Function, IRModule, Var, to_jax
from relaxjax.ir.expr import Expr
from relaxjax.ir.walk import post_order, rewrite
from relaxjax.passes import DeadCodeElimination, Gradient, Sequential, pass_factory
from relaxjax.script import ir as I
from relaxjax.script import relax as R


@I.ir_module
class Model(I.Module):
    @R.function
    @no_type_check
    def main(x: R.Tensor((4, 3), "float32"), w: R.Tensor((3, 5), "float32")) -> R.Tensor(
        (), "float32"
    ):
        with R.dataflow():
            y = R.matmul(x, w)
            gate = R.sigmoid(y)
            hidden = R.multiply(gate, y)
            loss = R.sum(hidden)
            R.output(loss)
        return loss


def operands(expr: Expr | None, name: str) -> tuple[Expr, ...]:
    """The arguments of a call of this operator; none where it is something else."""
    return expr.args if isinstance(expr, Call) and str(expr.op) == name else ()


@pass_factory(opt_level=1, kind="function")
def UseSilu(function: Function, mod: IRModule) -> Function:
    """Replace x * sigmoid(x) by silu(x)."""
    values = {binding.var: binding.value for binding in function.body.bindings()}

    def simpler(expr: Expr) -> Expr:
        for x, gate in permutations(operands(expr, "relax.multiply"), 2):
            value = values.get(gate) if isinstance(gate, Var) else None
            if operands(value, "relax.sigmoid") == (x,):
                silu: Expr = R.nn.silu(x)
                return silu
        return expr

    result = rewrite(function, simpler)
    assert isinstance(result, Function)
    return result


def gradients(mod: IRModule) -> tuple[int, list[Any]]:
    """How many operators the adjoint calls, and what it gives."""
    adjoint = Gradient("main")(mod)
    calls = [e for e in post_order(adjoint["main_adjoint"]) if isinstance(e, Call)]
    rng = np.random.default_rng(0)
    args = [rng.normal(size=shape).astype("float32") for shape in ((4, 3), (3, 5))]
    return len(calls), [np.asarray(g) for g in to_jax(adjoint, "main_adjoint")(*args)[1]]


def main() -> float:
    """Print the program before and after; the largest difference between their gradients."""
    optimize = Sequential([UseSilu(), DeadCodeElimination()])
    modules: list[Any] = [Model, optimize(Model)]
    for mod in modules:
        mod["main"].show(show_all_types=False)
    (before, expected), (after, found) = map(gradients, modules)
    difference = max(float(abs(a - b).max()) for a, b in zip(found, expected, strict=True))
    print(f"the adjoint calls {after} operators instead of {before}")
    print(f"largest difference between the gradients {difference:.1e}")
    return difference


if __name__ == "__main__":
    main()
