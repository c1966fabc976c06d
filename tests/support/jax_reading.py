"""JAX functions read into IR, for tests that compare the two."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from relaxjax.ir import Function, IRModule, Var
from relaxjax.ir.builder import BlockBuilder, make_function
from relaxjax.ops.lax import JaxSymbols, read_jaxpr, type_of


def read_function(function: Callable[..., Any], *args: Any, **options: Any) -> Function:
    """A JAX function of arrays or abstract values, read into one dataflow block."""
    traced = jax.make_jaxpr(function)(*args)
    symbols, builder = JaxSymbols(), BlockBuilder()
    params = [
        Var(f"x{index}", type_of(var.aval, symbols))
        for index, var in enumerate(traced.jaxpr.invars)
    ]
    with builder.scope([param.name for param in params]):
        with builder.dataflow():
            results = read_jaxpr(traced, params, builder, symbols=symbols, **options)
            outputs = [builder.emit_output(result) for result in results]
        body = builder.sequence(outputs[0] if len(outputs) == 1 else outputs)
    return make_function(params, body)


def read_module(function: Callable[..., Any], *args: Any, **options: Any) -> IRModule:
    """A module with the function `main`, read from JAX."""
    read = read_function(function, *args, **options)
    return IRModule.from_expr(read.with_attr("global_symbol", "main"))


def abstract(*shapes: Any, dtype: str = "float32") -> tuple[jax.ShapeDtypeStruct, ...]:
    """Abstract arrays of one dtype."""
    return tuple(jax.ShapeDtypeStruct(shape, jnp.dtype(dtype)) for shape in shapes)
