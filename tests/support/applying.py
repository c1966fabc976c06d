"""One operator on arrays, for tests that compare its numbers."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from operator_evaluation import evaluate, reverse
from quickly_compiled_programs import QUICK

from relaxjax.ir import Expr, TensorType, Type, Var
from relaxjax.ops.emit import call


def applied(name: str, *args: Any, **attrs: Any) -> Any:
    """What the operator `relax.<name>` makes of arrays; everything else stands as it is."""
    variables = {
        index: Var(f"x{index}", TensorType(arg.shape, str(arg.dtype)))
        for index, arg in enumerate(args)
        if isinstance(arg, np.ndarray)
    }
    made = call(name, *(variables.get(index, arg) for index, arg in enumerate(args)), **attrs)

    def run(*arrays: Any) -> Any:
        return evaluate(made, dict(zip(variables.values(), arrays, strict=True)))

    quick = jax.jit(run, compiler_options=QUICK)
    return jax.tree.map(np.asarray, quick(*(args[index] for index in variables)))


def inferred(name: str, *args: Any, **attrs: Any) -> Type | None:
    """The type of a call on variables of the given types."""
    given = [Var(f"x{i}", arg) if isinstance(arg, Type) else arg for i, arg in enumerate(args)]
    return call(name, *given, **attrs).ty


def tensor(*shape: Any, dtype: str | None = "float32") -> TensorType:
    return TensorType(shape, dtype)


def var(array: Any) -> Var:
    return Var("x", TensorType(array.shape, str(array.dtype)))


def gradient(build: Callable[..., Expr], *arrays: Any) -> list[Any]:
    """The adjoints of arrays, for an adjoint of ones, by the operators' own rules."""
    variables = [var(array) for array in arrays]
    env = dict(zip(variables, map(jnp.asarray, arrays), strict=True))
    expr = build(*variables)
    adjoints = reverse(expr, jax.tree.map(jnp.ones_like, evaluate(expr, env)), env)
    return [adjoints.get(v) for v in variables]
