"""Whether two modules compute the same, on drawn arguments."""

from typing import Any

import chex
import jax
import numpy as np
from quickly_compiled_programs import QUICK

from relaxjax.ir import Call, Function, IRModule, Op, TensorType
from relaxjax.ir.walk import post_order
from relaxjax.lowering import to_jax


def drawn_arguments(function: Function, seed: int = 0) -> list[np.ndarray[Any, Any]]:
    """An array for each parameter, away from zero, a symbolic dimension being 2."""
    random = np.random.default_rng(seed)
    found = []
    for param in function.params:
        assert isinstance(param.ty, TensorType)
        shape = [dim if isinstance(dim, int) else 2 for dim in param.ty.dims or ()]
        found.append(np.asarray(random.uniform(0.2, 1.2, shape), param.ty.dtype))
    return found


def results(module: IRModule, name: str, args: list[Any]) -> Any:
    """What a function of the module gives, compiled quickly."""
    return jax.jit(to_jax(module, name), compiler_options=QUICK)(*args)


def assert_same_results(
    before: IRModule, after: IRModule, name: str = "main", tolerance: float = 1e-4
) -> None:
    """Both modules give the same results for the function `name`."""
    function = before[name]
    assert isinstance(function, Function)
    args = drawn_arguments(function)
    expected, found = results(before, name, args), results(after, name, args)
    chex.assert_trees_all_equal_shapes_and_dtypes(found, expected)
    chex.assert_trees_all_close(found, expected, rtol=tolerance, atol=tolerance)


def calls_of(module: IRModule, op: str, name: str = "main") -> list[Call]:
    """The calls of the operator `relax.<op>` in a function."""
    inside = post_order(module.functions[module.get_global_var(name)])
    calls = (expr for expr in inside if isinstance(expr, Call) and isinstance(expr.op, Op))
    return [call for call in calls if isinstance(call.op, Op) and call.op.name == f"relax.{op}"]
